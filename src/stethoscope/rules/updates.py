"""How far the weights move in a step, against how large they are."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

from stethoscope.example import CLASSIFIER, Example
from stethoscope.program import Program
from stethoscope.rules._base import Rule, StreakRule, at_moment, optimizer_place
from stethoscope.trace import Row
from stethoscope.types import Evidence, Slot, Stage, Stat, Symptom, SymptomClass


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
    healthy = CLASSIFIER
    faulty = Example(
        data="binary",
        outputs=1,
        loss="binary_crossentropy",
        from_logits=False,
        output_activation="softmax",
    )

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


class UpdateRatio(Rule):
    """Update over weight of the kernel that moves most, on several probed steps in a row."""

    kind = SymptomClass.SUSPICION
    needs = frozenset({Stage.UPDATE, Stage.WEIGHT})
    streak: ClassVar[int]
    bound: ClassVar[float]
    relation: ClassVar[str]
    at_once: ClassVar[float] = math.inf
    from_start: ClassVar[bool] = False

    def start(self, program: Program) -> Any:
        return {"count": 0, "told": False}

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        if not row.probed or state["told"]:
            return state, []
        ratios = update_ratios(row)
        if not ratios:
            return state, []
        slot, ratio = max(ratios, key=lambda pair: pair[1])
        if self.from_start and not self.broken(ratio):
            state["told"] = True  # it has moved: what rests later has arrived
            return state, []
        state["count"] = state["count"] + 1 if self.broken(ratio) else 0
        if state["count"] < self.streak and not ratio > self.at_once:
            return state, []
        state["told"] = True
        name = f"{slot.layer}/{slot.param}"
        evidence = [
            Evidence(f"update of {name} over its weight", ratio, self.bound, self.relation),
            Evidence("learning rate", row.scalar(Stage.HYPER, param="learning_rate"), "", "="),
        ]
        place = at_moment(optimizer_place(row.program), row)
        message = f"One step changes {name} by {ratio:.2g} of its size."
        return state, [self.symptom(place, evidence, message)]

    @abstractmethod
    def broken(self, ratio: float) -> bool:
        """Whether the ratio of the kernel that moves most breaks the bound."""


class UpdateTooLarge(UpdateRatio):
    """One step changes a kernel by more than a tenth of its size.

    What it detects: on 2 probed steps in a row, the norm of the update of the kernel that moves
    most is more than 0.1 of the norm of the kernel; or once more than half of it.

    Why it is bad: ten such steps replace the weights; the loss jumps instead of falling.

    How to fix: divide the learning rate by the factor that brings the ratio to about 0.01.

    False alarms: small layers and warm restarts take large steps and learn: a suspicion.

    References: Karpathy, CS231n (about 1e-3); Bottou 2012; TheDeepChecker.
    """

    code = "W003"
    name = "update-ratio-too-large"
    healthy = CLASSIFIER
    faulty = Example(learning_rate=30.0)
    streak = 2
    bound = 0.1  # a hundred times the usual 1e-3
    relation = ">"
    at_once = 0.5  # half a kernel in one step may kill every unit: there is no second look

    def broken(self, ratio: float) -> bool:
        """Whether it moves too far."""
        return ratio > self.bound


class UpdateTooSmall(UpdateRatio):
    """No kernel moves.

    What it detects: on the first 10 probed steps, even the kernel that moves most changes by less
    than 2e-4 of its size in a step, and by more than 0.

    Why it is bad: a kernel needs 5,000 such steps to be replaced once.

    How to fix: multiply the learning rate by the factor that brings the ratio to about 1e-3; where
    the gradient itself vanished, mend that instead.

    False alarms: fine-tuning and the end of a schedule take small steps on purpose: a suspicion.

    References: Karpathy, CS231n (about 1e-3); TheDeepChecker (1e-4).
    """

    code = "W004"
    name = "update-ratio-too-small"
    healthy = CLASSIFIER
    faulty = Example(learning_rate=1e-6)
    streak = 10
    bound = 2e-4  # a fiftieth of a good first step; AdamW fine-tuning at 1e-5 is at 5e-4
    relation = "<"
    from_start = True

    def broken(self, ratio: float) -> bool:
        """Whether it hardly moves."""
        return 0 < ratio < self.bound


class ZeroRate(Rule):
    """The learning rate is 0 from the start.

    What it detects: every parameter group has a learning rate of exactly 0 on the first 10 steps.

    Why it is bad: nothing is learned.

    How to fix: set a rate; check what the schedule gives at its first steps.

    False alarms: the first step of a linear warm-up is 0, ten are not; a group that is frozen by a
    rate of 0 is fine as long as another one learns; a schedule may end at 0.

    References: the schedule mistakes in PyTorch's and Keras's forums.
    """

    code = "W007"
    name = "zero-learning-rate"
    kind = SymptomClass.CONTRADICTION
    needs = frozenset({Stage.HYPER})
    healthy = CLASSIFIER
    faulty = Example(frozen_rate_from=0)
    streak = 10

    def start(self, program: Program) -> Any:
        return {"count": 0, "over": False}

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        if state["over"]:
            return state, []
        rates = [v for slot, v in row.each(Stage.HYPER) if slot.param.startswith("learning_rate")]
        if not rates:
            return state, []
        state["count"] += 1
        state["over"] = any(rates) or state["count"] == self.streak
        if any(rates) or state["count"] < self.streak:
            return state, []
        place = at_moment(optimizer_place(row.program), row)
        evidence = [Evidence("learning rate", 0.0, 0.0, "=")]
        message = f"The learning rate is 0 on all of the first {self.streak} steps."
        return state, [self.symptom(place, evidence, message)]


def update_ratios(row: Row) -> list[tuple[Slot, float]]:
    """|update| / |weight| of every trained matrix and filter of a probed row."""
    found = []
    for slot, norm in row.each(Stage.UPDATE, Stat.NORM):
        spec = row.program.layer(slot.layer)
        shape = spec.params.get(slot.param) if spec else None
        weight = row.get(Slot(slot.layer, slot.param, Stage.WEIGHT), Stat.NORM)
        if spec is None or shape is None or len(shape) < 2 or not weight > 0:
            continue
        found.append((slot, norm / weight))
    return found
