"""From the data of a `fit` to the samples of its batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stethoscope.engine.layers._base import Array


def several(data: npt.ArrayLike | Sequence[npt.ArrayLike], count: int) -> Sequence[Any]:
    """One array for each input or output."""
    parts = data if isinstance(data, list | tuple) and count > 1 else [data]
    if len(parts) != count:
        raise ValueError(f"expected {count} arrays; got {len(parts)}.")
    return parts


def orders(order: npt.ArrayLike, epochs: int) -> list[list[Array]]:
    """The samples of every batch of every epoch."""
    given = np.asarray(order)
    if given.ndim != 3 or len(given) != epochs:
        raise ValueError(f"order is [{epochs} epochs, step, sample]; got shape {given.shape}.")
    return [[rows[rows >= 0] for rows in epoch if (rows >= 0).any()] for epoch in given]


def parts_of(order: Array, size: int) -> Iterator[Array]:
    """The samples of every batch, `size` at a time."""
    for start in range(0, len(order), size):
        yield order[start : start + size]
