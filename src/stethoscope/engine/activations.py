"""Activation functions and their derivatives, as pure functions over arrays.

Names and settings are those of Keras 3, so that a model means the same in both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Activation:
    """One activation function.

    Attributes:
        name: A name of `vocabulary.ACTIVATIONS`.
        forward: x -> y, elementwise or over the last axis.
        backward: (gradient of y, x, y) -> gradient of x.
    """

    name: str
    forward: Callable[[Array], Array]
    backward: Callable[[Array, Array, Array], Array]


def get(activation: str | Activation) -> Activation:
    """The activation of a name.

    Raises:
        ValueError: There is none of this name.

    >>> get("relu").forward(np.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    if isinstance(activation, Activation):
        return activation
    if activation not in _MAKERS:
        known = ", ".join(sorted(_MAKERS))
        raise ValueError(f"unknown activation {activation!r}; known are {known}.")
    return _MAKERS[activation]()


def linear() -> Activation:
    """The identity."""
    return Activation("linear", lambda x: x, lambda gradient, _x, _y: gradient)


def relu() -> Activation:
    """The larger of x and 0; the derivative at 0 is 0."""
    return Activation(
        "relu", lambda x: np.maximum(x, 0), lambda gradient, _x, y: gradient * (y > 0)
    )


def sigmoid() -> Activation:
    """The logistic function 1 / (1 + exp(-x))."""

    def forward(x: Array) -> Array:
        small = np.exp(-np.abs(x))  # never overflows
        y: Array = np.where(x >= 0, 1, small) / (1 + small)
        return y

    return Activation("sigmoid", forward, lambda gradient, _x, y: gradient * y * (1 - y))


def tanh() -> Activation:
    """The hyperbolic tangent."""
    return Activation("tanh", np.tanh, lambda gradient, _x, y: gradient * (1 - y * y))


def softmax(axis: int = -1) -> Activation:
    """Powers exp(x) that sum to 1 over `axis`."""

    def forward(x: Array) -> Array:
        powers = np.exp(x - x.max(axis=axis, keepdims=True))
        y: Array = powers / powers.sum(axis=axis, keepdims=True)
        return y

    def backward(gradient: Array, _x: Array, y: Array) -> Array:
        back: Array = y * (gradient - (gradient * y).sum(axis=axis, keepdims=True))
        return back

    return Activation("softmax", forward, backward)


_MAKERS: dict[str, Callable[[], Activation]] = {
    "linear": linear,
    "relu": relu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "softmax": softmax,
}
