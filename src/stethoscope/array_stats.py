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


Array = npt.NDArray[Any]


class Look(NamedTuple):
    """What `stats.describe` is to know of a tensor."""

    saturation: tuple[float, float] | None = None
    unit_axis: int | None = None


def describe_many(steps: Sequence[Sequence[Array]], looks: Sequence[Look]) -> FloatArray:
    """What `describe` says of the same tensors of several steps.

    Small arrays are laid end to end in float64 and reduced together: for a model of small layers
    the number of NumPy calls is the cost, not the numbers.

    Args:
        steps: Of each its tensors; those at one place have one shape.
        looks: How the tensor at each place is described.

    Returns:
        float64 [steps, tensors, statistics], the last in the order of `TENSOR_STATS`.

    >>> describe_many([[np.array([1.0, 3.0]), np.zeros(2)]], [Look(), Look()])[0, :, 0].tolist()
    [2.0, 0.0]
    """
    rows = np.full((len(steps), len(looks), len(stats.TENSOR_STATS)), np.nan)
    small = [i for i, one in enumerate(steps[0]) if 0 < one.size <= SMALL] if steps else []
    if small:
        rows[:, small] = _together(
            [[step[i] for i in small] for step in steps], [looks[i] for i in small]
        )
    for i in set(range(len(looks))).difference(small):
        for row, step in zip(rows, steps, strict=True):
            row[i] = describe(step[i], **looks[i]._asdict())
    return rows


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def _together(steps: Sequence[Sequence[Array]], looks: Sequence[Look]) -> FloatArray:
    shapes = [one.shape for one in steps[0]]
    counts = np.array([one.size for one in steps[0]])
    ends = np.cumsum(counts)
    starts, width = ends - counts, int(ends[-1])
    flat = np.concatenate([one.reshape(-1) for step in steps for one in step], dtype=np.float64)
    wide = flat.reshape(len(steps), width)
    places = (starts + width * np.arange(len(steps))[:, None]).reshape(-1)

    def reduced(how: np.ufunc, values: Array, dtype: Any = None) -> Array:
        found: Array = how.reduceat(values, places, dtype=dtype)
        return found.reshape(len(steps), -1)

    squares = reduced(np.add, flat * flat) / counts
    mean = reduced(np.add, flat) / counts
    variance = np.maximum(squares - mean * mean, 0.0)
    low, high = reduced(np.minimum, flat), reduced(np.maximum, flat)
    variance[low == high] = 0.0
    zeros = reduced(np.add, flat == 0, np.int64)
    rows = np.full((*zeros.shape, len(stats.TENSOR_STATS)), np.nan)
    rows[:, :, POSITION[Stat.MEAN]] = mean
    rows[:, :, POSITION[Stat.STD]] = np.sqrt(variance)
    rows[:, :, POSITION[Stat.MIN]], rows[:, :, POSITION[Stat.MAX]] = low, high
    rows[:, :, POSITION[Stat.NORM]] = np.sqrt(squares * counts)
    rows[:, :, POSITION[Stat.ZERO_SHARE]] = zeros / counts
    rows[:, :, POSITION[Stat.NAN_COUNT]] = rows[:, :, POSITION[Stat.INF_COUNT]] = 0
    rows[:, :, POSITION[Stat.COUNT]] = counts
    batches: dict[int, list[int]] = {}
    for i, (saturation, axis) in enumerate(looks):
        values = wide[:, starts[i] : ends[i]]
        if saturation is not None:
            outside = 0.0
            if ((low[:, i] <= saturation[0]) | (high[:, i] >= saturation[1])).any():
                out = (values <= saturation[0]) | (values >= saturation[1])
                outside = np.count_nonzero(out, axis=1) / counts[i]
            rows[:, i, POSITION[Stat.SATURATED_SHARE]] = outside
        if axis is not None and len(shapes[i]) >= 2:
            batches.setdefault(shapes[i][0], []).append(i)
            dying = zeros[:, i] * shapes[i][axis] >= counts[i]
            rows[:, i, POSITION[Stat.DEAD_SHARE]] = 0.0
            if dying.any():
                dead = _dead(values[dying].reshape(-1, *shapes[i]) == 0, axis % len(shapes[i]))
                rows[dying, i, POSITION[Stat.DEAD_SHARE]] = dead
    for size, members in batches.items():
        layers = [
            wide[:, starts[i] : ends[i]].reshape(-1, size, counts[i] // size) for i in members
        ]
        spread = _between_samples(layers, squares[:, members])
        spread[low[:, members] == high[:, members]] = 0.0
        rows[:, members, POSITION[Stat.SAMPLE_STD]] = np.sqrt(spread)
    close = (squares < TINY_64) | (variance < CANCELLATION_64 * squares)
    exact = ~np.isfinite(squares) | (close & (low < high))
    # Not finite, or so small or so alike that rounding would decide: the exact way.
    for step, i in np.argwhere(exact):
        rows[step, i] = stats.describe(steps[step][i], **looks[i]._asdict())
    return rows


def _between_samples(layers: Sequence[Array], squares: FloatArray) -> FloatArray:
    """Mean variance over the samples of each of several tensors.

    Args:
        layers: float64 [steps, samples, elements], with as many samples in each.
        squares: Mean square of each, [steps, layers].

    Returns:
        [steps, layers].
    """
    widths = np.array([one.shape[2] for one in layers])
    average = np.add.reduce(np.concatenate(layers, axis=2), axis=1) / layers[0].shape[1]
    starts = np.cumsum(widths) - widths
    between: FloatArray = squares - np.add.reduceat(average * average, starts, axis=1) / widths
    for step, i in np.argwhere(between < CANCELLATION_64 * squares):
        between[step, i] = np.mean(np.var(layers[i][step], axis=0))
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
        row[POSITION[Stat.DEAD_SHARE]] = 0.0
        if zero is not None and zeros * values.shape[axis] >= flat.size:
            row[POSITION[Stat.DEAD_SHARE]] = _dead(zero[None], axis)[0]
        average = values.mean(axis=0).reshape(-1)
        common = float(np.dot(average, average)) / average.size
        row[POSITION[Stat.SAMPLE_STD]] = _deviation(squares, common, values, 0)
    return row


def _dead(zero: Array, axis: int) -> FloatArray:
    """Share of the units along an axis that are 0 everywhere, of each of several tensors."""
    units = np.moveaxis(zero, 1 + axis, -1).reshape(len(zero), -1, zero.shape[1 + axis])
    share: FloatArray = units.all(axis=1).mean(axis=1)
    return share


def _deviation(squares: float, common: float, values: npt.NDArray[Any], axis: int | None) -> float:
    """Square root of `squares - common`, or the slow way where that would be rounding only."""
    variance = squares - common
    if variance < CANCELLATION * squares:
        variance = float(np.mean(np.var(values, axis=axis, dtype=np.float64)))
    return float(np.sqrt(max(variance, 0.0)))
