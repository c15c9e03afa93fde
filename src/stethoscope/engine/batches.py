"""From the data of a `fit` to the samples of its batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stethoscope.engine.layers._base import Array


def several(data: npt.ArrayLike | Sequence[npt.ArrayLike], count: int) -> Sequence[Any]:
    """One array for each input or output; a single one may stand in a list."""
    listed = isinstance(data, list | tuple) and (
        count > 1 or (len(data) == 1 and hasattr(data[0], "shape"))
    )
    parts: Sequence[Any] = data if listed else [data]  # type: ignore[assignment]
    if len(parts) != count:
        raise ValueError(f"expected {count} arrays; got {len(parts)}.")
    return parts


def orders(order: npt.ArrayLike, epochs: int) -> list[list[Array]]:
    """The samples of every batch of every epoch."""
    given = np.asarray(order)
    if given.ndim != 3 or len(given) != epochs:
        raise ValueError(f"order is [{epochs} epochs, step, sample]; got shape {given.shape}.")
    return [[rows[rows >= 0] for rows in epoch if (rows >= 0).any()] for epoch in given]


def facts_of(order: Sequence[Sequence[Array]]) -> dict[str, Any]:
    """What a `FitSpec` says of batches that were chosen before.

    >>> facts_of([[np.array([0, 1, 2]), np.array([3])]])
    {'batch_size': 3, 'steps_per_epoch': 2, 'shuffle': False}
    """
    return {
        "batch_size": max((len(rows) for epoch in order for rows in epoch), default=None),
        "steps_per_epoch": max(map(len, order)),
        "shuffle": any((np.diff(np.concatenate(epoch)) < 0).any() for epoch in order if epoch),
    }


def parts_of(order: Array, size: int) -> Iterator[Array]:
    """The samples of every batch, `size` at a time."""
    for start in range(0, len(order), size):
        yield order[start : start + size]
