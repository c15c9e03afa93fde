"""From the data of a `fit` to the samples of its batches."""

from __future__ import annotations

import math
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


def positive(value: int, argument: str) -> None:
    """Checks a setting that counts something.

    Raises:
        ValueError: The value is no whole number from 1.
    """
    if not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{argument} must be a whole number from 1; got {value!r}.")


def parts_of(order: Array, size: int) -> Iterator[Array]:
    """The samples of every batch, `size` at a time.

    Raises:
        ValueError: The size is below 1.
    """
    positive(size, "batch_size")
    for start in range(0, len(order), size):
        yield order[start : start + size]


def same_rows(inputs: Sequence[Array], targets: Sequence[Array], weight: Array | None) -> int:
    """How many samples there are.

    Raises:
        ValueError: The arrays have different numbers of rows, or none.
    """
    given = [("x", a) for a in inputs] + [("y", a) for a in targets]
    given += [] if weight is None else [("sample_weight", weight)]
    counts = [(name, len(a) if a.ndim else 0) for name, a in given]
    if len({rows for _, rows in counts}) > 1 or not counts[0][1]:
        found = ", ".join(f"{name} has {rows}" for name, rows in counts)
        raise ValueError(f"expected one row for each sample in every array; {found}.")
    return counts[0][1]


def held_out_rows(count: int, share: float) -> int:
    """Where the held-out samples start: the last ones, as in Keras.

    Raises:
        ValueError: One of the two parts would be empty.
    """
    start = math.floor(count * (1 - share))
    if not 0 < share < 1 or not 0 < start < count:
        raise ValueError(
            f"validation_split must leave samples on both sides, as 0.2 does; got {share} of "
            f"{count} samples."
        )
    return start
