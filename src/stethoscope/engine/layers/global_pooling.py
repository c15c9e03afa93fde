"""Pooling of everything along the lengths: one value for each channel."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from stethoscope.engine.layers._base import Array, Forward, Layer, Mode, Shape, Weights, single
from stethoscope.engine.layers._spatial import format_of, join_shape, split_shape
from stethoscope.vocabulary import LayerKind


class _GlobalPooling(Layer, abc.ABC):
    """What layers that pool whole lengths share.

    Args:
        data_format: "channels_last" or "channels_first"; None is the former.
        keepdims: Whether the lengths stay, as axes of size 1.
        name: Unique in the network.
    """

    kind = LayerKind.POOLING
    rank: ClassVar[int]

    def __init__(
        self, data_format: str | None = None, keepdims: bool = False, *, name: str | None = None
    ) -> None:
        super().__init__(name=name)
        self.data_format = format_of(data_format)
        self.keepdims = keepdims
        first = 1 if self.data_format == "channels_last" else 2
        self._axes = tuple(range(first, first + self.rank))  # of the lengths, in a batch

    @property
    def unit_axis(self) -> int:
        return -1 if self.data_format == "channels_last" else 1

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        lengths, channels = split_shape(
            single(inputs, self), self.rank, self.data_format, self.called
        )
        if not all(lengths):
            raise ValueError(
                f"{self.called} needs at least one cell to pool; got lengths {lengths}."
            )
        ones = (1,) * self.rank if self.keepdims else ()
        return join_shape(ones, channels, self.data_format)

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = single(inputs, self)
        pooled = self._pool(x)
        return Forward(pooled if self.keepdims else pooled.squeeze(self._axes), (x, pooled))

    def backward(
        self, gradient: Array, saved: tuple[Array, Array], weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        x, pooled = saved
        return [self._spread(gradient.reshape(pooled.shape), x, pooled)], {}

    @abc.abstractmethod
    def _pool(self, x: Array) -> Array:
        """One value for each channel, the lengths kept as axes of size 1."""

    @abc.abstractmethod
    def _spread(self, gradient: Array, x: Array, pooled: Array) -> Array:
        """The gradient of x for one of `pooled`."""


class _GlobalAverage(_GlobalPooling):
    """The mean of each channel."""

    def _pool(self, x: Array) -> Array:
        mean: Array = x.mean(axis=self._axes, keepdims=True)
        return mean

    def _spread(self, gradient: Array, x: Array, pooled: Array) -> Array:
        back = np.empty_like(x)
        back[...] = gradient / math.prod(x.shape[axis] for axis in self._axes)
        return back


class _GlobalMax(_GlobalPooling):
    """The largest value of each channel; equal ones share the gradient, as in JAX."""

    def _pool(self, x: Array) -> Array:
        largest: Array = x.max(axis=self._axes, keepdims=True)
        return largest

    def _spread(self, gradient: Array, x: Array, pooled: Array) -> Array:
        hit = x == pooled
        share: Any = gradient / hit.sum(axis=self._axes, keepdims=True, dtype=x.dtype)
        back: Array = hit * share
        return back


class GlobalAveragePooling1D(_GlobalAverage):
    """The mean of each channel over one length.

    Args:
        data_format: "channels_last" or "channels_first"; None is the former.
        keepdims: Whether the length stays, as an axis of size 1.
        name: Unique in the network.

    >>> GlobalAveragePooling1D(keepdims=True).shape([(9, 3)])
    (1, 3)
    """

    rank = 1


class GlobalAveragePooling2D(_GlobalAverage):
    """The mean of each channel over two lengths.

    Args:
        data_format: "channels_last" or "channels_first"; None is the former.
        keepdims: Whether the lengths stay, as axes of size 1.
        name: Unique in the network.

    >>> GlobalAveragePooling2D().shape([(8, 8, 3)])
    (3,)
    """

    rank = 2


class GlobalMaxPooling1D(_GlobalMax):
    """The largest value of each channel over one length.

    Args:
        data_format: "channels_last" or "channels_first"; None is the former.
        keepdims: Whether the length stays, as an axis of size 1.
        name: Unique in the network.

    >>> GlobalMaxPooling1D().shape([(9, 3)])
    (3,)
    """

    rank = 1


class GlobalMaxPooling2D(_GlobalMax):
    """The largest value of each channel over two lengths.

    Args:
        data_format: "channels_last" or "channels_first"; None is the former.
        keepdims: Whether the lengths stay, as axes of size 1.
        name: Unique in the network.

    >>> GlobalMaxPooling2D("channels_first").shape([(3, 8, 8)])
    (3,)
    """

    rank = 2
