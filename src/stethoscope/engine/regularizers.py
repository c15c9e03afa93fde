"""Penalties on weights, added to the loss, with Keras's names and defaults."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from stethoscope.engine.arithmetic import sign, unit

Array = npt.NDArray[Any]


class Regularizer(abc.ABC):
    """A penalty of one weight."""

    @abc.abstractmethod
    def value(self, weight: Array) -> float:
        """The penalty of one weight."""

    @abc.abstractmethod
    def gradient(self, weight: Array) -> Array:
        """Its derivative, of the weight's shape."""


@dataclasses.dataclass(frozen=True)
class L1L2(Regularizer):
    """l1 * sum |w| + l2 * sum w^2.

    >>> L1L2(l2=0.5).value(np.array([1.0, 2.0]))
    2.5
    """

    l1: float = 0.0
    l2: float = 0.0

    def __post_init__(self) -> None:
        for factor in (self.l1, self.l2):
            _check(factor)

    def value(self, weight: Array) -> float:
        total = 0.0
        if self.l1:
            total += self.l1 * float(np.abs(weight).sum())
        if self.l2:
            total += self.l2 * float(np.vdot(weight, weight))
        return total

    def gradient(self, weight: Array) -> Array:
        if not self.l1:
            return weight * (2 * self.l2)
        total = sign(weight) * self.l1
        if self.l2:
            total += weight * (2 * self.l2)
        return total


def L1(l1: float = 0.01) -> L1L2:  # noqa: N802 (as Keras spells it)
    """l1 * sum |w|."""
    return L1L2(l1=l1)


def L2(l2: float = 0.01) -> L1L2:  # noqa: N802
    """l2 * sum w^2.

    >>> L2().value(np.array([1.0, 2.0]))
    0.05
    """
    return L1L2(l2=l2)


@dataclasses.dataclass(frozen=True)
class OrthogonalRegularizer(Regularizer):
    """factor times the mean |cosine| over all pairs of rows (or columns) of a matrix.

    Attributes:
        factor: Of the penalty.
        mode: "rows" or "columns".

    >>> OrthogonalRegularizer(1.0).value(np.array([[1.0, 0.0], [1.0, 1.0]])).__round__(4)
    0.7071
    """

    factor: float = 0.01
    mode: str = "rows"

    def __post_init__(self) -> None:
        _check(self.factor)
        if self.mode not in ("rows", "columns"):
            raise ValueError(f'mode is "rows" or "columns"; got {self.mode!r}.')

    def value(self, weight: Array) -> float:
        vectors, _ = unit(self._rows(weight), 1)
        return self._share(len(vectors)) * float(np.abs(_products(vectors)).sum())

    def gradient(self, weight: Array) -> Array:
        vectors, back = unit(self._rows(weight), 1)
        signs = sign(_products(vectors))
        np.fill_diagonal(signs, 0)
        gradient = back(signs @ vectors * (2 * self._share(len(vectors))))
        return gradient if self.mode == "rows" else gradient.T

    def _rows(self, weight: Array) -> Array:
        if weight.ndim != 2:
            raise ValueError(
                f"OrthogonalRegularizer is of matrices; got a weight of shape {weight.shape}."
            )
        return weight if self.mode == "rows" else weight.T

    def _share(self, size: int) -> float:
        """Of each ordered pair; one vector has no pair, and Keras then divides 0 by 0."""
        return self.factor / (size * (size - 1)) if size > 1 else float("nan")


def get(regularizer: str | Regularizer | None) -> Regularizer | None:
    """The regularizer of a name, with its defaults; None stays None.

    Raises:
        ValueError: There is none of this name.
    """
    if regularizer is None or isinstance(regularizer, Regularizer):
        return regularizer
    if not isinstance(regularizer, str) or regularizer not in _NAMED:
        known = ", ".join(sorted(_NAMED))
        raise ValueError(f"unknown regularizer {regularizer!r}; known are {known}.")
    return _NAMED[regularizer]()


def _products(vectors: Array) -> Array:
    products: Array = vectors @ vectors.T
    np.fill_diagonal(products, 0)
    return products


def _check(factor: float) -> None:
    if not (np.isfinite(factor) and factor >= 0):
        raise ValueError(f"the factor of a penalty is 0 or more; got {factor}.")


_NAMED: dict[str, Callable[[], Regularizer]] = {
    "L1": L1,
    "L1L2": L1L2,
    "L2": L2,
    "OrthogonalRegularizer": OrthogonalRegularizer,
    "l1": L1,
    "l1_l2": L1L2,
    "l1l2": L1L2,
    "l2": L2,
    "orthogonal_regularizer": OrthogonalRegularizer,
}
