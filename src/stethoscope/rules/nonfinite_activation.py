"""A layer produced NaN or infinity."""

from __future__ import annotations

from stethoscope.example import REGRESSOR
from stethoscope.rules._nonfinite import NonfiniteRule
from stethoscope.types import (
    Stage,
)


class NonfiniteActivation(NonfiniteRule):
    """A layer produced NaN or infinity.

    What it detects: the first pre-activation or output that is not finite in the forward pass.

    Why it is bad: the loss and every gradient upstream become NaN.

    How to fix: the report's diagnosis says which: too large a learning rate, unscaled inputs, or
    an operation outside its domain.

    False alarms: additive attention masks of minus infinity that a softmax takes in.

    References: DeepLocalize (ICSE'21) EBA and EAA; DeepDiagnosis (ICSE'22) "numerical error".
    """

    code = "F001"
    name = "nonfinite-activation"
    stages = (Stage.PRE_ACTIVATION, Stage.OUTPUT)
    needs = frozenset({Stage.OUTPUT})
    healthy = REGRESSOR.but(hidden=(64, 64))
    faulty = healthy.but(learning_rate=50.0)
