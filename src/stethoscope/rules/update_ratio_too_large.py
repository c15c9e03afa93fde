"""One step changes a kernel by more than a tenth of its size."""

from __future__ import annotations

from stethoscope.example import CLASSIFIER, Example
from stethoscope.rules._updates import UpdateRatio


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
