"""Layers that make lengths longer: zeros around them, or cells repeated."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from stethoscope.engine.layers._base import Array, Forward, Layer, Mode, Shape, Weights, single
from stethoscope.engine.layers._spatial import (
    as_given,
    channels_last,
    format_of,
    join_shape,
    pairs,
    sizes,
    split_shape,
)
from stethoscope.engine.layers._windows import Placed, Windows
from stethoscope.vocabulary import LayerKind

Gradients = tuple[list[Array], dict[str, Array]]


class _ZeroPadding(Layer, abc.ABC):
    """What zero padding of any number of lengths shares.

    Args:
        padding: Cells around each length: a number, or for each length a number or
            (before, after).
        data_format: "channels_last" or "channels_first"; None is the former.
        name: Unique in the network.

    Raises:
        ValueError: `padding` is none of these.
    """

    kind = LayerKind.RESHAPE
    rank: ClassVar[int]

    def __init__(
        self,
        padding: int | Sequence[int | Sequence[int]] = 1,
        data_format: str | None = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if self.rank == 1 and not isinstance(padding, int) and len(padding) == 2:
            padding = [padding]  # type: ignore[list-item]  # Keras: (before, after) of the length
        self.padding = pairs(padding, self.rank)
        self.data_format = format_of(data_format)
        ones = (1,) * self.rank
        self._windows = Windows(ones, ones, ones, self.padding)

    @property
    def unit_axis(self) -> int:
        return -1 if self.data_format == "channels_last" else 1

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        lengths, channels = split_shape(
            single(inputs, self), self.rank, self.data_format, self.called
        )
        return join_shape(self._windows.place(lengths).outputs, channels, self.data_format)

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = channels_last(single(inputs, self), self.data_format)
        placed = self._windows.place(x.shape[1:-1])
        return Forward(as_given(placed.pad(x), self.data_format), (placed, x.shape[1:-1]))

    def backward(self, gradient: Array, saved: tuple[Placed, Shape], weights: Weights) -> Gradients:
        placed, lengths = saved
        inner = placed.crop(channels_last(gradient, self.data_format), lengths)
        return [as_given(inner, self.data_format)], {}


class ZeroPadding1D(_ZeroPadding):
    """Zeros before and after one length.

    Args:
        padding: Cells: a number, or (before, after).
        data_format: "channels_last" or "channels_first"; None is the former.
        name: Unique in the network.

    Raises:
        ValueError: `padding` is none of these.

    >>> ZeroPadding1D((2, 0)).shape([(10, 3)])
    (12, 3)
    """

    rank = 1


class ZeroPadding2D(_ZeroPadding):
    """Zeros around two lengths.

    Args:
        padding: Cells: a number, or for each length a number or (before, after).
        data_format: "channels_last" or "channels_first"; None is the former.
        name: Unique in the network.

    Raises:
        ValueError: `padding` is none of these.

    >>> ZeroPadding2D((1, (0, 2))).shape([(8, 8, 3)])
    (10, 10, 3)
    """

    rank = 2


class _UpSampling(Layer, abc.ABC):
    """What upsampling of any number of lengths shares.

    Args:
        size: How often each cell is repeated along each length; one number for all.
        data_format: "channels_last" or "channels_first"; None is the former.
        name: Unique in the network.
    """

    kind = LayerKind.RESHAPE
    rank: ClassVar[int]

    def __init__(
        self,
        size: int | Sequence[int] = 2,
        data_format: str | None = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self.size = sizes(size, self.rank, "size")
        self.data_format = format_of(data_format)

    @property
    def unit_axis(self) -> int:
        return -1 if self.data_format == "channels_last" else 1

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        lengths, channels = split_shape(
            single(inputs, self), self.rank, self.data_format, self.called
        )
        longer = [n * times for n, times in zip(lengths, self.size, strict=True)]
        return join_shape(longer, channels, self.data_format)

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        y = channels_last(single(inputs, self), self.data_format)
        for axis, times in enumerate(self.size, start=1):
            y = np.repeat(y, times, axis=axis)
        return Forward(as_given(y, self.data_format))

    def backward(self, gradient: Array, saved: Any, weights: Weights) -> Gradients:
        back = channels_last(gradient, self.data_format)
        for axis, times in enumerate(self.size, start=1):
            head, tail = back.shape[:axis], back.shape[axis + 1 :]
            cells = back.reshape(*head, back.shape[axis] // times, times, *tail)
            back = cells.sum(axis=axis + 1)
        return [as_given(back, self.data_format)], {}


class UpSampling1D(_UpSampling):
    """Each step of one length, repeated.

    Args:
        size: How often.
        data_format: "channels_last" or "channels_first"; None is the former.
        name: Unique in the network.

    >>> UpSampling1D(3).shape([(4, 2)])
    (12, 2)
    """

    rank = 1


class UpSampling2D(_UpSampling):
    """Each cell of two lengths, repeated ("nearest" interpolation).

    Args:
        size: How often along each length; one number for both.
        data_format: "channels_last" or "channels_first"; None is the former.
        name: Unique in the network.

    >>> UpSampling2D((2, 3)).shape([(4, 4, 2)])
    (8, 12, 2)
    """

    rank = 2
