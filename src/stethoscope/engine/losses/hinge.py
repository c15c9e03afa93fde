"""Losses of margins: targets are -1 or 1, or one-hot."""

from __future__ import annotations

import numpy as np

from stethoscope.engine.arithmetic import positive
from stethoscope.engine.losses._base import Array, Loss, MeanLoss, Pull


class Hinge(MeanLoss):
    """mean(max(1 - target prediction, 0)).

    Where every target of a batch is 0 or 1, 0 stands for -1.

    >>> Hinge()(np.array([[0.0, 1.0]]), np.array([[0.5, 0.5]]))
    (1.0, array([[ 0.5, -0.5]]))
    """

    name = "hinge"

    def elements(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        sign = _signs(target)
        margin = 1 - sign * prediction
        return np.maximum(margin, 0), lambda cot: positive(margin) * (sign * -cot)


class SquaredHinge(MeanLoss):
    """mean(max(1 - target prediction, 0)^2), targets as for `Hinge`."""

    name = "squared_hinge"

    def elements(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        sign = _signs(target)
        missing = np.maximum(1 - sign * prediction, 0)
        return missing * missing, lambda cot: missing * (sign * (-2 * cot))


class CategoricalHinge(Loss):
    """max(1 + max((1 - target) prediction) - sum(target prediction), 0) over the last axis."""

    name = "categorical_hinge"

    def compute(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        others = (1 - target) * prediction
        largest = others.max(axis=-1, keepdims=True)
        right = (target * prediction).sum(axis=-1, keepdims=True)
        margin = largest - right + 1

        def pull(cotangent: float | Array) -> Array:
            at = (others == largest).astype(prediction.dtype)
            at /= at.sum(axis=-1, keepdims=True)  # equal largest ones share the gradient
            gradient: Array = ((1 - target) * at - target) * (positive(margin) * cotangent)
            return gradient

        return np.maximum(margin, 0)[..., 0], pull


def _signs(target: Array) -> Array:
    """Targets of -1 and 1; a batch of zeros and ones is converted."""
    if ((target == 0) | (target == 1)).all():
        return 2 * target - 1
    return target
