"""A trainable parameter does not change."""

from __future__ import annotations

from stethoscope.example import BINARY
from stethoscope.row import Block, Row
from stethoscope.rules._base import BoolArray, StreakRule
from stethoscope.types import Evidence, Slot, Stage, Stat, SymptomClass


class UnchangedWeight(StreakRule):
    """A trainable parameter does not change.

    What it detects: on 5 probed steps in a row, the update of a trainable parameter is exactly 0
    in every element.

    Why it is bad: that layer does not learn.

    How to fix: look for what stops its gradient (a constant output, dead units, a detached graph)
    or its update (a learning rate of 0).

    False alarms: rows of an embedding that do not occur stay, but not the whole table; frozen
    parameters are not trainable and not read. A suspicion.

    References: DeepDiagnosis (ICSE'22) "unchanged weight"; DeepLocalize (ICSE'21).
    """

    code = "W002"
    name = "unchanged-weight"
    kind = SymptomClass.SUSPICION
    needs = frozenset({Stage.UPDATE})
    stage = Stage.UPDATE
    streak = 5
    healthy = BINARY.but(output_activation="sigmoid", from_logits=False)
    faulty = healthy.but(output_activation="softmax")

    def may(self, block: Block) -> tuple[list[Slot], BoolArray]:
        """Where the update is 0."""
        slots, (low, high) = block.of(self.stage, Stat.MIN, Stat.MAX)
        return slots, (low == 0) & (high == 0)

    def check(self, row: Row, slot: Slot) -> tuple[list[Evidence], str] | None:
        """Largest element of one parameter's update."""
        spec = row.program.layer(slot.layer)
        if spec is not None and spec.trainable is False:
            return None
        low, high = row.get(slot, Stat.MIN), row.get(slot, Stat.MAX)
        if low != 0 or high != 0:
            return None
        name = f"{slot.layer}/{slot.param}"
        return [Evidence(f"update of {name}", 0.0, 0.0, "=")], f"{name} does not change."
