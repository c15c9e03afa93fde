"""Convolution and its two derivatives as products of matrices (im2col).

The values that each window sees become a row, and one product with the kernel gives all outputs.
These rows are many times the input: they are made for a few samples at a time, so that they stay
in the cache and the memory is bounded, and made again on the way back rather than kept.

Arrays have the channels last; a kernel is [*size, channels / groups, filters].
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from stethoscope.engine.layers._windows import Placed, blocks

Array = npt.NDArray[Any]

ROWS = 1 << 18  # elements of the rows made at once: 1 MiB in float32
PRODUCT = 1 << 18  # elements of a product that is added to the gradient of the input


def convolve(wide: Array, kernel: Array, placed: Placed, groups: int = 1) -> Array:
    """The sum over each window of input times kernel.

    Args:
        wide: The padded input [samples, *lengths, channels].
        kernel: [*size, channels / groups, filters].
        placed: The windows.
        groups: Parts of channels and filters that have nothing to do with each other.

    Returns:
        [samples, *outputs, filters].
    """
    matrix = _by_group(kernel, groups)
    output = np.empty((len(wide), *placed.outputs, kernel.shape[-1]), kernel.dtype)
    for part in blocks(len(wide), _row_elements(wide, placed), ROWS):
        rows = _rows(wide[part], placed, groups)
        np.matmul(rows, matrix, out=_by_group(output[part], groups))
    return output


def kernel_gradient(
    wide: Array, gradient: Array, placed: Placed, shape: tuple[int, ...], groups: int = 1
) -> Array:
    """The gradient of the kernel.

    Args:
        wide: The padded input.
        gradient: Of the output.
        placed: The windows.
        shape: Of the kernel.
        groups: As in `convolve`.
    """
    total: Array | None = None
    for part in blocks(len(wide), _row_elements(wide, placed), ROWS):
        rows = _rows(wide[part], placed, groups).transpose(0, 2, 1)
        one = rows @ _by_group(gradient[part], groups)
        total = one if total is None else np.add(total, one, out=total)
    if total is None:  # not a single sample
        return np.zeros(shape, gradient.dtype)
    return total.transpose(1, 0, 2).reshape(shape)


def input_gradient(
    gradient: Array, kernel: Array, placed: Placed, lengths: tuple[int, ...], groups: int = 1
) -> Array:
    """The gradient of the input, which is also what a transposed convolution computes.

    Args:
        gradient: Of the output [samples, *outputs, filters].
        kernel: As in `convolve`.
        placed: The windows.
        lengths: Of the input, before padding.
        groups: As in `convolve`.
    """
    each, filters = kernel.shape[-2:]
    channels = each * groups
    wide = placed.zeros(len(gradient), lengths, channels, kernel.dtype)
    # [cells, groups, filters / groups, channels / groups]
    cells = kernel.reshape(-1, each, groups, filters // groups).transpose(0, 2, 3, 1)
    outputs = math.prod(placed.outputs)
    for part in blocks(len(gradient), outputs * max(channels, filters), PRODUCT):
        arrived = gradient[part]
        product = np.empty((*arrived.shape[:-1], channels), kernel.dtype)
        rows, goal = _by_group(arrived, groups), _by_group(product, groups)
        target = wide[part]
        for cell, corner in zip(cells, placed.corners, strict=True):
            np.matmul(rows, cell, out=goal)
            target[corner] += product
    return placed.crop(wide, lengths)


def _rows(wide: Array, placed: Placed, groups: int) -> Array:
    """[groups, samples * outputs, cells * channels / groups]; copied only if cells overlap."""
    view = placed.view(wide, groups)
    return view.reshape(groups, len(wide) * math.prod(placed.outputs), -1)


def _row_elements(wide: Array, placed: Placed) -> int:
    return math.prod((*placed.outputs, *placed.size, wide.shape[-1]))


def _by_group(array: Array, groups: int) -> Array:
    """A view [groups, all but the last axis, last axis / groups]."""
    last = array.shape[-1]
    return array.reshape(-1, groups, last // groups).transpose(1, 0, 2)
