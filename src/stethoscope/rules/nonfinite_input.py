"""An input batch holds NaN or infinity."""

from __future__ import annotations

from stethoscope.example import CLASSIFIER, Example
from stethoscope.rules._nonfinite import NonfiniteRule
from stethoscope.types import (
    Stage,
)


class NonfiniteInput(NonfiniteRule):
    """An input batch holds NaN or infinity.

    What it detects: at least one element of an input is not finite.

    Why it is bad: one such element makes the loss, every gradient and, after one update, every
    weight NaN.

    How to fix: find the rows named in the report and drop or fill them; check divisions and
    logarithms in the preprocessing.

    False alarms: models that mask NaN themselves before the first layer.

    References: DeepLocalize (ICSE'21) Algorithm 1; UMLAUT (CHI'21).
    """

    code = "D001"
    name = "nonfinite-input"
    stages = (Stage.INPUT,)
    needs = frozenset({Stage.INPUT})
    healthy = CLASSIFIER
    faulty = Example(nan_input_at=7)
