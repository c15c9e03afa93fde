"""Optimizers with Keras's formulas and defaults."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Schedule = Callable[[int], float]
"""Number of the step, from 0 -> learning rate."""


class Optimizer(abc.ABC):
    """Moves weights by their gradients.

    Args:
        learning_rate: A number, or a schedule: a function of the step.

    Attributes:
        name: Canonical lower-case name.
        step: How many updates were made.
        state: Weight's name to the arrays kept for it (momentum, ...), of the weight's shape.
    """

    name: str

    def __init__(self, learning_rate: float | Schedule) -> None:
        self.learning_rate = learning_rate
        self.step = 0
        self.state: dict[str, dict[str, Array]] = {}

    @property
    def rate(self) -> float:
        """The learning rate of the coming update."""
        rate = self.learning_rate
        return rate(self.step) if callable(rate) else rate

    def update(
        self, weights: Mapping[str, Array], gradients: Mapping[str, Array]
    ) -> dict[str, Array]:
        """The new value of each weight that has a gradient; advances the state by one step."""
        rate = self.rate
        new = {}
        for name, gradient in gradients.items():
            state = self.state.setdefault(name, {})
            new[name] = weights[name] - self.move(gradient, state, rate)
        self.step += 1
        return new

    @abc.abstractmethod
    def move(self, gradient: Array, state: dict[str, Array], rate: float) -> Array:
        """What is subtracted from a weight; `state` is replaced in place."""


class SGD(Optimizer):
    """w <- w - rate * g; with momentum m: v <- m v - rate * g, w <- w + v."""

    name = "sgd"

    def __init__(self, learning_rate: float | Schedule = 0.01, momentum: float = 0.0) -> None:
        super().__init__(learning_rate)
        self.momentum = momentum

    def move(self, gradient: Array, state: dict[str, Array], rate: float) -> Array:
        step = np.asarray(rate, gradient.dtype) * gradient
        if self.momentum:
            step = state["velocity"] = state.get("velocity", 0) * self.momentum + step
        return step


def get(optimizer: str | Optimizer) -> Optimizer:
    """The optimizer of a name, with its defaults.

    Raises:
        ValueError: There is none of this name.
    """
    if isinstance(optimizer, Optimizer):
        return optimizer
    if optimizer not in _NAMED:
        known = ", ".join(sorted(_NAMED))
        raise ValueError(f"unknown optimizer {optimizer!r}; known are {known}.")
    return _NAMED[optimizer]()


_NAMED: dict[str, Callable[[], Optimizer]] = {"sgd": SGD}
