"""Layers that give the values of a sample another order or shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stethoscope.engine.layers._base import Array, Forward, Layer, Mode, Shape, Weights, single
from stethoscope.engine.layers._spatial import as_given, channels_last, format_of
from stethoscope.vocabulary import LayerKind

Gradients = tuple[list[Array], dict[str, Array]]


class Flatten(Layer):
    """All values of a sample in one row.

    Args:
        data_format: With "channels_first" the channels are moved last before; None leaves them.
        name: Unique in the network.

    >>> Flatten().shape([(4, 4, 3)])
    (48,)
    """

    kind = LayerKind.RESHAPE

    def __init__(self, data_format: str | None = None, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.data_format = format_of(data_format)

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        return (math.prod(single(inputs, self)),)

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = single(inputs, self)
        if x.ndim > 1:
            x = channels_last(x, self.data_format)
        return Forward(x.reshape(len(x), math.prod(x.shape[1:])), x.shape)

    def backward(self, gradient: Array, saved: Shape, weights: Weights) -> Gradients:
        back = gradient.reshape(saved)
        return [as_given(back, self.data_format) if back.ndim > 1 else back], {}


class Reshape(Layer):
    """The values of a sample in another shape.

    Args:
        target_shape: Of a sample; one length may be -1, which takes what is left.
        name: Unique in the network.

    Raises:
        ValueError: Two lengths are -1, or one is below.

    >>> Reshape((-1, 3)).shape([(4, 4, 3)])
    (16, 3)
    """

    kind = LayerKind.RESHAPE

    def __init__(self, target_shape: Sequence[int], *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.target_shape = tuple(target_shape)
        if self.target_shape.count(-1) > 1 or min(self.target_shape, default=0) < -1:
            raise ValueError(
                "target_shape may have one -1, and no other negative length;"
                f" got {self.target_shape}."
            )

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        given: Shape = single(inputs, self)
        size, known = math.prod(given), math.prod(n for n in self.target_shape if n != -1)
        free = -1 in self.target_shape
        if (not free and size != known) or (free and (not known or size % known)):
            raise ValueError(
                f"{self.called} cannot make {self.target_shape} of the {size} values of"
                f" {given}; the products of both shapes must be equal."
            )
        return tuple(size // known if n == -1 else n for n in self.target_shape)

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = single(inputs, self)
        return Forward(x.reshape(len(x), *self.shape([x.shape[1:]])), x.shape)

    def backward(self, gradient: Array, saved: Shape, weights: Weights) -> Gradients:
        return [gradient.reshape(saved)], {}


class Permute(Layer):
    """The axes of a sample in another order.

    Args:
        dims: Which axis comes first, second, ...; they count from 1.
        name: Unique in the network.

    Raises:
        ValueError: An axis is missing or named twice.

    >>> Permute((2, 1)).shape([(10, 3)])
    (3, 10)
    """

    kind = LayerKind.RESHAPE

    def __init__(self, dims: Sequence[int], *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.dims = tuple(dims)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(f"dims must name each axis from 1 on once; got {self.dims}.")
        self._axes = (0, *self.dims)
        self._back = tuple(int(axis) for axis in np.argsort(self._axes))

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        given: Shape = single(inputs, self)
        if len(given) != len(self.dims):
            raise ValueError(
                f"{self.called} orders {len(self.dims)} axes; got samples of shape {given}."
            )
        return tuple(given[axis - 1] for axis in self.dims)

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        return Forward(single(inputs, self).transpose(self._axes))

    def backward(self, gradient: Array, saved: Any, weights: Weights) -> Gradients:
        return [gradient.transpose(self._back)], {}
