"""Pooling: one value for each window, or for everything along the lengths."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from stethoscope.engine.layers._base import Array, Forward, Layer, Mode, Shape, Weights, single
from stethoscope.engine.layers._spatial import (
    Padding,
    as_given,
    channels_last,
    format_of,
    join_shape,
    padding_of,
    sizes,
    split_shape,
)
from stethoscope.engine.layers._windows import Placed, Windows
from stethoscope.vocabulary import LayerKind


@dataclasses.dataclass(frozen=True)
class _Saved:
    """What the way back needs; arrays have the channels last.

    Attributes:
        placed: The windows.
        lengths: Of the input.
        wide: The padded input.
        output: The value of each window.
    """

    placed: Placed
    lengths: Shape
    wide: Array
    output: Array


class _Pooling(Layer, abc.ABC):
    """What layers that pool windows share.

    Args:
        pool_size: Cells of a window along each length; one number for all.
        strides: Steps between windows; None is `pool_size`.
        padding: "valid", "same", or the cells to pad each length with: a number, or
            (before, after) for each.
        data_format: "channels_last" or "channels_first"; None is the former.
        name: Unique in the network.
    """

    kind = LayerKind.POOLING
    rank: ClassVar[int]

    def __init__(
        self,
        pool_size: int | Sequence[int] = 2,
        strides: int | Sequence[int] | None = None,
        padding: Padding = "valid",
        data_format: str | None = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self.pool_size = sizes(pool_size, self.rank, "pool_size")
        self.strides = self.pool_size if strides is None else sizes(strides, self.rank, "strides")
        self.padding = padding_of(padding, self.rank)
        self.data_format = format_of(data_format)
        self._windows = Windows(self.pool_size, self.strides, (1,) * self.rank, self.padding)

    @property
    def unit_axis(self) -> int:
        return -1 if self.data_format == "channels_last" else 1

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        given = single(inputs, self)
        lengths, channels = split_shape(given, self.rank, self.data_format, self.called)
        return join_shape(self._windows.place(lengths).outputs, channels, self.data_format)

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = channels_last(single(inputs, self), self.data_format)
        lengths = x.shape[1:-1]
        placed = self._windows.place(lengths)
        wide = placed.pad(x, self._outside)
        output = self._pool(wide, placed, lengths)
        saved = _Saved(placed, lengths, wide, output)
        return Forward(as_given(output, self.data_format), saved)

    def backward(
        self, gradient: Array, saved: _Saved, weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        arrived = channels_last(gradient, self.data_format)
        wide = saved.placed.zeros(len(arrived), saved.lengths, arrived.shape[-1], arrived.dtype)
        self._spread(arrived, saved, wide)
        return [as_given(saved.placed.crop(wide, saved.lengths), self.data_format)], {}

    @property
    @abc.abstractmethod
    def _outside(self) -> float:
        """What stands in padded cells."""

    @abc.abstractmethod
    def _pool(self, wide: Array, placed: Placed, lengths: Shape) -> Array:
        """The value of each window."""

    @abc.abstractmethod
    def _spread(self, gradient: Array, saved: _Saved, wide: Array) -> None:
        """Adds what each window's gradient gives its cells to `wide`, which is zero."""


class _MaxPooling(_Pooling):
    """The largest value of each window; of equal ones the first has the gradient, as in XLA."""

    @property
    def _outside(self) -> float:
        return -np.inf

    def _pool(self, wide: Array, placed: Placed, lengths: Shape) -> Array:
        first, *others = placed.corners
        if not others:
            return wide[first].copy()
        output: Array = np.maximum(wide[first], wide[others[0]])
        for corner in others[1:]:
            np.maximum(output, wide[corner], out=output)
        return output

    def _spread(self, gradient: Array, saved: _Saved, wide: Array) -> None:
        apart = all(n >= m for n, m in zip(self.strides, self.pool_size, strict=True))
        free = np.ones(gradient.shape, dtype=bool)  # windows whose largest is still to be met
        for corner in saved.placed.corners:
            hit = saved.wide[corner] == saved.output
            hit &= free
            free ^= hit
            if apart:
                _select(gradient, hit, wide[corner])
            else:
                wide[corner] += _select(gradient, hit)


class _AveragePooling(_Pooling):
    """The mean of each window; padded cells do not count, unless `count_padding` is set."""

    def __init__(
        self,
        pool_size: int | Sequence[int] = 2,
        strides: int | Sequence[int] | None = None,
        padding: Padding = "valid",
        data_format: str | None = None,
        *,
        count_padding: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(pool_size, strides, padding, data_format, name=name)
        self.count_padding = count_padding

    @property
    def _outside(self) -> float:
        return 0.0

    def _pool(self, wide: Array, placed: Placed, lengths: Shape) -> Array:
        output = _total(wide, placed)
        output /= self._count(placed, lengths, wide.dtype)
        return output

    def _spread(self, gradient: Array, saved: _Saved, wide: Array) -> None:
        share = gradient / self._count(saved.placed, saved.lengths, gradient.dtype)
        for corner in saved.placed.corners:
            wide[corner] += share

    def _count(self, placed: Placed, lengths: Shape, dtype: Any) -> Any:
        """How many cells of each window count: an array, or one number for all."""
        if self.count_padding or not placed.padded:
            return np.prod(self.pool_size, dtype=dtype)
        return _total(placed.pad(np.ones((1, *lengths, 1), dtype)), placed)


class MaxPooling1D(_MaxPooling):
    """The largest value of each window along one length.

    Args:
        pool_size: Cells of a window.
        strides: Steps between windows; None is `pool_size`.
        padding: "valid", "same", or cells: one number, or ((before, after),).
        data_format: "channels_last" or "channels_first"; None is the former.
        name: Unique in the network.

    >>> MaxPooling1D(2).shape([(9, 3)])
    (4, 3)
    """

    rank = 1


class MaxPooling2D(_MaxPooling):
    """The largest value of each window over two lengths.

    Args:
        pool_size: Cells of a window along each length; one number for both.
        strides: Steps between windows; None is `pool_size`.
        padding: "valid", "same", or cells: one number, or (before, after) for each length.
        data_format: "channels_last" or "channels_first"; None is the former.
        name: Unique in the network.

    >>> MaxPooling2D(3, strides=2, padding="same").shape([(9, 8, 3)])
    (5, 4, 3)
    """

    rank = 2


class AveragePooling1D(_AveragePooling):
    """The mean of each window along one length; padded cells do not count.

    Args:
        pool_size: Cells of a window.
        strides: Steps between windows; None is `pool_size`.
        padding: "valid", "same", or cells: one number, or ((before, after),).
        data_format: "channels_last" or "channels_first"; None is the former.
        count_padding: Padded cells count as zeros, as in PyTorch.
        name: Unique in the network.

    >>> AveragePooling1D(2).shape([(9, 3)])
    (4, 3)
    """

    rank = 1


class AveragePooling2D(_AveragePooling):
    """The mean of each window over two lengths; padded cells do not count.

    Args:
        pool_size: Cells of a window along each length; one number for both.
        strides: Steps between windows; None is `pool_size`.
        padding: "valid", "same", or cells: one number, or (before, after) for each length.
        data_format: "channels_last" or "channels_first"; None is the former.
        count_padding: Padded cells count as zeros, as in PyTorch.
        name: Unique in the network.

    >>> AveragePooling2D((2, 3)).shape([(8, 9, 3)])
    (4, 3, 3)
    """

    rank = 2


def _select(values: Array, hit: Array, out: Array | None = None) -> Array:
    """The values that are hit, elsewhere 0, also where a value is infinite or NaN.

    The bits are multiplied as integers: four times as fast as a selection.
    """
    bits = np.dtype(f"i{values.itemsize}")
    target = None if out is None else out.view(bits)
    chosen: Array = np.multiply(values.view(bits), hit, out=target).view(values.dtype)
    return chosen


def _total(wide: Array, placed: Placed) -> Array:
    """The sum of each window."""
    first, *others = placed.corners
    output: Array = wide[first].copy()
    for corner in others:
        output += wide[corner]
    return output
