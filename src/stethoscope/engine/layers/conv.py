"""Convolutions."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from stethoscope.engine import initializers, regularizers
from stethoscope.engine.activations import Activation
from stethoscope.engine.initializers import Initializer
from stethoscope.engine.layers._base import Array, Forward, Layer, Mode, Shape, Weights, single
from stethoscope.engine.layers._convolve import convolve, input_gradient, kernel_gradient
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
from stethoscope.engine.regularizers import Regularizer
from stethoscope.vocabulary import LayerKind


@dataclasses.dataclass(frozen=True)
class _Saved:
    """What the way back needs.

    Attributes:
        wide: The padded input, channels last.
        placed: The windows over it.
        lengths: Of the input.
    """

    wide: Array
    placed: Placed
    lengths: Shape


class _Convolution(Layer, abc.ABC):
    """What convolutions over any number of lengths share.

    Args:
        filters: Channels of the output.
        kernel_size: Cells of a window along each length; one number for all.
        strides: Steps between windows.
        padding: "valid", "same", "causal" (Conv1D), or the cells to pad each length with: a
            number, or (before, after) for each.
        data_format: "channels_last" or "channels_first"; None is the former.
        dilation_rate: Steps between the cells of a window.
        groups: Parts of the channels, each with its own part of the filters.
        activation: Applied to the output; None applies none.
        use_bias: Whether there is a bias.
        kernel_initializer, bias_initializer: By name or as an initializer.
        kernel_regularizer, bias_regularizer: By name, as a regularizer, or None.
        name: Unique in the network.

    Raises:
        ValueError: A size is not positive, or `filters` is not a multiple of `groups`.
    """

    kind = LayerKind.CONV
    rank: ClassVar[int]

    def __init__(
        self,
        filters: int,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: Padding = "valid",
        data_format: str | None = None,
        dilation_rate: int | Sequence[int] = 1,
        groups: int = 1,
        activation: str | Activation | None = None,
        use_bias: bool = True,
        kernel_initializer: str | Initializer = "glorot_uniform",
        bias_initializer: str | Initializer = "zeros",
        kernel_regularizer: str | Regularizer | None = None,
        bias_regularizer: str | Regularizer | None = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(activation=activation, name=name)
        (self.filters,) = sizes(filters, 1, "filters")
        (self.groups,) = sizes(groups, 1, "groups")
        if filters % groups:
            raise ValueError(
                f"filters must be a multiple of groups; got {filters} filters in {groups} groups."
            )
        self.kernel_size = sizes(kernel_size, self.rank, "kernel_size")
        self.strides = sizes(strides, self.rank, "strides")
        self.dilation_rate = sizes(dilation_rate, self.rank, "dilation_rate")
        self.padding = padding_of(padding, self.rank, causal=self.rank == 1)
        self.data_format = format_of(data_format)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self._windows = Windows(self.kernel_size, self.strides, self.dilation_rate, self.padding)

    @property
    def unit_axis(self) -> int:
        return -1 if self.data_format == "channels_last" else 1

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        lengths, channels = self._split(inputs)
        if channels % self.groups:
            raise ValueError(
                f"{self.called} needs channels in {self.groups} equal groups; got {channels}."
            )
        return join_shape(self._windows.place(lengths).outputs, self.filters, self.data_format)

    def build(self, inputs: Sequence[Shape], rng: np.random.Generator) -> dict[str, Array]:
        _, channels = self._split(inputs)
        shape = (*self.kernel_size, channels // self.groups, self.filters)
        kernel = self.kernel_initializer(shape, rng)
        if not self.use_bias:
            return {"kernel": kernel}
        return {"kernel": kernel, "bias": self.bias_initializer((self.filters,), rng)}

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = channels_last(single(inputs, self), self.data_format)
        placed = self._windows.place(x.shape[1:-1])
        wide = placed.pad(x)
        output = convolve(wide, weights["kernel"], placed, self.groups)
        if self.use_bias:
            output += weights["bias"]
        return Forward(as_given(output, self.data_format), _Saved(wide, placed, x.shape[1:-1]))

    def backward(
        self, gradient: Array, saved: _Saved, weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        arrived = np.ascontiguousarray(channels_last(gradient, self.data_format))
        kernel, placed, groups = weights["kernel"], saved.placed, self.groups
        found = {"kernel": kernel_gradient(saved.wide, arrived, placed, kernel.shape, groups)}
        if self.use_bias:
            rows = arrived.reshape(-1, self.filters)
            found["bias"] = np.ones(len(rows), rows.dtype) @ rows  # a faster, more exact sum
        back = input_gradient(arrived, kernel, placed, saved.lengths, groups)
        return [as_given(back, self.data_format)], found

    def _split(self, inputs: Sequence[Shape]) -> tuple[Shape, int]:
        return split_shape(single(inputs, self), self.rank, self.data_format, self.called)


class Conv1D(_Convolution):
    """A convolution over one length: y[t] = sum over k of x[t * strides + k * dilation] W[k] + b.

    With padding "causal" an output depends on no later input.

    Weights: `kernel` [size, channels / groups, filters] and `bias` [filters].

    Args:
        filters, kernel_size, strides, padding, data_format, dilation_rate, groups, activation,
            use_bias, kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
            name: As in Keras, but that strides and dilation go together, and that padding may be
            given in cells: one number, or ((before, after),).

    Raises:
        ValueError: A size is not positive, or `filters` is not a multiple of `groups`.

    >>> Conv1D(4, 3, padding="causal").shape([(10, 2)])
    (10, 4)
    """

    rank = 1


class Conv2D(_Convolution):
    """A convolution over two lengths, such as the height and width of images.

    y[i, j] = sum over k, l of x[i * strides + k * dilation, j * strides + l * dilation] W[k, l] + b

    Weights: `kernel` [height, width, channels / groups, filters] and `bias` [filters].

    Args:
        filters, kernel_size, strides, padding, data_format, dilation_rate, groups, activation,
            use_bias, kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
            name: As in Keras, but that strides and dilation go together, and that padding may be
            given in cells: one number, or (before, after) for each length.

    Raises:
        ValueError: A size is not positive, or `filters` is not a multiple of `groups`.

    >>> Conv2D(8, 3, strides=2, padding="same").shape([(32, 32, 3)])
    (16, 16, 8)
    """

    rank = 2
