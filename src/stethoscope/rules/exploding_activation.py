"""An output grew by orders of magnitude."""

from __future__ import annotations

from stethoscope.example import DIVERGING, REGRESSOR
from stethoscope.rules._growth import GrowthRule
from stethoscope.types import Stage


class ExplodingActivation(GrowthRule):
    """An output grew by orders of magnitude.

    What it detects: the largest element of a layer's output is more than 1000 times what it was
    at the first probed step and above 10,000, on two probed steps in a row.

    Why it is bad: gradients grow with it; the next stop is infinity.

    How to fix: a smaller learning rate; gradient clipping for recurrent networks.

    False alarms: regression on very large targets needs large outputs, but gets there more slowly
    than a blow-up; such a run also learns and is left in peace.

    References: TheDeepChecker; AUTOTRAINER "exploding".
    """

    code = "F002"
    name = "exploding-activation"
    stage = Stage.OUTPUT
    needs = frozenset({Stage.OUTPUT})
    growth = 1e3  # learning moves outputs by a factor of a hundred at most
    large = 1e4  # outputs near 1 at the start
    word = "output"
    healthy = REGRESSOR
    faulty = DIVERGING
