"""Losses with Keras's semantics, and their derivatives."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Loss(abc.ABC):
    """A function of targets and predictions, averaged over the samples of a batch.

    Attributes:
        name: A name of `vocabulary.LOSSES`.
    """

    name: str

    def __call__(
        self, target: Array, prediction: Array, weight: Array | None = None
    ) -> tuple[float, Array]:
        """The loss of a batch and its gradient with respect to the prediction.

        Args:
            target: Of the prediction's shape, or as the loss says; the batch axis first.
            prediction: The model's output.
            weight: One factor for each sample, or for each value that `values` gives.

        Returns:
            Mean over everything that `values` gives (Keras's "sum_over_batch_size"); an array of
            the prediction's shape.
        """
        target = self.fit(target, prediction)
        values, gradient = self.values(target, prediction), self.gradient(target, prediction)
        if weight is not None:
            weight = weight.reshape(weight.shape + (1,) * (values.ndim - weight.ndim))
            values = values * weight
            gradient = gradient * weight[..., None]
        return float(values.mean()), gradient / np.asarray(values.size, gradient.dtype)

    def fit(self, target: Array, prediction: Array) -> Array:
        """The target in the prediction's dtype and rank, as Keras adapts it."""
        target = np.asarray(target, prediction.dtype)
        if target.ndim == prediction.ndim - 1 and prediction.shape[-1] == 1:
            return target[..., None]
        return target

    @abc.abstractmethod
    def values(self, target: Array, prediction: Array) -> Array:
        """The loss of each sample (and position): the last axis of the prediction is reduced."""

    @abc.abstractmethod
    def gradient(self, target: Array, prediction: Array) -> Array:
        """The derivative of the sum of `values` with respect to the prediction."""


class MeanSquaredError(Loss):
    """mean((target - prediction)^2)."""

    name = "mse"

    def values(self, target: Array, prediction: Array) -> Array:
        values: Array = np.square(prediction - target).mean(axis=-1)
        return values

    def gradient(self, target: Array, prediction: Array) -> Array:
        gradient: Array = 2 * (prediction - target) / prediction.shape[-1]
        return gradient


def get(loss: str | Loss) -> Loss:
    """The loss of a name.

    Raises:
        ValueError: There is none of this name.
    """
    if isinstance(loss, Loss):
        return loss
    if loss not in _NAMED:
        raise ValueError(f"unknown loss {loss!r}; known are {', '.join(sorted(_NAMED))}.")
    return _NAMED[loss]()


_NAMED: dict[str, Callable[[], Loss]] = {
    "mse": MeanSquaredError,
    "mean_squared_error": MeanSquaredError,
}
