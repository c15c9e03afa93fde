"""Convolutions of each channel by itself."""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from stethoscope.engine import initializers, regularizers
from stethoscope.engine.activations import Activation
from stethoscope.engine.initializers import Initializer
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
from stethoscope.engine.layers._windows import Placed, Windows, blocks
from stethoscope.engine.regularizers import Regularizer
from stethoscope.vocabulary import LayerKind

BLOCK = 1 << 17  # elements of a product that is added up: 512 KiB in float32 stay in the cache

Saved = tuple[Array, Placed, Shape]
"""The padded input, the windows, and the lengths of the input."""


class _Depthwise(Layer, abc.ABC):
    """What depthwise convolutions over any number of lengths share.

    Sums of products cell by cell: a product of matrices has nothing to share between channels,
    and takes three times as long.

    Args:
        kernel_size: Cells of a window along each length; one number for all.
        strides: Steps between windows.
        padding: "valid", "same", or the cells to pad each length with: a number, or
            (before, after) for each.
        depth_multiplier: Filters for each channel.
        data_format: "channels_last" or "channels_first"; None is the former.
        dilation_rate: Steps between the cells of a window.
        activation: Applied to the output; None applies none.
        use_bias: Whether there is a bias.
        depthwise_initializer, bias_initializer: By name or as an initializer.
        depthwise_regularizer, bias_regularizer: By name, as a regularizer, or None.
        name: Unique in the network.
    """

    kind = LayerKind.CONV
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: Padding = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: int | Sequence[int] = 1,
        activation: str | Activation | None = None,
        use_bias: bool = True,
        depthwise_initializer: str | Initializer = "glorot_uniform",
        bias_initializer: str | Initializer = "zeros",
        depthwise_regularizer: str | Regularizer | None = None,
        bias_regularizer: str | Regularizer | None = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(activation=activation, name=name)
        self.kernel_size = sizes(kernel_size, self.rank, "kernel_size")
        self.strides = sizes(strides, self.rank, "strides")
        self.padding = padding_of(padding, self.rank)
        (self.depth_multiplier,) = sizes(depth_multiplier, 1, "depth_multiplier")
        self.data_format = format_of(data_format)
        self.dilation_rate = sizes(dilation_rate, self.rank, "dilation_rate")
        self.use_bias = use_bias
        self.depthwise_initializer = initializers.get(depthwise_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.depthwise_regularizer = regularizers.get(depthwise_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self._windows = Windows(self.kernel_size, self.strides, self.dilation_rate, self.padding)

    @property
    def unit_axis(self) -> int:
        return -1 if self.data_format == "channels_last" else 1

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        lengths, channels = self._split(inputs)
        outputs = self._windows.place(lengths).outputs
        return join_shape(outputs, channels * self.depth_multiplier, self.data_format)

    def build(self, inputs: Sequence[Shape], rng: np.random.Generator) -> dict[str, Array]:
        _, channels = self._split(inputs)
        shape = (*self.kernel_size, channels, self.depth_multiplier)
        kernel = self.depthwise_initializer(shape, rng)
        if not self.use_bias:
            return {"kernel": kernel}
        filters = channels * self.depth_multiplier
        return {"kernel": kernel, "bias": self.bias_initializer((filters,), rng)}

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = channels_last(single(inputs, self), self.data_format)
        placed = self._windows.place(x.shape[1:-1])
        wide, kernel = placed.pad(x), weights["kernel"]
        output = np.zeros((len(x), *placed.outputs, *kernel.shape[-2:]), x.dtype)
        for part, product in _parts(output[..., 0]):
            for filter_, weight in self._filters(kernel):
                for cell, corner in zip(weight, placed.corners, strict=True):
                    np.multiply(wide[part][corner], cell, out=product)
                    output[part, ..., filter_] += product
        output = output.reshape(*output.shape[:-2], -1)
        if self.use_bias:
            output += weights["bias"]
        return Forward(as_given(output, self.data_format), (wide, placed, x.shape[1:-1]))

    def backward(
        self, gradient: Array, saved: Saved, weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        wide, placed, lengths = saved
        kernel, arrived = weights["kernel"], channels_last(gradient, self.data_format)
        found = {"kernel": np.empty_like(kernel)}
        if self.use_bias:
            rows = arrived.reshape(-1, arrived.shape[-1])
            found["bias"] = np.ones(len(rows), rows.dtype) @ rows
        arrived = arrived.reshape(*arrived.shape[:-1], *kernel.shape[-2:])
        of_cells = found["kernel"].reshape(-1, *kernel.shape[-2:])
        back = placed.zeros(len(wide), lengths, wide.shape[-1], wide.dtype)
        for part, product in _parts(arrived[..., 0]):
            for filter_, weight in self._filters(kernel):
                own, target = arrived[part, ..., filter_], back[part]
                for cell, corner in zip(weight, placed.corners, strict=True):
                    np.multiply(own, cell, out=product)
                    target[corner] += product
        axes = "nxyz"[: self.rank + 1]
        for filter_ in range(self.depth_multiplier):
            own = arrived[..., filter_]
            for index, corner in enumerate(placed.corners):
                of_cells[index, :, filter_] = np.einsum(f"{axes}c,{axes}c->c", wide[corner], own)
        return [as_given(placed.crop(back, lengths), self.data_format)], found

    def _split(self, inputs: Sequence[Shape]) -> tuple[Shape, int]:
        return split_shape(single(inputs, self), self.rank, self.data_format, self.called)

    def _filters(self, kernel: Array) -> Iterator[tuple[int, Array]]:
        """Each filter's number and weights [cells, channels]."""
        cells = kernel.reshape(-1, *kernel.shape[-2:])
        for number in range(self.depth_multiplier):
            yield number, np.ascontiguousarray(cells[..., number])


class DepthwiseConv1D(_Depthwise):
    """A convolution over one length of each channel by itself.

    Weights: `kernel` [size, channels, depth_multiplier] and `bias` [channels * depth_multiplier].

    Args:
        kernel_size, strides, padding, depth_multiplier, data_format, dilation_rate, activation,
            use_bias, depthwise_initializer, bias_initializer, depthwise_regularizer,
            bias_regularizer, name: As in Keras, but that strides and dilation go together, and
            that padding may be given in cells: one number, or ((before, after),).

    Raises:
        ValueError: A size is not positive.

    >>> DepthwiseConv1D(3).shape([(10, 2)])
    (8, 2)
    """

    rank = 1


class DepthwiseConv2D(_Depthwise):
    """A convolution over two lengths of each channel by itself.

    Weights: `kernel` [height, width, channels, depth_multiplier] and
    `bias` [channels * depth_multiplier].

    Args:
        kernel_size, strides, padding, depth_multiplier, data_format, dilation_rate, activation,
            use_bias, depthwise_initializer, bias_initializer, depthwise_regularizer,
            bias_regularizer, name: As in Keras, but that strides and dilation go together, and
            that padding may be given in cells: one number, or (before, after) for each length.

    Raises:
        ValueError: A size is not positive.

    >>> DepthwiseConv2D(3, padding="same", depth_multiplier=2).shape([(8, 8, 3)])
    (8, 8, 6)
    """

    rank = 2


def _parts(whole: Array) -> Iterator[tuple[slice, Array]]:
    """Parts of a batch, each with working memory for its outputs of one filter."""
    held: Array | None = None
    for part in blocks(len(whole), math.prod(whole.shape[1:]), BLOCK):
        shape = whole[part].shape
        held = np.empty(shape, whole.dtype) if held is None else held[: shape[0]]
        yield part, held
