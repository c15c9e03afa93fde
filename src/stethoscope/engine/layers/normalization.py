"""Layers that give values mean 0 and variance 1, then a trained scale and offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

import numpy as np

from stethoscope.engine import initializers, regularizers
from stethoscope.engine.initializers import Initializer
from stethoscope.engine.layers._base import Array, Forward, Layer, Mode, Shape, Weights, single
from stethoscope.engine.regularizers import Regularizer
from stethoscope.vocabulary import LayerKind

Axes = tuple[int, ...]


class Settings(TypedDict, total=False):
    """The settings that all normalizations have; defaults in brackets.

    Attributes:
        epsilon: Is added to the variance [0.001].
        center: Whether there is an offset, `beta` [True].
        scale: Whether there is a scale, `gamma` [True].
        beta_initializer: Of the offset ["zeros"].
        gamma_initializer: Of the scale ["ones"].
        beta_regularizer, gamma_regularizer: By name or as one [None].
        name: Unique in the network [numbered by the class].
    """

    epsilon: float
    center: bool
    scale: bool
    beta_initializer: str | Initializer
    gamma_initializer: str | Initializer
    beta_regularizer: str | Regularizer | None
    gamma_regularizer: str | Regularizer | None
    name: str | None


class _Normalization(Layer):
    """y = gamma * (x - mean) / sqrt(variance + epsilon) + beta; what is averaged differs."""

    kind = LayerKind.NORMALIZATION

    def __init__(self, **settings: Unpack[Settings]) -> None:
        super().__init__(name=settings.get("name"))
        unknown = set(settings) - set(Settings.__annotations__)
        if unknown:
            kind, known = type(self).__name__, ", ".join(sorted(Settings.__annotations__))
            raise TypeError(f"{kind} has no setting {', '.join(sorted(unknown))}; it has {known}.")
        self.epsilon = settings.get("epsilon", 1e-3)
        self.center = settings.get("center", True)
        self.scale = settings.get("scale", True)
        self.beta_initializer = initializers.get(settings.get("beta_initializer", "zeros"))
        self.gamma_initializer = initializers.get(settings.get("gamma_initializer", "ones"))
        self.beta_regularizer = regularizers.get(settings.get("beta_regularizer"))
        self.gamma_regularizer = regularizers.get(settings.get("gamma_regularizer"))

    def first_scale(self, shape: Shape, rng: np.random.Generator) -> dict[str, Array]:
        """The first `gamma` and `beta`, where there are such."""
        first = {}
        if self.scale:
            first["gamma"] = self.gamma_initializer(shape, rng)
        if self.center:
            first["beta"] = self.beta_initializer(shape, rng)
        return first

    def scaled(self, normal: Array, weights: Weights, shape: Shape) -> Array:
        """`normal * gamma + beta` in a new array; `shape` broadcasts the weights."""
        if self.scale:
            output = normal * weights["gamma"].reshape(shape)
            if self.center:
                output += weights["beta"].reshape(shape)
            return output
        return normal + weights["beta"].reshape(shape) if self.center else normal

    def scaled_back(
        self, gradient: Array, normal: Array, weights: Weights, axes: Axes
    ) -> dict[str, Array]:
        """The gradients of `gamma` and `beta`, summed over `axes`."""
        gradients = {}
        if self.scale:
            shape = weights["gamma"].shape
            gradients["gamma"] = (gradient * normal).sum(axis=axes).reshape(shape)
        if self.center:
            gradients["beta"] = gradient.sum(axis=axes).reshape(weights["beta"].shape)
        return gradients


class BatchNormalization(_Normalization):
    """Mean and variance of each channel: of the batch in training, else the moving ones.

    A training step moves them to momentum * moving + (1 - momentum) * that of the batch; the
    variance is the biased one, unless `unbiased` is set. With `trainable` False the moving ones
    are used in training too.

    Weights: `gamma`, `beta`, `moving_mean` and `moving_variance`, all [channels].

    Args:
        axis: Of the channels; counts the batch axis.
        momentum: Share of the moving statistics that a step keeps.
        unbiased: The moving variance is that of n - 1 for n values, as in PyTorch; the batch is
            still divided by the biased one.
        **settings: See `Settings`.

    Raises:
        ValueError: The input has no such axis; there is one value with `unbiased`.

    >>> BatchNormalization().shape([(8, 8, 3)])
    (8, 8, 3)
    """

    moving = frozenset({"moving_mean", "moving_variance"})

    def __init__(
        self,
        axis: int = -1,
        momentum: float = 0.99,
        unbiased: bool = False,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.axis = axis
        self.momentum = momentum
        self.unbiased = unbiased

    @property
    def unit_axis(self) -> int:
        return self.axis

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        shape: Shape = single(inputs, self)
        _placed([self.axis], shape, self)
        return shape

    def build(self, inputs: Sequence[Shape], rng: np.random.Generator) -> dict[str, Array]:
        (axis,) = _placed([self.axis], single(inputs, self), self)
        size = (single(inputs, self)[axis - 1],)
        statistics = {"moving_mean": np.zeros(size), "moving_variance": np.ones(size)}
        return self.first_scale(size, rng) | statistics

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = single(inputs, self)
        shape = self._broadcast(x)
        old_mean, old_variance = weights["moving_mean"], weights["moving_variance"]
        if not (mode.training and self.trainable):
            inverse = 1 / np.sqrt(old_variance.reshape(shape) + self.epsilon)
            normal = x - old_mean.reshape(shape)
            normal *= inverse
            return Forward(self.scaled(normal, weights, shape), (normal, inverse, False))
        mean = self._mean(x).reshape(shape)
        normal = x - mean
        variance = self._mean(normal * normal).reshape(shape)
        inverse = 1 / np.sqrt(variance + self.epsilon)
        normal *= inverse
        kept, new = self.momentum, 1 - self.momentum
        moved = {
            "moving_mean": old_mean * kept + mean.reshape(-1) * new,
            "moving_variance": old_variance * kept
            + variance.reshape(-1) * (new * self._correction(x.size // old_mean.size)),
        }
        return Forward(self.scaled(normal, weights, shape), (normal, inverse, True), moved)

    def backward(
        self, gradient: Array, saved: tuple[Array, Array, bool], weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        normal, inverse, of_batch = saved
        shape = self._broadcast(normal)
        of_gamma, of_beta = self._mean(gradient * normal), self._mean(gradient)
        count = normal.size // len(of_beta)
        gradients = {}
        if self.scale:
            gradients["gamma"] = of_gamma * count
            inverse = inverse * weights["gamma"].reshape(shape)
        if self.center:
            gradients["beta"] = of_beta * count
        if not of_batch:
            return [gradient * inverse], gradients
        back = normal * of_gamma.reshape(shape)
        back += of_beta.reshape(shape)
        np.subtract(gradient, back, out=back)
        back *= inverse
        return [back], gradients

    def _correction(self, count: int) -> float:
        """What the variance of `count` values is multiplied by before it is kept."""
        if not self.unbiased:
            return 1.0
        if count < 2:
            raise ValueError(
                f"{self.called} got one value for each channel, which has no "
                "unbiased variance: train on larger batches."
            )
        return count / (count - 1)

    def _broadcast(self, x: Array) -> Shape:
        shape = [1] * x.ndim
        shape[self.axis] = x.shape[self.axis]
        return tuple(shape)

    def _mean(self, x: Array) -> Array:
        """Over all axes but that of the channels."""
        channels = x.shape[self.axis]
        if self.axis % x.ndim == x.ndim - 1:
            rows = x.reshape(-1, channels)
            weight = np.full(len(rows), 1 / max(len(rows), 1), x.dtype)
            mean: Array = weight @ rows  # five times as fast as a mean over the rows
            return mean
        rows = np.moveaxis(x, self.axis, 0).reshape(channels, -1)
        return np.asarray(rows.mean(axis=1))


class LayerNormalization(_Normalization):
    """Mean and variance of each sample, over the given axes.

    Weights: `gamma` and `beta`, of the sizes of those axes.

    Args:
        axis: One or several; they count the batch axis.
        **settings: See `Settings`.

    Raises:
        ValueError: The input has no such axis.

    >>> LayerNormalization().shape([(8, 3)])
    (8, 3)
    """

    def __init__(self, axis: int | Sequence[int] = -1, **settings: Unpack[Settings]) -> None:
        super().__init__(**settings)
        self.axis = axis if isinstance(axis, int) else tuple(axis)

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        shape: Shape = single(inputs, self)
        _placed(self._axes, shape, self)
        return shape

    def build(self, inputs: Sequence[Shape], rng: np.random.Generator) -> dict[str, Array]:
        shape: Shape = single(inputs, self)
        _placed(self._axes, shape, self)
        # Keras orders the weight's axes as they were numbered: -1 comes before 1.
        numbered = sorted(self._axes)
        return self.first_scale(tuple((0, *shape)[axis] for axis in numbered), rng)

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = single(inputs, self)
        axes = _placed(self._axes, x.shape[1:], self)
        normal, inverse = _standardized(x, axes, self.epsilon)
        shape = _only(x.shape, axes)
        return Forward(self.scaled(normal, weights, shape), (normal, inverse, axes))

    def backward(
        self, gradient: Array, saved: tuple[Array, Array, Axes], weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        normal, inverse, axes = saved
        rest = tuple(axis for axis in range(normal.ndim) if axis not in axes)
        gradients = self.scaled_back(gradient, normal, weights, rest)
        if self.scale:
            gradient = gradient * weights["gamma"].reshape(_only(normal.shape, axes))
        return [_standardized_back(gradient, normal, inverse, axes)], gradients

    @property
    def _axes(self) -> Sequence[int]:
        return [self.axis] if isinstance(self.axis, int) else self.axis


class GroupNormalization(_Normalization):
    """Mean and variance of each sample and group of channels.

    Weights: `gamma` and `beta` [channels].

    Args:
        groups: How many groups the channels form; -1 makes every channel one.
        axis: Of the channels; counts the batch axis.
        **settings: See `Settings`.

    Raises:
        ValueError: The channels do not divide into groups, or the input has no such axis.

    >>> GroupNormalization(groups=2).shape([(8, 8, 4)])
    (8, 8, 4)
    """

    def __init__(self, groups: int = 32, axis: int = -1, **settings: Unpack[Settings]) -> None:
        super().__init__(**settings)
        self.groups = groups
        self.axis = axis

    @property
    def unit_axis(self) -> int:
        return self.axis

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        shape: Shape = single(inputs, self)
        (axis,) = _placed([self.axis], shape, self)
        if shape[axis - 1] % self._count(shape[axis - 1]):
            raise ValueError(
                f"{self.called} needs channels that divide into {self.groups} "
                f"groups; got {shape[axis - 1]}."
            )
        return shape

    def build(self, inputs: Sequence[Shape], rng: np.random.Generator) -> dict[str, Array]:
        shape = single(inputs, self)
        (axis,) = _placed([self.axis], shape, self)
        return self.first_scale((shape[axis - 1],), rng)

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = single(inputs, self)
        axis = self.axis % x.ndim
        groups = self._count(x.shape[axis])
        split = (*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :])
        axes = tuple(i for i in range(1, len(split)) if i != axis)
        grouped, inverse = _standardized(x.reshape(split), axes, self.epsilon)
        normal = grouped.reshape(x.shape)
        output = self.scaled(normal, weights, _only(x.shape, (axis,)))
        return Forward(output, (normal, inverse, axes, split))

    def backward(
        self, gradient: Array, saved: tuple[Array, Array, Axes, Shape], weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        normal, inverse, axes, split = saved
        axis = self.axis % normal.ndim
        rest = tuple(i for i in range(normal.ndim) if i != axis)
        gradients = self.scaled_back(gradient, normal, weights, rest)
        if self.scale:
            gradient = gradient * weights["gamma"].reshape(_only(normal.shape, (axis,)))
        grouped = gradient.reshape(split)
        back = _standardized_back(grouped, normal.reshape(split), inverse, axes)
        return [back.reshape(normal.shape)], gradients

    def _count(self, channels: int) -> int:
        return channels if self.groups == -1 else self.groups


def _standardized(x: Array, axes: Axes, epsilon: float) -> tuple[Array, Array]:
    """`x` with mean 0 and variance 1 over `axes`, and what it was multiplied with."""
    normal: Array = x - x.mean(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt((normal * normal).mean(axis=axes, keepdims=True) + epsilon)
    normal *= inverse
    return normal, inverse


def _standardized_back(gradient: Array, normal: Array, inverse: Array, axes: Axes) -> Array:
    """The gradient of x: what changes mean or variance is taken out."""
    back: Array = normal * (gradient * normal).mean(axis=axes, keepdims=True)
    back += gradient.mean(axis=axes, keepdims=True)
    np.subtract(gradient, back, out=back)
    back *= inverse
    return back


def _only(shape: Shape, axes: Axes) -> Shape:
    """`shape` with 1 for every other axis."""
    return tuple(size if axis in axes else 1 for axis, size in enumerate(shape))


def _placed(axes: Sequence[int], shape: Shape, layer: Layer) -> Axes:
    """The axes counted from the front, in their order; `shape` is of one sample."""
    rank = len(shape) + 1
    if any(not -rank <= axis < rank or axis % rank == 0 for axis in axes):
        raise ValueError(
            f"{layer.called} needs an axis of {('batch', *shape)} other "
            f"than the batch axis; got {', '.join(map(str, axes))}."
        )
    return tuple(sorted(axis % rank for axis in axes))
