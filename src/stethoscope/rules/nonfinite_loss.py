"""The loss is NaN or infinite."""

from __future__ import annotations

from stethoscope.example import CLASSIFIER, Example
from stethoscope.rules._nonfinite import NonfiniteRule
from stethoscope.types import (
    Stage,
)


class NonfiniteLoss(NonfiniteRule):
    """The loss is NaN or infinite.

    What it detects: the loss of a step is not a finite number.

    Why it is bad: its gradient is not finite either; one update destroys the weights.

    How to fix: look for what made it (upstream symptoms come first in the report).

    False alarms: none known.

    References: DeepLocalize (ICSE'21) ELF; Keras TerminateOnNaN.
    """

    code = "L001"
    name = "nonfinite-loss"
    stages = (Stage.LOSS,)
    needs = frozenset({Stage.LOSS})
    healthy = CLASSIFIER
    faulty = Example(nan_input_at=7)
