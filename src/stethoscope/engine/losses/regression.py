"""Losses of real targets."""

from __future__ import annotations

import numpy as np

from stethoscope.engine.arithmetic import EPSILON, clip, sign, unit
from stethoscope.engine.losses._base import Array, Loss, MeanLoss, Pull, unbroadcast


class MeanSquaredError(MeanLoss):
    """mean((prediction - target)^2).

    >>> MeanSquaredError()(np.array([[0.0, 0.0]]), np.array([[1.0, 3.0]]))
    (5.0, array([[1., 3.]]))
    """

    name = "mse"
    aliases = ("mse", "MSE")

    def elements(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        error = prediction - target
        return error * error, lambda cotangent: error * (2 * cotangent)


class MeanAbsoluteError(MeanLoss):
    """mean(|prediction - target|)."""

    name = "mae"
    aliases = ("mae", "MAE")

    def elements(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        error = target - prediction
        return np.abs(error), lambda cotangent: sign(error) * -cotangent


class MeanAbsolutePercentageError(MeanLoss):
    """100 mean(|prediction - target| / max(|target|, epsilon))."""

    name = "mape"
    aliases = ("mape", "MAPE")

    def elements(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        error = target - prediction
        scale = 100 / np.maximum(np.abs(target), EPSILON)
        return np.abs(error) * scale, lambda cotangent: sign(error) * (scale * -cotangent)


class MeanSquaredLogarithmicError(MeanLoss):
    """mean((log(1 + prediction) - log(1 + target))^2); both are at least epsilon."""

    name = "msle"
    aliases = ("msle", "MSLE")

    def elements(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        limited, inside = clip(prediction, EPSILON, np.inf)
        limited = limited + 1
        error = np.log(limited) - np.log(np.maximum(target, EPSILON) + 1)

        def pull(cotangent: float | Array) -> Array:
            gradient: Array = error / limited * (2 * cotangent)
            return gradient if inside is None else gradient * inside

        return error * error, pull


class Huber(MeanLoss):
    """The mean of e^2 / 2 where |e| <= delta, else of delta (|e| - delta / 2).

    Args:
        delta: Where the parabola goes over into lines.
        reduction: See `Loss`.
    """

    name = "huber"

    def __init__(self, delta: float = 1.0, reduction: str = "sum_over_batch_size") -> None:
        super().__init__(reduction)
        self.delta = delta

    def elements(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        error = prediction - target
        limited = np.minimum(np.maximum(error, -self.delta), self.delta)
        return limited * (error - 0.5 * limited), lambda cotangent: limited * cotangent


class LogCosh(MeanLoss):
    """mean(log(cosh(prediction - target)))."""

    name = "log_cosh"

    def elements(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        error = prediction - target
        size = np.abs(error)
        elements = size + (np.log1p(np.exp(-2 * size)) - float(np.log(2)))
        return elements, lambda cotangent: np.tanh(error) * cotangent


class Poisson(MeanLoss):
    """mean(prediction - target log(prediction + epsilon))."""

    name = "poisson"

    def elements(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        shifted = prediction + EPSILON
        elements = prediction - target * np.log(shifted)
        return elements, lambda cotangent: (1 - target / shifted) * cotangent


class CosineSimilarity(Loss):
    """Minus the cosine of the angle between target and prediction.

    Args:
        axis: Of the vectors.
        reduction: See `Loss`.
    """

    name = "cosine_similarity"

    def __init__(self, axis: int = -1, reduction: str = "sum_over_batch_size") -> None:
        super().__init__(reduction)
        self.axis = axis

    def compute(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        goal, _ = unit(target, self.axis)
        found, back = unit(prediction, self.axis)
        values: Array = -(goal * found).sum(axis=self.axis)
        return values, lambda cotangent: back(unbroadcast(goal * -cotangent, found.shape))
