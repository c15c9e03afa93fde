"""A metric is NaN or infinite."""

from __future__ import annotations

from stethoscope.example import REGRESSOR
from stethoscope.rules._nonfinite import NonfiniteRule
from stethoscope.types import (
    Stage,
)


class NonfiniteMetric(NonfiniteRule):
    """A metric is NaN or infinite.

    What it detects: a metric of a training step is not a finite number.

    Why it is bad: it hides whether the model learns; often a division by an empty class.

    How to fix: guard the division, or fix what makes the loss non-finite.

    False alarms: metrics that are undefined on a batch without positives.

    References: DeepLocalize (ICSE'21) EAF.
    """

    code = "L002"
    name = "nonfinite-metric"
    stages = (Stage.METRIC,)
    needs = frozenset({Stage.METRIC})
    healthy = REGRESSOR
    faulty = REGRESSOR.but(nan_input_at=7)
