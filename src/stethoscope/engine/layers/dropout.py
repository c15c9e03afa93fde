"""Layers that disturb what they hand on, in training only."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stethoscope.engine.activations.smooth import SELU_ALPHA, SELU_SCALE
from stethoscope.engine.layers._base import Array, Forward, Layer, Mode, Shape, Weights, single
from stethoscope.vocabulary import LayerKind


class _Disturbance(Layer):
    """Hands on its input, but in training y = scale * x + offset with random factors."""

    kind = LayerKind.DROPOUT

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        shape: Shape = single(inputs, self)
        return shape

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = single(inputs, self)
        return self.disturb(x, mode.rng) if mode.training else Forward(x)

    def backward(
        self, gradient: Array, saved: Any, weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        return [gradient if saved is None else gradient * saved], {}

    @abc.abstractmethod
    def disturb(self, x: Array, rng: np.random.Generator) -> Forward:
        """The output in training; what is saved is the factor of the gradient, None for 1."""


def _drop(x: Array, rate: float, shape: Shape, rng: np.random.Generator) -> Forward:
    """`x / (1 - rate)`, and 0 at a share `rate` of the places; `shape` broadcasts to x's."""
    if rate == 0:
        return Forward(x)
    if rate == 1:
        return Forward(np.zeros_like(x), np.zeros((), x.dtype))
    dropped = rng.random(shape, dtype=np.float32) < rate
    output = x / (1 - rate)
    np.copyto(output, 0, where=dropped)  # a product would keep an infinity or a NaN
    scale = (~dropped).astype(x.dtype)
    scale /= 1 - rate
    return Forward(output, scale)


def _share(layer: Layer, rate: float) -> float:
    if not 0 <= rate <= 1:
        raise ValueError(f"{type(layer).__name__} needs a rate between 0 and 1; got {rate}.")
    return rate


class Dropout(_Disturbance):
    """In training a random share of the values becomes 0, the others are divided by the rest.

    Args:
        rate: The share that is dropped.
        noise_shape: Axes of size 1 are dropped as a whole; None stands for the input's own size.
            With the batch axis.
        name: Unique in the network.

    Raises:
        ValueError: The rate is not between 0 and 1.

    >>> Dropout(0.5).shape([(3,)])
    (3,)
    """

    def __init__(
        self,
        rate: float,
        noise_shape: Sequence[int | None] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self.rate = _share(self, rate)
        self.noise_shape = None if noise_shape is None else tuple(noise_shape)

    def disturb(self, x: Array, rng: np.random.Generator) -> Forward:
        shape = x.shape
        if self.noise_shape is not None:
            pairs = zip(self.noise_shape, x.shape, strict=True)
            shape = tuple(own if size is None else size for size, own in pairs)
        return _drop(x, self.rate, shape, rng)


class SpatialDropout1D(_Disturbance):
    """In training whole channels of [steps, channels] become 0.

    Args:
        rate: The share of channels that is dropped.
        name: Unique in the network.
    """

    def __init__(self, rate: float, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.rate = _share(self, rate)

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        return _of_rank(single(inputs, self), 2, self)

    def disturb(self, x: Array, rng: np.random.Generator) -> Forward:
        return _drop(x, self.rate, (x.shape[0], 1, x.shape[2]), rng)


class SpatialDropout2D(_Disturbance):
    """In training whole channels of an image become 0.

    Args:
        rate: The share of channels that is dropped.
        data_format: "channels_last" or "channels_first".
        name: Unique in the network.

    Raises:
        ValueError: There is no such data format.
    """

    def __init__(
        self, rate: float, data_format: str = "channels_last", *, name: str | None = None
    ) -> None:
        super().__init__(name=name)
        self.rate = _share(self, rate)
        if data_format not in ("channels_last", "channels_first"):
            raise ValueError(
                'SpatialDropout2D needs data_format "channels_last" or "channels_first"; '
                f"got {data_format!r}."
            )
        self.data_format = data_format

    @property
    def unit_axis(self) -> int:
        return -1 if self.data_format == "channels_last" else 1

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        return _of_rank(single(inputs, self), 3, self)

    def disturb(self, x: Array, rng: np.random.Generator) -> Forward:
        shape = [x.shape[0], 1, 1, 1]
        shape[self.unit_axis] = x.shape[self.unit_axis]
        return _drop(x, self.rate, tuple(shape), rng)


class GaussianNoise(_Disturbance):
    """In training y = x + n with n normal.

    Args:
        stddev: Standard deviation of n.
        name: Unique in the network.
    """

    def __init__(self, stddev: float, *, name: str | None = None) -> None:
        super().__init__(name=name)
        if not 0 <= stddev <= 1:
            raise ValueError(f"GaussianNoise needs a stddev between 0 and 1; got {stddev}.")
        self.stddev = stddev

    def disturb(self, x: Array, rng: np.random.Generator) -> Forward:
        if self.stddev == 0:
            return Forward(x)
        noise = _normal(x, rng)
        noise *= self.stddev
        noise += x
        return Forward(noise)


class GaussianDropout(_Disturbance):
    """In training y = x n with n normal around 1, of variance rate / (1 - rate).

    Args:
        rate: As that of `Dropout`, whose mean and variance n has; below 1.
        name: Unique in the network.
    """

    def __init__(self, rate: float, *, name: str | None = None) -> None:
        super().__init__(name=name)
        if not 0 <= rate < 1:
            raise ValueError(f"GaussianDropout needs a rate from 0 to below 1; got {rate}.")
        self.rate = rate

    def disturb(self, x: Array, rng: np.random.Generator) -> Forward:
        if self.rate == 0:
            return Forward(x)
        factor = _normal(x, rng)
        factor *= math.sqrt(self.rate / (1 - self.rate))
        factor += 1
        return Forward(x * factor, factor)


class AlphaDropout(_Disturbance):
    """Dropout for SELU: what is dropped saturates, and mean and variance are kept.

    With d = -SELU_ALPHA * SELU_SCALE, y = a x or a d, plus b (Klambauer et al., 2017, section 2).

    Args:
        rate: The share that is dropped; below 1.
        name: Unique in the network.
    """

    def __init__(self, rate: float, *, name: str | None = None) -> None:
        super().__init__(name=name)
        if not 0 <= rate < 1:
            raise ValueError(f"AlphaDropout needs a rate from 0 to below 1; got {rate}.")
        self.rate = rate

    def disturb(self, x: Array, rng: np.random.Generator) -> Forward:
        if self.rate == 0:
            return Forward(x)
        low = -SELU_ALPHA * SELU_SCALE
        a = 1 / math.sqrt((1 - self.rate) * (1 + self.rate * low * low))
        kept = rng.random(x.shape, dtype=np.float32) >= self.rate
        scale = kept.astype(x.dtype)
        scale *= a
        output = x.copy()
        np.copyto(output, low, where=~kept)
        output *= a
        output -= a * low * self.rate
        return Forward(output, scale)


def _normal(x: Array, rng: np.random.Generator) -> Array:
    return rng.standard_normal(x.shape).astype(x.dtype, copy=False)


def _of_rank(shape: Shape, rank: int, layer: Layer) -> Shape:
    if len(shape) != rank:
        raise ValueError(
            f"{layer.called} needs inputs of {rank + 1} axes with the batch axis; "
            f"got {('batch', *shape)}."
        )
    return shape
