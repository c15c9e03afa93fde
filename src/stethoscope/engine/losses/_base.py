"""What a loss is: values of single samples, the way back through them, and how they are reduced."""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stethoscope.diagnosis import locate
from stethoscope.types import SourceRef

Array = npt.NDArray[Any]
Pull = Callable[[float | Array], Array]
"""Gradient with respect to the values -> gradient with respect to the prediction.

A number stands for the same gradient of every value; an array has the shape of the values with an
axis of size 1 where the loss reduced one.
"""

REDUCTIONS = ("sum_over_batch_size", "mean", "sum", "mean_with_sample_weight")


class Loss(abc.ABC):
    """A function of targets and predictions, reduced to one number for a batch.

    Args:
        reduction: "sum_over_batch_size" (or "mean": the same) divides the sum over all values by
            their number, "mean_with_sample_weight" by the sum of the weights, "sum" by nothing.

    Attributes:
        name: A name of `vocabulary.LOSSES`.
        aliases: Further short names that `get` knows.
        exact: The target must have the prediction's shape; otherwise the two are broadcast.
        aligns: Ranks that differ by an axis of size 1 are made equal, as Keras does.
        axis: Of the prediction, which the values do not have.
        source: The call that constructed it.
        original: The class that it was translated from, where that has another name.

    Raises:
        ValueError: The reduction is unknown, or "none": an optimizer needs one number.
    """

    name: str
    aliases: ClassVar[tuple[str, ...]] = ()
    exact: ClassVar[bool] = False
    aligns: ClassVar[bool] = True
    axis: int = -1
    original: str = ""

    def __init__(self, reduction: str = "sum_over_batch_size") -> None:
        if reduction not in REDUCTIONS:
            raise ValueError(
                f"a loss is reduced to one number by {', '.join(REDUCTIONS)}; got {reduction!r}."
            )
        self.reduction = reduction
        self.source: SourceRef | None = locate.here(sys._getframe(1))

    def __call__(
        self, target: Array, prediction: Array, weight: Array | None = None
    ) -> tuple[float, Array]:
        """The loss of a batch and its gradient with respect to the prediction.

        Args:
            target: Of the prediction's shape, or as the loss says; the batch axis first.
            prediction: The model's output.
            weight: One factor for each sample, or for each of the values.

        Returns:
            The reduced loss; an array of the prediction's shape and dtype.

        Raises:
            ValueError: The shapes do not fit.
        """
        shape = prediction.shape
        target, prediction = self.fit(target, prediction)
        values, pull = self.compute(target, prediction)
        weight = self._weight(weight, self.mask(target), values)
        if weight is None:
            factor = self._factor(values, None)
            total, gradient = float(values.sum()), pull(factor)
        else:
            factor = self._factor(values, weight)
            total = float((values * weight).sum())
            gradient = pull(np.expand_dims(weight * factor, self.axis))
        return total * factor, unbroadcast(gradient, prediction.shape).reshape(shape)

    def values(self, target: Array, prediction: Array) -> Array:
        """The loss of each sample (and position), neither weighted nor reduced."""
        return self.compute(*self.fit(target, prediction))[0]

    def fit(self, target: Array, prediction: Array) -> tuple[Array, Array]:
        """Target and prediction in one dtype and rank, as Keras adapts them.

        Raises:
            ValueError: Their shapes cannot be combined.
        """
        target, prediction = same_rank(np.asarray(target, prediction.dtype), prediction)
        if target.shape != prediction.shape:
            self._check(target.shape, prediction.shape)
        return target, prediction

    def mask(self, target: Array) -> Array | None:
        """Which values count, as booleans; None: all do."""
        return None

    @abc.abstractmethod
    def compute(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        """The loss of each sample (and position), and its way back.

        Args:
            target: As `fit` returned it.
            prediction: Likewise.
        """

    def _check(self, target: tuple[int, ...], prediction: tuple[int, ...]) -> None:
        try:
            fits = not self.exact and bool(np.broadcast_shapes(target, prediction))
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"{type(self).__name__} got targets of shape {target} and predictions of shape "
                f"{prediction}: give the last layer as many units as a target has values, or "
                "reshape the targets."
            )

    def _weight(self, weight: Array | None, mask: Array | None, values: Array) -> Array | None:
        if weight is not None:
            weight = np.asarray(weight, values.dtype)
            if weight.ndim == values.ndim + 1 and weight.shape[-1] == 1:
                weight = weight[..., 0]
            if weight.shape != values.shape[: weight.ndim]:
                raise ValueError(
                    f"sample weights of shape {weight.shape} do not fit losses of shape "
                    f"{values.shape}: give one weight for each sample."
                )
            weight = weight.reshape(weight.shape + (1,) * (values.ndim - weight.ndim))
        if mask is None:
            return weight
        counted = mask.astype(values.dtype)
        if self.reduction in ("sum_over_batch_size", "mean"):
            counted *= mask.size / max(int(mask.sum()), 1)  # the mean is over what counts
        return counted if weight is None else counted * weight

    def _factor(self, values: Array, weight: Array | None) -> float:
        """What the sum of the weighted values is multiplied by."""
        if self.reduction == "sum":
            return 1.0
        if self.reduction == "mean_with_sample_weight" and weight is not None:
            total = float(np.broadcast_to(weight, values.shape).sum())
            return 1 / total if total else 0.0
        return 1 / max(values.size, 1)


class MeanLoss(Loss):
    """A loss that is the mean of independent elements over one axis."""

    def compute(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        elements, pull = self.elements(target, prediction)
        size = elements.shape[self.axis]
        values: Array = elements.sum(axis=self.axis) / size
        return values, lambda cotangent: pull(cotangent / size)

    @abc.abstractmethod
    def elements(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        """The loss of each element, and its way back from the elements."""


def same_rank(target: Array, prediction: Array) -> tuple[Array, Array]:
    """Removes or adds a last axis of size 1 where the ranks differ by one, as Keras does.

    >>> [x.shape for x in same_rank(np.zeros(3), np.zeros((3, 1)))]
    [(3, 1), (3, 1)]
    >>> [x.shape for x in same_rank(np.zeros((3, 2)), np.zeros((3, 2, 1)))]
    [(3, 2), (3, 2)]
    """
    if target.ndim == prediction.ndim + 1 and target.shape[-1] == 1:
        if prediction.ndim == 1:
            return target, prediction[:, None]
        return target[..., 0], prediction
    if prediction.ndim == target.ndim + 1 and prediction.shape[-1] == 1:
        if target.ndim == 1:
            return target[:, None], prediction
        return target, prediction[..., 0]
    return target, prediction


def unbroadcast(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Sums over the axes along which the prediction was repeated."""
    if gradient.shape == shape:
        return gradient
    extra = gradient.ndim - len(shape)
    if extra > 0:
        gradient = gradient.sum(axis=tuple(range(extra)))
    axes = tuple(i for i, size in enumerate(shape) if size == 1 and gradient.shape[i] != 1)
    summed: Array = gradient.sum(axis=axes, keepdims=True) if axes else gradient
    return np.broadcast_to(summed, shape)
