"""Transposed convolutions: what a convolution does to a gradient on its way back, forwards."""

from __future__ import annotations

import abc
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


class _Transposed(Layer, abc.ABC):
    """What transposed convolutions over any number of lengths share.

    Args:
        filters: Channels of the output.
        kernel_size: Cells of a window along each length; one number for all.
        strides: Steps between the windows, which lie in the output.
        padding: "valid", "same", or the cells to cut off each length of the output: a number, or
            (before, after) for each.
        output_padding: Cells to add after each length; None, with a name as `padding`, adds what
            makes an output of strides times the input ("same") or of no fewer ("valid").
        data_format: "channels_last" or "channels_first"; None is the former.
        dilation_rate: Steps between the cells of a window.
        activation: Applied to the output; None applies none.
        use_bias: Whether there is a bias.
        kernel_initializer, bias_initializer: By name or as an initializer.
        kernel_regularizer, bias_regularizer: By name, as a regularizer, or None.
        name: Unique in the network.
    """

    kind = LayerKind.CONV
    rank: ClassVar[int]

    def __init__(
        self,
        filters: int,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: Padding = "valid",
        output_padding: int | Sequence[int] | None = None,
        data_format: str | None = None,
        dilation_rate: int | Sequence[int] = 1,
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
        self.kernel_size = sizes(kernel_size, self.rank, "kernel_size")
        self.strides = sizes(strides, self.rank, "strides")
        self.dilation_rate = sizes(dilation_rate, self.rank, "dilation_rate")
        self.padding = padding_of(padding, self.rank)
        self.output_padding = (
            None
            if output_padding is None
            else sizes(output_padding, self.rank, "output_padding", least=0)
        )
        if any(n >= m for n, m in zip(self.output_padding or (), self.strides, strict=False)):
            raise ValueError(
                "output_padding must be less than the strides;"
                f" got {self.output_padding} for strides {self.strides}."
            )
        self.data_format = format_of(data_format)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        # Where more is added than cut off, the cells after the last window stay 0.
        self._cut = tuple(self._ends(axis) for axis in range(self.rank))
        pads = tuple((before, max(after, 0)) for before, after in self._cut)
        self._windows = Windows(self.kernel_size, self.strides, self.dilation_rate, pads)

    @property
    def unit_axis(self) -> int:
        return -1 if self.data_format == "channels_last" else 1

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        lengths, _ = self._split(inputs)
        return join_shape(self._lengths(lengths), self.filters, self.data_format)

    def build(self, inputs: Sequence[Shape], rng: np.random.Generator) -> dict[str, Array]:
        _, channels = self._split(inputs)
        kernel = self.kernel_initializer((*self.kernel_size, self.filters, channels), rng)
        if not self.use_bias:
            return {"kernel": kernel}
        return {"kernel": kernel, "bias": self.bias_initializer((self.filters,), rng)}

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = single(inputs, self)
        x = np.ascontiguousarray(channels_last(x, self.data_format))
        lengths = self._lengths(x.shape[1:-1])
        placed = self._windows.place(lengths)
        output = input_gradient(x, weights["kernel"], placed, lengths)
        if self.use_bias:
            output += weights["bias"]
        return Forward(as_given(output, self.data_format), (x, placed))

    def backward(
        self, gradient: Array, saved: tuple[Array, Placed], weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        x, placed = saved
        arrived = channels_last(gradient, self.data_format)
        wide, kernel = placed.pad(arrived), weights["kernel"]
        found = {"kernel": kernel_gradient(wide, x, placed, kernel.shape)}
        if self.use_bias:
            rows = arrived.reshape(-1, self.filters)
            found["bias"] = np.ones(len(rows), rows.dtype) @ rows
        return [as_given(convolve(wide, kernel, placed), self.data_format)], found

    def _split(self, inputs: Sequence[Shape]) -> tuple[Shape, int]:
        return split_shape(single(inputs, self), self.rank, self.data_format, self.called)

    def _ends(self, axis: int) -> tuple[int, int]:
        """Cells cut off before and after one length of all that windows cover; negative adds."""
        reach, step = (self.kernel_size[axis] - 1) * self.dilation_rate[axis], self.strides[axis]
        more = None if self.output_padding is None else self.output_padding[axis]
        if not isinstance(self.padding, str):
            before, after = self.padding[axis]
            return before, after - (more or 0)
        if self.padding == "valid":
            return 0, -(max(step - reach - 1, 0) if more is None else more)
        # What is kept of the ends of "same" differs with `output_padding`: Keras's convention.
        kept = reach + step - 1 if more is None else reach - 1 + (reach + 1) % 2 + more
        left = min(kept - kept // 2, reach)
        return reach - left, reach - (kept - left)

    def _lengths(self, lengths: Shape) -> Shape:
        """Of the output."""
        along = zip(lengths, self.kernel_size, self.strides, self.dilation_rate, strict=True)
        covered = [(n - 1) * step + (size - 1) * gap + 1 for n, size, step, gap in along]
        found = tuple(n - sum(ends) for n, ends in zip(covered, self._cut, strict=True))
        if min(found) < 1:
            raise ValueError(
                f"{self.called} leaves nothing of lengths {lengths};"
                f" the padding {self.padding} cuts off too much."
            )
        return found


class Conv1DTranspose(_Transposed):
    """A transposed convolution over one length: x[t] W[k] is added to y[t * strides + k].

    Weights: `kernel` [size, filters, channels] and `bias` [filters].

    Args:
        filters, kernel_size, strides, padding, output_padding, data_format, dilation_rate,
            activation, use_bias, kernel_initializer, bias_initializer, kernel_regularizer,
            bias_regularizer, name: As in Keras, but that padding may be given in cells to cut
            off: one number, or ((before, after),).

    Raises:
        ValueError: A size is not positive, or `output_padding` not less than `strides`.

    >>> Conv1DTranspose(4, 3, strides=2, padding="same").shape([(5, 2)])
    (10, 4)
    """

    rank = 1


class Conv2DTranspose(_Transposed):
    """A transposed convolution over two lengths, as decoders and generators of images use it.

    Weights: `kernel` [height, width, filters, channels] and `bias` [filters].

    Args:
        filters, kernel_size, strides, padding, output_padding, data_format, dilation_rate,
            activation, use_bias, kernel_initializer, bias_initializer, kernel_regularizer,
            bias_regularizer, name: As in Keras, but that padding may be given in cells to cut
            off: one number, or (before, after) for each length.

    Raises:
        ValueError: A size is not positive, or `output_padding` not less than `strides`.

    >>> Conv2DTranspose(4, 3, strides=2).shape([(5, 6, 2)])
    (11, 13, 4)
    """

    rank = 2
