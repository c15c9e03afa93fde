"""The statistics of one tensor, defined once, as slow plain NumPy.

Every fast version (an adapter's, a kernel's, the engine's) is tested against `describe`. All
statistics but the two counts of non-finite elements are over the finite elements only; NaN means
that a statistic does not apply or that nothing finite was there to measure.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stethoscope.types import Stat

TENSOR_STATS: tuple[Stat, ...] = tuple(s for s in Stat if s is not Stat.VALUE)
"""What is recorded of a tensor, in the order of a vector of statistics."""

POSITION: dict[Stat, int] = {stat: i for i, stat in enumerate(TENSOR_STATS)}
"""Index of each statistic in such a vector."""

NONFINITE = slice(POSITION[Stat.NAN_COUNT], POSITION[Stat.INF_COUNT] + 1)
"""The two counts of non-finite elements, which are neighbours."""

FloatArray = npt.NDArray[np.float64]


def nonfinite(vector: FloatArray) -> float:
    """How many elements of a described tensor are NaN or infinite."""
    return float(vector[POSITION[Stat.NAN_COUNT]] + vector[POSITION[Stat.INF_COUNT]])


def empty() -> FloatArray:
    """A vector in which nothing is recorded."""
    return np.full(len(TENSOR_STATS), np.nan)


def describe(
    tensor: npt.ArrayLike,
    *,
    saturation: tuple[float, float] | None = None,
    unit_axis: int | None = None,
) -> FloatArray:
    """All statistics of one tensor.

    Args:
        tensor: Any shape and numeric dtype; the first axis is the batch where `unit_axis` is given.
        saturation: Interval outside which a pre-activation counts as saturated; None leaves
            `saturated_share` unrecorded.
        unit_axis: Axis of the units or channels of a batch of activations; None (weights,
            gradients) leaves `dead_share` and `sample_std` unrecorded.

    Returns:
        float64 vector in the order of `TENSOR_STATS`:
        mean, std (population), min, max; norm (Euclidean); zero_share (exact zeros);
        dead_share (units that are exactly 0 at every sample and position);
        saturated_share; sample_std (root mean square over elements of the standard deviation
        across samples: 0 when every sample gives the same output); nan_count, inf_count, count.

    >>> row = describe([[0.0, 1.0], [0.0, 3.0]], unit_axis=1)
    >>> float(row[POSITION[Stat.DEAD_SHARE]]), float(row[POSITION[Stat.MAX]])
    (0.5, 3.0)
    """
    values = np.asarray(tensor)
    values = values.astype(np.float64)
    row = empty()
    row[POSITION[Stat.COUNT]] = values.size
    row[POSITION[Stat.NAN_COUNT]] = np.isnan(values).sum()
    row[POSITION[Stat.INF_COUNT]] = np.isinf(values).sum()
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return row
    row[POSITION[Stat.MEAN]] = finite.mean()
    row[POSITION[Stat.STD]] = finite.std()
    row[POSITION[Stat.MIN]] = finite.min()
    row[POSITION[Stat.MAX]] = finite.max()
    row[POSITION[Stat.NORM]] = np.sqrt(np.square(finite).sum())
    row[POSITION[Stat.ZERO_SHARE]] = np.mean(finite == 0)
    if saturation is not None:
        low, high = saturation
        row[POSITION[Stat.SATURATED_SHARE]] = np.mean((finite <= low) | (finite >= high))
    if unit_axis is not None and values.ndim >= 2:
        others = tuple(i for i in range(values.ndim) if i != unit_axis % values.ndim)
        row[POSITION[Stat.DEAD_SHARE]] = np.mean(np.all(values == 0, axis=others))
        if finite.size == values.size:
            row[POSITION[Stat.SAMPLE_STD]] = np.sqrt(np.mean(np.var(values, axis=0)))
    return row
