"""A gradient is NaN or infinite."""

from __future__ import annotations

from stethoscope.example import CLASSIFIER, Example
from stethoscope.rules._nonfinite import NonfiniteRule
from stethoscope.types import (
    Stage,
)


class NonfiniteGradient(NonfiniteRule):
    """A gradient is NaN or infinite.

    What it detects: the gradient of a layer's output or of a parameter is not finite.

    Why it is bad: the update makes the weights non-finite.

    How to fix: a finite loss with a non-finite gradient comes from an operation whose derivative
    is infinite there (sqrt at 0, a norm of zeros): add a small constant inside.

    False alarms: float16 with a loss scaler, which skips such steps; those are not reported.

    References: DeepLocalize (ICSE'21) EBDW.
    """

    code = "G003"
    name = "nonfinite-gradient"
    stages = (Stage.OUTPUT_GRAD, Stage.WEIGHT_GRAD)
    needs = frozenset({Stage.WEIGHT_GRAD})
    healthy = CLASSIFIER
    faulty = Example(nan_input_at=7)
