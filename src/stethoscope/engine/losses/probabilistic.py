"""Losses of probabilities, or of the logits before them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stethoscope.engine.arithmetic import EPSILON, clip
from stethoscope.engine.losses._base import Array, Loss, MeanLoss, Pull, same_rank


class BinaryCrossentropy(MeanLoss):
    """-mean(t log p + (1 - t) log(1 - p)), with p in [epsilon, 1 - epsilon].

    Args:
        from_logits: The prediction is a logit x, and p = 1 / (1 + exp(-x)).
        label_smoothing: Share s by which targets are moved: t (1 - s) + s / 2.
        axis: Over which the mean is.
        reduction: See `Loss`.

    >>> loss, gradient = BinaryCrossentropy()(np.array([[1.0]]), np.array([[0.5]]))
    >>> round(loss, 4), gradient
    (0.6931, array([[-2.]]))
    """

    name = "binary_crossentropy"
    aliases = ("bce", "BCE")
    exact = True

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str = "sum_over_batch_size",
    ) -> None:
        super().__init__(reduction)
        self.from_logits = from_logits
        self.label_smoothing = label_smoothing
        self.axis = axis

    def elements(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        target = smooth(target, self.label_smoothing, classes=2)
        if not self.from_logits:
            return binary(target, prediction)
        small = np.exp(-np.abs(prediction))  # never overflows
        elements = np.maximum(prediction, 0) - prediction * target + np.log1p(small)

        def pull(cotangent: float | Array) -> Array:
            gradient: Array = np.where(prediction >= 0, 1, small) / (1 + small)
            gradient -= target
            gradient *= cotangent
            return gradient

        return elements, pull


class CategoricalCrossentropy(Loss):
    """-sum(t log p), with p divided by its sum and then limited to [epsilon, 1 - epsilon].

    Args:
        from_logits: The prediction is a vector of logits, and p its softmax.
        label_smoothing: Share s by which targets are moved: t (1 - s) + s / classes.
        axis: Of the classes.
        reduction: See `Loss`.

    >>> loss, gradient = CategoricalCrossentropy()(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]]))
    >>> round(loss, 4), gradient
    (0.6931, array([[-1.,  1.]]))
    """

    name = "categorical_crossentropy"
    exact = True

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str = "sum_over_batch_size",
    ) -> None:
        super().__init__(reduction)
        self.from_logits = from_logits
        self.label_smoothing = label_smoothing
        self.axis = axis

    def compute(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        return _categorical(
            smooth(target, self.label_smoothing, target.shape[-1]),
            prediction,
            self.axis,
            self.from_logits,
        )


class SparseCategoricalCrossentropy(Loss):
    """`CategoricalCrossentropy` of class ids.

    As in Keras on JAX, an id outside of [0, classes) has loss 0 and no gradient.

    Args:
        from_logits: The prediction is a vector of logits, and p its softmax.
        ignore_class: An id whose samples do not count; None: every sample does.
        axis: Of the classes.
        reduction: See `Loss`.
    """

    name = "sparse_categorical_crossentropy"

    def __init__(
        self,
        from_logits: bool = False,
        ignore_class: int | None = None,
        axis: int = -1,
        reduction: str = "sum_over_batch_size",
    ) -> None:
        super().__init__(reduction)
        self.from_logits = from_logits
        self.ignore_class = ignore_class
        self.axis = axis

    def fit(self, target: Array, prediction: Array) -> tuple[Array, Array]:
        target, prediction = same_rank(np.asarray(target), prediction)
        if target.ndim == prediction.ndim and target.shape[self.axis] == 1:
            target = target.squeeze(self.axis)
        axis = self.axis % prediction.ndim
        expected = prediction.shape[:axis] + prediction.shape[axis + 1 :]
        if target.shape != expected:
            raise ValueError(
                f"{type(self).__name__} of predictions of shape {prediction.shape} takes one class "
                f"id for each, of shape {expected}; got {target.shape}. For one-hot targets use "
                "categorical_crossentropy."
            )
        return target, prediction

    def mask(self, target: Array) -> Array | None:
        return None if self.ignore_class is None else np.asarray(target != self.ignore_class)

    def compute(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        # A product with ones and zeros, not a look-up: NaN then spreads as it does in Keras.
        chosen = one_hot(target, prediction, self.axis)
        values, pull = _categorical(chosen, prediction, self.axis, self.from_logits)
        valid = self.mask(target)
        if valid is None:
            return values, pull
        rows = np.expand_dims(valid, self.axis)
        zero = values.dtype.type(0)
        return np.where(valid, values, zero), lambda cot: np.where(rows, pull(cot), zero)


class KLDivergence(Loss):
    """sum(t log(t / p)), both in [epsilon, 1]."""

    name = "kl_divergence"
    aliases = ("kld", "KLD")

    def compute(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        target = np.minimum(np.maximum(target, EPSILON), 1)
        limited, inside = clip(prediction, EPSILON, 1)
        ratio = target / limited
        values: Array = (target * np.log(ratio)).sum(axis=-1)

        def pull(cotangent: float | Array) -> Array:
            gradient: Array = ratio * -cotangent
            return gradient if inside is None else gradient * inside

        return values, pull


def smooth(target: Array, share: float, classes: int) -> Array:
    """Class probabilities moved towards the uniform ones."""
    if not share:
        return target
    smoothed: Array = target * (1 - share) + share / classes
    return smoothed


def one_hot(ids: Array, prediction: Array, axis: int) -> Array:
    """Ones at the class ids, of the prediction's shape and dtype; other ids have none.

    >>> one_hot(np.array([1, -1, 2]), np.zeros((3, 2)), -1).tolist()
    [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    """
    if np.issubdtype(ids.dtype, np.floating):
        ids = np.trunc(np.nan_to_num(ids, nan=0.0))  # as XLA turns them into integers
    shape = [1] * prediction.ndim
    shape[axis] = -1
    classes = np.arange(prediction.shape[axis]).reshape(shape)
    chosen: Array = np.equal(np.expand_dims(ids, axis), classes)
    return chosen.astype(prediction.dtype)


def normalized(prediction: Array, axis: int) -> tuple[Array, Callable[[Array], Array]]:
    """Probabilities that sum to 1 and are within [epsilon, 1 - epsilon], and their way back."""
    total = prediction.sum(axis=axis, keepdims=True)
    share = prediction / total
    limited, inside = clip(share, EPSILON, 1 - EPSILON)

    def back(gradient: Array) -> Array:
        if inside is not None:
            gradient = gradient * inside
        along = (gradient * share).sum(axis=axis, keepdims=True)
        result: Array = (gradient - along) / total
        return result

    return limited, back


def binary(target: Array, prediction: Array) -> tuple[Array, Pull]:
    """-(t log p + (1 - t) log(1 - p)) of each element, and its way back."""
    p, inside = clip(prediction, EPSILON, 1 - EPSILON)
    other, not_p = 1 - target, 1 - p
    elements = -(target * np.log(p) + other * np.log(not_p))

    def pull(cotangent: float | Array) -> Array:
        gradient: Array = other / not_p - target / p
        gradient *= cotangent
        return gradient if inside is None else gradient * inside

    return elements, pull


def _categorical(
    target: Array, prediction: Array, axis: int, from_logits: bool
) -> tuple[Array, Pull]:
    if not from_logits:
        p, back = normalized(prediction, axis)
        values: Array = -(target * np.log(p)).sum(axis=axis)
        return values, lambda cotangent: back(target / p * -cotangent)
    shifted = prediction - prediction.max(axis=axis, keepdims=True)
    powers = np.exp(shifted)
    total = powers.sum(axis=axis, keepdims=True)
    shifted -= np.log(total)
    values = -(target * shifted).sum(axis=axis)

    def pull(cotangent: float | Array) -> Array:
        gradient: Array = powers * (target.sum(axis=axis, keepdims=True) / total)
        gradient -= target
        gradient *= cotangent
        return gradient

    return values, pull
