"""An update is NaN or infinite."""

from __future__ import annotations

from stethoscope.example import CLASSIFIER, Example
from stethoscope.rules._nonfinite import NonfiniteRule
from stethoscope.types import (
    Stage,
)


class NonfiniteUpdate(NonfiniteRule):
    """An update is NaN or infinite.

    What it detects: a parameter changed by a number that is not finite.

    Why it is bad: the parameter is destroyed.

    How to fix: with finite gradients the optimizer itself made it: too large a learning rate or
    an epsilon of 0.

    False alarms: none known.

    References: DeepLocalize (ICSE'21) EBDW.
    """

    code = "W005"
    name = "nonfinite-update"
    stages = (Stage.UPDATE,)
    needs = frozenset({Stage.UPDATE})
    healthy = CLASSIFIER
    faulty = Example(nan_input_at=7)
