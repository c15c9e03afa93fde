"""Metrics of one batch, with Keras's names and definitions, as pure functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Metric = Callable[[Array, Array], Array]
"""(target, prediction) -> one number for each sample (and position)."""


def mean_squared_error(target: Array, prediction: Array) -> Array:
    """mean((target - prediction)^2) over the last axis."""
    values: Array = np.square(prediction - target.reshape(prediction.shape)).mean(axis=-1)
    return values


def get(metric: str | Metric) -> Metric:
    """The metric of a name.

    Raises:
        ValueError: There is none of this name.
    """
    if not isinstance(metric, str):
        return metric
    if metric not in _NAMED:
        raise ValueError(f"unknown metric {metric!r}; known are {', '.join(sorted(_NAMED))}.")
    return _NAMED[metric]


_NAMED: dict[str, Metric] = {
    "mse": mean_squared_error,
    "mean_squared_error": mean_squared_error,
}
