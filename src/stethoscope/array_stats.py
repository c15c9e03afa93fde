"""The statistics of one NumPy array in few passes; equal to `stats.describe` up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stethoscope import stats
from stethoscope.stats import POSITION, FloatArray
from stethoscope.types import Stat

# Below this share of the mean square, a variance from sums of squares in float32 is rounding.
CANCELLATION = 1e-3


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
