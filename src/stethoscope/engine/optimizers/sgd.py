"""Optimizers that follow the gradient, or its sign, with momentum."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from stethoscope.engine.optimizers._base import Array, Optimizer, Schedule, Settings, State


class SGD(Optimizer):
    """w <- w - rate g; with momentum: m <- momentum m - rate g, w <- w + m.

    Args:
        learning_rate: See `Optimizer`.
        momentum: Share of the last move that is kept.
        nesterov: w <- w + momentum m - rate g, with the new m.
        **settings: See `Settings`.

    Raises:
        ValueError: The momentum is not within [0, 1].

    >>> sgd = SGD(0.5, momentum=0.5)
    >>> weights, gradients = {"w": np.array([1.0])}, {"w": np.array([1.0])}
    >>> weights = sgd.update(weights, gradients)
    >>> sgd.update(weights, gradients), sgd.state
    ({'w': array([-0.25])}, {'w': {'momentum': array([-0.75])}})
    """

    name = "sgd"

    def __init__(
        self,
        learning_rate: float | Schedule = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(learning_rate, **settings)
        if not 0 <= momentum <= 1:
            raise ValueError(f"momentum is a share within [0, 1]; got {momentum}.")
        self.momentum = momentum
        self.nesterov = nesterov

    def start(self, weight: Array) -> State:
        return {"momentum": np.zeros_like(weight)} if self.momentum else {}

    def move(self, gradient: Array, state: State, factors: tuple[float, ...]) -> Array:
        step = gradient * -factors[0]
        if not self.momentum:
            return step
        kept = state["momentum"]
        kept *= self.momentum
        kept += step
        if self.nesterov:
            step += kept * self.momentum
            return step
        return kept


class Lion(Optimizer):
    """w <- w - rate sign(beta_1 m + (1 - beta_1) g), then m <- beta_2 m + (1 - beta_2) g.

    Args:
        learning_rate: See `Optimizer`.
        beta_1, beta_2: See the formula.
        **settings: See `Settings`.

    Raises:
        ValueError: `beta_1` is not within (0, 1].

    Source: Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023, program 1.
    """

    name = "lion"

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(learning_rate, **settings)
        if not 0 < beta_1 <= 1:
            raise ValueError(f"beta_1 is a share within (0, 1]; got {beta_1}.")
        self.beta_1 = beta_1
        self.beta_2 = beta_2

    def start(self, weight: Array) -> State:
        return {"momentum": np.zeros_like(weight)}

    def factors(self, rate: float, dtype: np.dtype[Any]) -> tuple[float, ...]:
        one = dtype.type(1)  # the shares in the weights' dtype, as Keras rounds them here
        rest = (one - dtype.type(beta) for beta in (self.beta_1, self.beta_2))
        return (rate, *map(float, rest))

    def move(self, gradient: Array, state: State, factors: tuple[float, ...]) -> Array:
        rate, rest_1, rest_2 = factors
        kept = state["momentum"]
        step = kept * self.beta_1
        step += gradient * rest_1
        np.sign(step, out=step)
        step *= -rate
        kept *= self.beta_2
        kept += gradient * rest_2
        return step
