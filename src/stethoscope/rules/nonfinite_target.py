"""A target batch holds NaN or infinity."""

from __future__ import annotations

from stethoscope.example import REGRESSOR
from stethoscope.rules._nonfinite import NonfiniteRule
from stethoscope.types import (
    Stage,
)


class NonfiniteTarget(NonfiniteRule):
    """A target batch holds NaN or infinity.

    What it detects: at least one element of a target is not finite.

    Why it is bad: the loss of that sample is NaN, and with it every weight after one update.

    How to fix: drop or mask the samples without a target.

    False alarms: losses that skip NaN targets on purpose.

    References: UMLAUT (CHI'21).
    """

    code = "D002"
    name = "nonfinite-target"
    stages = (Stage.TARGET,)
    needs = frozenset({Stage.TARGET})
    healthy = REGRESSOR
    faulty = REGRESSOR.but(inf_target_at=7)
