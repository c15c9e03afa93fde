"""One step changes a kernel by more than a tenth of its size."""

from __future__ import annotations

from typing import Any

from stethoscope.example import CLASSIFIER, Example
from stethoscope.row import Block
from stethoscope.rules._updates import UpdateRatio
from stethoscope.types import Stage, Stat


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
    streak = 2  # probed steps: the first batch alone may be an odd one
    bound = 0.1  # a hundred times the usual 1e-3
    relation = ">"
    at_once = 0.5  # half a kernel in one step may kill every unit: there is no second look

    def quiet(self, state: Any, block: Block) -> bool:
        if state["told"] or state["count"]:
            return bool(state["told"])
        slots, (moved,) = block.of(Stage.UPDATE, Stat.NORM)
        weights, (size,) = block.of(Stage.WEIGHT, Stat.NORM)
        column = {(slot.layer, slot.param): i for i, slot in enumerate(weights)}
        pairs = [
            (i, column[slot.layer, slot.param])
            for i, slot in enumerate(slots)
            if (slot.layer, slot.param) in column
            and block.program.kernel_shape(slot.layer, slot.param)
        ]
        updates, kernels = [i for i, _ in pairs], [j for _, j in pairs]
        return not bool((moved[:, updates] > self.bound * size[:, kernels]).any())

    def broken(self, ratio: float) -> bool:
        """Whether it moves too far."""
        return ratio > self.bound
