"""Penalties on weights, added to the loss: L1, L2 and both, with Keras's names and defaults."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DEFAULT = 0.01  # Keras: of "l1", "l2" and "l1_l2" given by name


@dataclasses.dataclass(frozen=True)
class Regularizer:
    """l1 * sum |w| + l2 * sum w^2.

    >>> Regularizer(l2=0.5).value(np.array([1.0, 2.0]))
    2.5
    """

    l1: float = 0.0
    l2: float = 0.0

    def value(self, weight: Array) -> float:
        """The penalty of one weight."""
        total = 0.0
        if self.l1:
            total += self.l1 * float(np.abs(weight).sum())
        if self.l2:
            total += self.l2 * float(np.square(weight).sum())
        return total

    def gradient(self, weight: Array) -> Array:
        """Its derivative, of the weight's shape."""
        total = np.zeros_like(weight)
        if self.l1:
            total += self.l1 * np.sign(weight)
        if self.l2:
            total += 2 * self.l2 * weight
        return total


def get(regularizer: str | Regularizer | None) -> Regularizer | None:
    """The regularizer of a name; None stays None.

    Raises:
        ValueError: There is none of this name.
    """
    if regularizer is None or isinstance(regularizer, Regularizer):
        return regularizer
    named = {
        "l1": Regularizer(l1=DEFAULT),
        "l2": Regularizer(l2=DEFAULT),
        "l1_l2": Regularizer(l1=DEFAULT, l2=DEFAULT),
    }
    if regularizer not in named:
        known = ", ".join(named)
        raise ValueError(f"unknown regularizer {regularizer!r}; known are {known}.")
    return named[regularizer]
