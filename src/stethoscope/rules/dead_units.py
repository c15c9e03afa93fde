"""Nearly all units of a layer give 0 for every sample."""

from __future__ import annotations

from collections.abc import Sequence

from stethoscope.example import CLASSIFIER
from stethoscope.row import Block, Row
from stethoscope.rules._base import BoolArray, StreakRule
from stethoscope.types import Evidence, Slot, Stage, Stat, SymptomClass
from stethoscope.vocabulary import ACTIVATIONS


class DeadUnits(StreakRule):
    """Nearly all units of a layer give 0 for every sample.

    What it detects: on 5 probed steps in a row, at least 90 % of the units of a ReLU-like layer
    are exactly 0 for every sample and position of the batch.

    Why it is bad: where a ReLU is 0 so is its derivative: no gradient passes, the units cannot
    come back.

    How to fix: a smaller learning rate, scaled inputs, He initialization, biases at 0, leaky ReLU.

    False alarms: 50 to 80 % of zeros is how a ReLU works: it is units that are counted, not
    zeros. In a batch of a few samples many units rest by chance, so small batches need more steps.

    References: Lu et al. 2019 (dying ReLU); DeepDiagnosis (ICSE'22) "dead node", whose share of
    zeros is not used here.
    """

    code = "F003"
    name = "dead-units"
    kind = SymptomClass.SUSPICION
    needs = frozenset({Stage.OUTPUT})
    stage = Stage.OUTPUT
    streak = 5
    healthy = CLASSIFIER
    faulty = CLASSIFIER.but(bias=-10.0)

    share = 0.9  # what is left of the layer is less than a tenth of it

    def may(self, block: Block) -> tuple[list[Slot], BoolArray]:
        """Where the dead share is large."""
        slots, (dead,) = block.of(self.stage, Stat.DEAD_SHARE)
        return slots, dead >= self.share

    def check(self, row: Row, slot: Slot) -> tuple[Sequence[Evidence], str] | None:
        """Dead share of one layer's output."""
        spec = row.program.layer(slot.layer)
        if spec is None or spec.activation not in ACTIVATIONS:
            return None
        dead = row.get(slot, Stat.DEAD_SHARE)
        if not ACTIVATIONS[spec.activation].dies or not dead >= self.share:
            return None
        evidence = [Evidence(f"dead units of {slot.layer}", dead, self.share, ">")]
        return evidence, f"{dead:.0%} of the units of {slot.layer} are 0 for every sample."
