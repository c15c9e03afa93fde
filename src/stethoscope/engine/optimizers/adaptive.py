"""Optimizers whose rate of a weight depends on the squares of its gradients."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from stethoscope.engine.optimizers._base import Array, Optimizer, Schedule, Settings, State


class RMSprop(Optimizer):
    """Moves by the gradient over the root of its mean square.

    v <- rho v + (1 - rho) g^2, w <- w - rate g / sqrt(v + epsilon).

    Args:
        learning_rate: See `Optimizer`.
        rho: Share of the mean that is kept.
        momentum: Share of the last move that is kept.
        epsilon: Added to the mean square.
        centered: Subtract the square of the mean gradient: divide by the standard deviation.
        **settings: See `Settings`.
    """

    name = "rmsprop"

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(learning_rate, **settings)
        self.rho = rho
        self.momentum = momentum
        self.epsilon = epsilon
        self.centered = centered

    def start(self, weight: Array) -> State:
        slots = ["velocity"]
        slots += ["momentum"] * (self.momentum > 0) + ["average_gradient"] * self.centered
        return {slot: np.zeros_like(weight) for slot in slots}

    def move(self, gradient: Array, state: State, factors: tuple[float, ...]) -> Array:
        scratch = square_mean(gradient, state["velocity"], self.rho)
        if self.centered:
            mean = state["average_gradient"]
            mean *= self.rho
            mean += np.multiply(gradient, 1 - self.rho, out=scratch)
            np.multiply(mean, mean, out=scratch)
            np.subtract(state["velocity"], scratch, out=scratch)
            scratch += self.epsilon
        else:
            np.add(state["velocity"], self.epsilon, out=scratch)
        np.sqrt(scratch, out=scratch)
        np.divide(gradient, scratch, out=scratch)
        scratch *= -factors[0]
        if self.momentum > 0:
            kept = state["momentum"]  # of what is subtracted, as in Keras
            kept *= self.momentum
            kept -= scratch
            np.negative(kept, out=scratch)
        return scratch


class Adagrad(Optimizer):
    """a <- a + g^2, w <- w - rate g / sqrt(a + epsilon).

    Args:
        learning_rate: See `Optimizer`.
        initial_accumulator_value: The first a.
        epsilon: See the formula.
        **settings: See `Settings`.

    Source: Duchi et al., "Adaptive Subgradient Methods", 2011, figure 1.
    """

    name = "adagrad"

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(learning_rate, **settings)
        self.initial_accumulator_value = initial_accumulator_value
        self.epsilon = epsilon

    def start(self, weight: Array) -> State:
        return {"accumulator": np.full_like(weight, self.initial_accumulator_value)}

    def move(self, gradient: Array, state: State, factors: tuple[float, ...]) -> Array:
        total = state["accumulator"]
        scratch = gradient * gradient
        total += scratch
        np.add(total, self.epsilon, out=scratch)
        np.sqrt(scratch, out=scratch)
        np.divide(gradient, scratch, out=scratch)
        scratch *= -factors[0]
        return scratch


class Adadelta(Optimizer):
    """Moves by the gradient, times the size of the last moves over that of the last gradients.

    a <- rho a + (1 - rho) g^2, d = -sqrt(b + epsilon) / sqrt(a + epsilon) g,
    b <- rho b + (1 - rho) d^2, w <- w + rate d.

    Args:
        learning_rate: See `Optimizer`.
        rho: Share of the means that is kept.
        epsilon: See the formula.
        **settings: See `Settings`.

    Source: Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012, algorithm 1.
    """

    name = "adadelta"

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-7,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(learning_rate, **settings)
        self.rho = rho
        self.epsilon = epsilon

    def start(self, weight: Array) -> State:
        slots = ("accumulated_grad", "accumulated_delta_var")
        return {slot: np.zeros_like(weight) for slot in slots}

    def move(self, gradient: Array, state: State, factors: tuple[float, ...]) -> Array:
        gradients, moves = state["accumulated_grad"], state["accumulated_delta_var"]
        scratch = square_mean(gradient, gradients, self.rho)
        np.add(gradients, self.epsilon, out=scratch)
        step = moves + self.epsilon
        np.sqrt(step, out=step)
        np.sqrt(scratch, out=scratch)
        step *= gradient
        step /= scratch
        square_mean(step, moves, self.rho)
        step *= -factors[0]
        return step


def square_mean(x: Array, mean: Array, rho: float) -> Array:
    """Moves the mean of the squares in place; returns an array to reuse."""
    mean *= rho
    scratch = x * x
    scratch *= 1 - rho
    mean += scratch
    return scratch
