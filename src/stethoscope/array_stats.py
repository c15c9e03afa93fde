"""The statistics of NumPy arrays in few passes; equal to `stats.describe` up to rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stethoscope import stats
from stethoscope.stats import POSITION, FloatArray
from stethoscope.types import Stat

# Below this share of the mean square, a variance from sums of squares in float32 is rounding.
CANCELLATION = 1e-3
CANCELLATION_64 = 1e-8  # the same in float64
TINY_64 = float(np.finfo(np.float64).tiny)


SMALL = 1 << 14  # elements: up to here, a pass costs less than the calls that make it


class Tensor(NamedTuple):
    """An array with what `stats.describe` is to know of it."""

    values: npt.NDArray[Any]
    saturation: tuple[float, float] | None = None
    unit_axis: int | None = None


def describe_many(tensors: Sequence[Tensor]) -> FloatArray:
    """What `describe` says of each of many arrays.

    Small arrays are laid end to end in float64 and reduced together: for a model of small layers
    the number of NumPy calls is the cost, not the numbers.

    Returns:
        float64 [tensors, statistics], in the order of `TENSOR_STATS`.

    >>> describe_many([Tensor(np.array([1.0, 3.0])), Tensor(np.zeros(2))])[:, 0].tolist()
    [2.0, 0.0]
    """
    rows = np.full((len(tensors), len(stats.TENSOR_STATS)), np.nan)
    together = [i for i, one in enumerate(tensors) if 0 < one.values.size <= SMALL]
    if together:
        rows[together] = _describe_together([tensors[i] for i in together])
    for i, one in enumerate(tensors):
        if not 0 < one.values.size <= SMALL:
            rows[i] = describe(one.values, saturation=one.saturation, unit_axis=one.unit_axis)
    return rows


def _describe_together(tensors: Sequence[Tensor]) -> FloatArray:
    flat = np.concatenate([one.values.reshape(-1) for one in tensors], dtype=np.float64)
    counts = np.array([one.values.size for one in tensors])
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = np.add.reduceat(flat * flat, starts) / counts
        mean = np.add.reduceat(flat, starts) / counts
        variance = np.maximum(squares - mean * mean, 0.0)
    low, high = np.minimum.reduceat(flat, starts), np.maximum.reduceat(flat, starts)
    variance[low == high] = 0.0
    zeros = np.add.reduceat(flat == 0, starts, dtype=np.int64)
    rows = np.full((len(tensors), len(stats.TENSOR_STATS)), np.nan)
    rows[:, POSITION[Stat.MEAN]] = mean
    rows[:, POSITION[Stat.STD]] = np.sqrt(variance)
    rows[:, POSITION[Stat.MIN]], rows[:, POSITION[Stat.MAX]] = low, high
    rows[:, POSITION[Stat.NORM]] = np.sqrt(squares * counts)
    rows[:, POSITION[Stat.ZERO_SHARE]] = zeros / counts
    rows[:, POSITION[Stat.NAN_COUNT]] = rows[:, POSITION[Stat.INF_COUNT]] = 0
    rows[:, POSITION[Stat.COUNT]] = counts
    close = (squares < TINY_64) | (variance < CANCELLATION_64 * squares)
    exact = ~np.isfinite(squares) | (close & (low < high))
    saturated, dead = POSITION[Stat.SATURATED_SHARE], POSITION[Stat.DEAD_SHARE]
    smallest, largest, none = low.tolist(), high.tolist(), zeros.tolist()  # faster one by one
    batches: dict[int, list[int]] = {}
    for i, (values, saturation, axis) in enumerate(tensors):
        if saturation is not None:
            rows[i, saturated] = 0.0
            if smallest[i] <= saturation[0] or largest[i] >= saturation[1]:
                outside = (values <= saturation[0]) | (values >= saturation[1])
                rows[i, saturated] = np.count_nonzero(outside) / values.size
        if axis is not None and values.ndim >= 2:
            enough = none[i] * values.shape[axis] >= values.size
            rows[i, dead] = _dead(values == 0, axis % values.ndim) if enough else 0.0
            if not exact[i]:
                batches.setdefault(len(values), []).append(i)
    for size, members in batches.items():
        wide = [flat[starts[i] : starts[i] + counts[i]].reshape(size, -1) for i in members]
        widths = counts[members] // size
        between = _between_samples(np.concatenate(wide, axis=1), squares[members], widths)
        between[low[members] == high[members]] = 0.0
        rows[members, POSITION[Stat.SAMPLE_STD]] = np.sqrt(between)
    for i in np.flatnonzero(exact).tolist():  # not finite, or rounding would decide
        values, saturation, axis = tensors[i]
        rows[i] = stats.describe(values, saturation=saturation, unit_axis=axis)
    return rows


def _between_samples(
    values: npt.NDArray[np.float64], squares: FloatArray, widths: npt.NDArray[np.int64]
) -> FloatArray:
    """Mean variance over the samples of each of several tensors.

    Args:
        values: [samples, elements of all tensors].
        squares: Mean square of each tensor.
        widths: How many of the elements belong to each.
    """
    starts = np.concatenate(([0], np.cumsum(widths)[:-1]))
    average = np.add.reduce(values, axis=0) / len(values)
    between = squares - np.add.reduceat(average * average, starts) / widths
    for i in np.flatnonzero(between < CANCELLATION_64 * squares):
        own = values[:, starts[i] : starts[i] + widths[i]]
        between[i] = np.mean(np.var(own, axis=0))
    return np.maximum(between, 0.0)


def describe(
    tensor: npt.ArrayLike,
    *,
    saturation: tuple[float, float] | None = None,
    unit_axis: int | None = None,
) -> FloatArray:
    """What `stats.describe` computes, in about seven reads of the array.

    Args:
        tensor: Any shape and numeric dtype.
        saturation: See `stats.describe`.
        unit_axis: See `stats.describe`.
    """
    values: npt.NDArray[Any] = np.asarray(tensor)
    if values.dtype.kind != "f" or values.dtype.itemsize < 4:
        values = values.astype(np.float32 if values.dtype.itemsize < 4 else np.float64)
    if values.size == 0:
        return stats.describe(values, saturation=saturation, unit_axis=unit_axis)
    flat = values.reshape(-1)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = float(np.dot(flat, flat)) / flat.size
    # A NaN, an infinity, an overflow or an underflow of the squares: the exact way.
    if not np.isfinite(squares) or squares < np.finfo(np.float32).tiny:
        return stats.describe(values, saturation=saturation, unit_axis=unit_axis)
    mean = float(flat.mean(dtype=flat.dtype))
    low, high = float(flat.min()), float(flat.max())
    row = stats.empty()
    row[POSITION[Stat.MEAN]] = mean
    row[POSITION[Stat.STD]] = _deviation(squares, mean * mean, flat, None)
    row[POSITION[Stat.MIN]] = low
    row[POSITION[Stat.MAX]] = high
    row[POSITION[Stat.NORM]] = np.sqrt(squares * flat.size)
    row[POSITION[Stat.NAN_COUNT]] = row[POSITION[Stat.INF_COUNT]] = 0
    row[POSITION[Stat.COUNT]] = flat.size
    zero = values == 0 if low <= 0 <= high else None
    zeros = 0 if zero is None else int(np.count_nonzero(zero))
    row[POSITION[Stat.ZERO_SHARE]] = zeros / flat.size
    if saturation is not None:
        outside = 0
        if low <= saturation[0]:
            outside += int(np.count_nonzero(flat <= saturation[0]))
        if high >= saturation[1]:
            outside += int(np.count_nonzero(flat >= saturation[1]))
        row[POSITION[Stat.SATURATED_SHARE]] = outside / flat.size
    if unit_axis is not None and values.ndim >= 2:
        axis = unit_axis % values.ndim
        enough = zero is not None and zeros * values.shape[axis] >= flat.size
        row[POSITION[Stat.DEAD_SHARE]] = _dead(zero, axis) if enough else 0.0
        average = values.mean(axis=0).reshape(-1)
        common = float(np.dot(average, average)) / average.size
        row[POSITION[Stat.SAMPLE_STD]] = _deviation(squares, common, values, 0)
    return row


def _dead(zero: Any, axis: int) -> float:
    units = np.moveaxis(zero, axis, -1).reshape(-1, zero.shape[axis])
    return float(units.all(axis=0).mean())


def _deviation(squares: float, common: float, values: npt.NDArray[Any], axis: int | None) -> float:
    """Square root of `squares - common`, or the slow way where that would be rounding only."""
    variance = squares - common
    if variance < CANCELLATION * squares:
        variance = float(np.mean(np.var(values, axis=axis, dtype=np.float64)))
    return float(np.sqrt(max(variance, 0.0)))
