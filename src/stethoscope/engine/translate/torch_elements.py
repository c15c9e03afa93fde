"""Losses of single elements as torch has them: each gives values and derivatives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stethoscope.engine.layers._base import Array

LOWEST_LOG = -100.0  # torch.nn.BCELoss takes no logarithm below it
LEAST_VARIANCE = 1e-12  # and divides by at least this on its way back
Elements = Callable[[Array, Array], tuple[Array, Array]]
"""(target, prediction) -> (the loss of each element, its derivative)."""


def squared(target: Array, x: Array) -> tuple[Array, Array]:
    """(x - t)^2."""
    error = x - target
    return error * error, error * 2


def absolute(target: Array, x: Array) -> tuple[Array, Array]:
    """|x - t|; the derivative at 0 is 0, where that of Keras on JAX is 1."""
    error = x - target
    return np.abs(error), np.sign(error)


def huber(delta: float, scale: float) -> Elements:
    """(x - t)^2 / 2 where |x - t| <= delta, else delta (|x - t| - delta / 2); times `scale`."""

    def elements(target: Array, x: Array) -> tuple[Array, Array]:
        error = x - target
        limited = np.minimum(np.maximum(error, -delta), delta)
        return limited * (error - 0.5 * limited) * scale, limited * scale

    return elements


def binary(target: Array, p: Array) -> tuple[Array, Array]:
    """-(t log p + (1 - t) log(1 - p)), with logarithms of at least `LOWEST_LOG`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.maximum(np.log(p), LOWEST_LOG)
        others = np.maximum(np.log1p(-p), LOWEST_LOG)
    slope = (p - target) / np.maximum((1 - p) * p, LEAST_VARIANCE)
    return -(target * logs + (1 - target) * others), slope


def binary_logits(positive: Array | None) -> Elements:
    """`binary` of p = 1 / (1 + exp(-x)), with t log p multiplied by `positive`."""

    def elements(target: Array, x: Array) -> tuple[Array, Array]:
        small = np.exp(-np.abs(x))  # never overflows
        loss_of_one = np.log1p(small) + np.maximum(-x, 0)  # -log sigmoid(x)
        sigmoid = np.where(x >= 0, x.dtype.type(1), small) / (1 + small)
        factor = target if positive is None else target * positive.astype(x.dtype)
        rest = 1 - target
        total = rest + factor
        return rest * x + total * loss_of_one, rest - total * (1 - sigmoid)

    return elements


def divergence(log_target: bool) -> Elements:
    """Elements t (log t - x) for log-probabilities x; with `log_target` t is given as log t."""

    def elements(target: Array, x: Array) -> tuple[Array, Array]:
        if log_target:
            share = np.exp(target)
            return share * (target - x), -share
        own = np.where(target > 0, target * np.log(np.where(target > 0, target, 1)), 0)
        return own.astype(x.dtype) - target * x, -target

    return elements


def poisson(log_input: bool, epsilon: float) -> Elements:
    """exp(x) - t x, or x - t log(x + epsilon) without `log_input`."""

    def elements(target: Array, x: Array) -> tuple[Array, Array]:
        if log_input:
            mean = np.exp(x)
            return mean - target * x, mean - target
        return x - target * np.log(x + epsilon), 1 - target / (x + epsilon)

    return elements


def soft_margin(target: Array, x: Array) -> tuple[Array, Array]:
    """log(1 + exp(-t x))."""
    margin = -target * x
    small = np.exp(-np.abs(margin))
    share = np.where(margin >= 0, x.dtype.type(1), small) / (1 + small)
    return np.log1p(small) + np.maximum(margin, 0), -target * share
