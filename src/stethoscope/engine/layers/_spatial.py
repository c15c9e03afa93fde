"""Arguments and shapes of layers whose samples have lengths and channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Pairs = tuple[tuple[int, int], ...]
"""Cells before and after each length."""
Padding = str | int | Sequence[int | Sequence[int]]
"""What users may write for `Pairs`, or a name."""

FORMATS = ("channels_last", "channels_first")


def sizes(
    value: int | Sequence[int], rank: int, argument: str, *, least: int = 1
) -> tuple[int, ...]:
    """One integer for each length.

    Args:
        value: One number for all, or one for each.
        rank: How many lengths there are.
        argument: What the value is, for the message.
        least: The smallest that is allowed.

    Raises:
        ValueError: There are too few or too many, or one is below `least`.

    >>> sizes(2, 2, "strides")
    (2, 2)
    """
    found = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(found) != rank or min(found) < least:
        kind = "a positive" if least == 1 else "a non-negative"
        raise ValueError(f"{argument} must be {kind} integer, or {rank} of them; got {value!r}.")
    return found


def pairs(value: int | Sequence[int | Sequence[int]], rank: int) -> Pairs:
    """The padding before and after each length.

    Args:
        value: One number, or for each length a number or two.
        rank: How many lengths there are.

    Raises:
        ValueError: It is none of these.

    >>> pairs((1, (0, 2)), 2)
    ((1, 1), (0, 2))
    """
    each = (value,) * rank if isinstance(value, int) else tuple(value)
    found = tuple((n, n) if isinstance(n, int) else tuple(n) for n in each)
    if len(found) != rank or any(len(two) != 2 or min(two) < 0 for two in found):
        raise ValueError(
            "padding must be a number of cells, or for each length a number or a pair of them"
            f" (before, after); got {value!r} for {rank}."
        )
    return tuple((two[0], two[1]) for two in found)


def padding_of(value: Padding, rank: int, *, causal: bool = False) -> str | Pairs:
    """The padding of windows, by name or as cells.

    Raises:
        ValueError: There is none of this name.
    """
    if not isinstance(value, str):
        return pairs(value, rank)
    known = ("valid", "same", "causal") if causal else ("valid", "same")
    if value.lower() not in known:
        raise ValueError(f"unknown padding {value!r}; known are {', '.join(known)}.")
    return value.lower()


def format_of(value: str | None) -> str:
    """The order of axes; None is "channels_last".

    Raises:
        ValueError: There is none of this name.
    """
    if value is not None and value not in FORMATS:
        raise ValueError(f"unknown data_format {value!r}; known are {', '.join(FORMATS)}.")
    return value or "channels_last"


def channels_last(x: Array, data_format: str) -> Array:
    """A view with the channels last."""
    return x if data_format == "channels_last" else np.moveaxis(x, 1, -1)


def as_given(x: Array, data_format: str) -> Array:
    """Undoes `channels_last`."""
    return x if data_format == "channels_last" else np.moveaxis(x, -1, 1)


def split_shape(
    shape: tuple[int, ...], rank: int, data_format: str, who: str
) -> tuple[tuple[int, ...], int]:
    """The lengths and the channels of one sample.

    Args:
        shape: Of a sample.
        rank: How many lengths there should be.
        data_format: Where the channels are.
        who: The layer, for the message.

    Raises:
        ValueError: The sample has more or fewer axes.
    """
    if len(shape) != rank + 1:
        names = ["steps"] if rank == 1 else ["depth", "height", "width"][-rank:]
        order = [*names, "channels"] if data_format == "channels_last" else ["channels", *names]
        expected = ", ".join(["batch", *order])
        raise ValueError(
            f"{who} takes inputs of shape ({expected}); got (batch, {', '.join(map(str, shape))})."
        )
    if data_format == "channels_last":
        return shape[:-1], shape[-1]
    return shape[1:], shape[0]


def join_shape(lengths: Sequence[int], channels: int, data_format: str) -> tuple[int, ...]:
    """The shape of a sample."""
    if data_format == "channels_last":
        return (*lengths, channels)
    return (channels, *lengths)
