"""No kernel moves."""

from __future__ import annotations

from stethoscope.example import CLASSIFIER, Example
from stethoscope.rules._updates import UpdateRatio


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
    streak = 10  # probed steps: a warm-up has left its first rates by then
    bound = 2e-4  # a fiftieth of a good first step; AdamW fine-tuning at 1e-5 is at 5e-4
    relation = "<"
    from_start = True

    def broken(self, ratio: float) -> bool:
        """Whether it hardly moves."""
        return 0 < ratio < self.bound
