"""First values of weights, with Keras's names and definitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Initializer = Callable[[tuple[int, ...], np.random.Generator], Array]
"""(shape, random numbers) -> float64 array of that shape."""


def fans(shape: tuple[int, ...]) -> tuple[float, float]:
    """How many inputs and outputs one unit of a kernel [*window, in, out] has."""
    if len(shape) < 1:
        return 1.0, 1.0
    if len(shape) == 1:
        return float(shape[0]), float(shape[0])
    window = float(np.prod(shape[:-2]))
    return shape[-2] * window, shape[-1] * window


@dataclasses.dataclass(frozen=True)
class VarianceScaling:
    """Random values with variance scale / fan.

    Attributes:
        scale: Factor of the variance.
        mode: "fan_in", "fan_out" or "fan_avg".
        distribution: "uniform" or "truncated_normal" (at two standard deviations).
    """

    scale: float
    mode: str
    distribution: str

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws the values."""
        fan_in, fan_out = fans(shape)
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        variance = self.scale / max(fan, 1.0)
        if self.distribution == "uniform":
            limit = np.sqrt(3 * variance)
            return rng.uniform(-limit, limit, shape)
        raise NotImplementedError(self.distribution)


@dataclasses.dataclass(frozen=True)
class Constant:
    """Every value the same."""

    value: float = 0.0

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """The values."""
        return np.full(shape, self.value, dtype=np.float64)


def get(initializer: str | Initializer) -> Initializer:
    """The initializer of a name.

    Raises:
        ValueError: There is none of this name.
    """
    if not isinstance(initializer, str):
        return initializer
    if initializer not in _NAMED:
        known = ", ".join(sorted(_NAMED))
        raise ValueError(f"unknown initializer {initializer!r}; known are {known}.")
    return _NAMED[initializer]


_NAMED: dict[str, Initializer] = {
    "glorot_uniform": VarianceScaling(1.0, "fan_avg", "uniform"),
    "zeros": Constant(0.0),
    "ones": Constant(1.0),
}
