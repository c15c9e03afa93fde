"""Activations with the settings of torch, and with its derivatives at kinks.

The engine has those of Keras on JAX. They differ where an input lies exactly on a kink, which a
program does reach: a unit that got only zeros gives its bias, which is 0 at first.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from stethoscope.engine import activations
from stethoscope.engine.activations import Activation
from stethoscope.engine.layers._base import Array, Weights
from stethoscope.engine.layers.advanced_activation import PReLU

LINEAR_FROM = 20.0  # torch.nn.Softplus is linear above it; log1p(exp(-20)) is 2e-9


def leaky_relu(slope: float) -> Activation:
    """`x` where x > 0, slope * x elsewhere; the derivative at 0 is the slope.

    >>> at_zero = np.zeros(1)
    >>> leaky_relu(0.25).backward(np.ones(1), at_zero, at_zero)
    array([0.25])
    """

    def backward(gradient: Array, x: Array, _y: Array) -> Array:
        factor: Array = (x > 0).astype(x.dtype)
        factor *= 1 - slope
        factor += slope
        factor *= gradient
        return factor

    return dataclasses.replace(activations.leaky_relu(slope), backward=backward)


def hard_tanh(low: float, high: float) -> Activation:
    """`x` held between `low` and `high`; the derivative at both is 0."""

    def forward(x: Array) -> Array:
        return np.clip(x, x.dtype.type(low), x.dtype.type(high))

    def backward(gradient: Array, x: Array, _y: Array) -> Array:
        inside: Array = gradient * ((x > low) & (x < high))
        return inside

    if (low, high) == (0, 6):
        return activations.relu6()
    usual = (low, high) == (-1, 1)
    settings = {} if usual else {"low": low, "high": high}
    # The vocabulary's hard_tanh saturates at 1: another interval has no name in it.
    return Activation("hard_tanh" if usual else "clip", forward, backward, settings)


def softplus(beta: float, threshold: float) -> Activation:
    """log(1 + exp(beta x)) / beta.

    Raises:
        ValueError: It is made linear where the curve still differs from the line.
    """
    if threshold < LINEAR_FROM:
        raise ValueError(f"the engine has no softplus that is linear from {threshold} on.")
    return activations.softplus() if beta == 1 else _scaled(activations.softplus(), beta)


def softmin(axis: int) -> Activation:
    """The softmax of -x."""
    inner = activations.softmax(axis)
    return Activation(
        "softmax",
        lambda x: inner.forward(-x),
        lambda gradient, x, y: -inner.backward(gradient, x, y),
        {"axis": axis, "negated": True},
    )


class TorchPReLU(PReLU):
    """`PReLU` whose derivative at 0 is alpha."""

    def backward(
        self, gradient: Array, saved: Array, weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        _, of_weights = super().backward(gradient, saved, weights)
        slope = weights["alpha"] * (saved <= 0)
        slope += saved > 0
        slope *= gradient
        return [slope], of_weights


def _scaled(inner: Activation, factor: float) -> Activation:
    """f(factor x) / factor."""
    settings: dict[str, Any] = {"beta": factor}
    return Activation(
        inner.name,
        lambda x: inner.forward(x * factor) / factor,
        lambda gradient, x, y: inner.backward(gradient, x * factor, y * factor),
        settings,
    )
