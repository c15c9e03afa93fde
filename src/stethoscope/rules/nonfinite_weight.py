"""A weight is NaN or infinite."""

from __future__ import annotations

from stethoscope.example import CLASSIFIER, Example
from stethoscope.rules._nonfinite import NonfiniteRule
from stethoscope.types import (
    Stage,
)


class NonfiniteWeight(NonfiniteRule):
    """A weight is NaN or infinite.

    What it detects: a parameter holds a number that is not finite.

    Why it is bad: everything computed with it is not finite; training cannot recover.

    How to fix: restart from the last good checkpoint after mending the cause named above it.

    False alarms: buffers used as masks are not parameters and are not read; neither is a parameter
    that gets no gradient where others do.

    References: DeepLocalize (ICSE'21) EBW.
    """

    code = "W001"
    name = "nonfinite-weight"
    stages = (Stage.WEIGHT,)
    needs = frozenset({Stage.WEIGHT})
    healthy = CLASSIFIER
    faulty = Example(nan_input_at=7)
