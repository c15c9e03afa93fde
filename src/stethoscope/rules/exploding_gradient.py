"""A gradient grew by orders of magnitude."""

from __future__ import annotations

from stethoscope.example import DIVERGING, REGRESSOR
from stethoscope.rules._growth import GrowthRule
from stethoscope.types import Stage


class ExplodingGradient(GrowthRule):
    """A gradient grew by orders of magnitude.

    What it detects: the largest element of a parameter's gradient is more than 1000 times what it
    was at the first probed step and above 100, on two probed steps in a row.

    Why it is bad: one such update undoes everything learned.

    How to fix: a smaller learning rate; gradient clipping; normalization.

    False alarms: a first gradient near 0 (zero-initialized branches) makes the ratio large, which
    is why the second bound is there.

    References: Pascanu et al. 2013; AUTOTRAINER "exploding gradient".
    """

    code = "G002"
    name = "exploding-gradient"
    stage = Stage.WEIGHT_GRAD
    needs = frozenset({Stage.WEIGHT_GRAD})
    growth = 1e3  # gradients fall as a run learns; spikes stay within a factor of a hundred
    large = 100.0  # an update of that size with a usual rate is as large as the weights
    word = "gradient"
    healthy = REGRESSOR
    faulty = DIVERGING
