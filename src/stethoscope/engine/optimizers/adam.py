"""Adam and its relatives: moving means of the gradient and of its size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

import numpy as np
import numpy.typing as npt

from stethoscope.engine.optimizers._base import (
    Array,
    Optimizer,
    Schedule,
    Settings,
    State,
    power,
)

DECAY = 0.96  # Nadam's schedule of the momentum (Dozat 2016, section 5; fixed in Keras)


class _Moments(Optimizer):
    """What keeps a moving mean of the gradient, and one of its size.

    Attributes:
        slots_kept: Names of the arrays that are kept for each weight.
    """

    slots_kept: ClassVar[tuple[str, ...]] = ("momentum", "velocity")

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(learning_rate, **settings)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def start(self, weight: Array) -> State:
        return {slot: np.zeros_like(weight) for slot in self.slots_kept}


class Adam(_Moments):
    """Moves by the mean gradient over the root of its mean square.

    m <- m + (1 - beta_1) (g - m), v <- v + (1 - beta_2) (g^2 - v), and with t counting from 1
    w <- w - rate sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) + epsilon).

    Args:
        learning_rate: See `Optimizer`.
        beta_1, beta_2: Shares of the means that are kept.
        epsilon: Added to the root.
        amsgrad: Use the largest v so far.
        **settings: See `Settings`.

    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, section 2.1.

    >>> adam = Adam(0.1)
    >>> adam.update({"w": np.array([1.0])}, {"w": np.array([5.0])})["w"].round(4)
    array([0.9])
    """

    name = "adam"

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, **settings)
        self.amsgrad = amsgrad

    def start(self, weight: Array) -> State:
        largest = {"velocity_hat": np.zeros_like(weight)} if self.amsgrad else {}
        return super().start(weight) | largest

    def factors(self, rate: float, dtype: np.dtype[Any]) -> tuple[float, ...]:
        count, one = self.step + 1, dtype.type(1)
        rest_1 = float(one - dtype.type(power(self.beta_1, count, dtype)))
        rest_2 = float(one - dtype.type(power(self.beta_2, count, dtype)))
        return rate * math.sqrt(rest_2) / rest_1, self.epsilon

    def move(self, gradient: Array, state: State, factors: tuple[float, ...]) -> Array:
        alpha, epsilon = factors
        momentum, velocity = state["momentum"], state["velocity"]
        scratch = means(gradient, momentum, velocity, self.beta_1, self.beta_2)
        if self.amsgrad:
            largest = state["velocity_hat"]
            velocity = np.maximum(largest, velocity, out=largest)
        np.sqrt(velocity, out=scratch)
        scratch += epsilon
        np.divide(momentum, scratch, out=scratch)
        scratch *= -alpha
        return scratch


class AdamW(Adam):
    """`Adam` with weight decay.

    Args:
        learning_rate: See `Optimizer`.
        weight_decay: See `Settings`.
        beta_1, beta_2, epsilon, amsgrad: See `Adam`.
        **settings: See `Settings`.

    Raises:
        ValueError: `weight_decay` is None.

    Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019, algorithm 2.
    """

    name = "adamw"

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        weight_decay: float = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **settings: Any,
    ) -> None:
        if weight_decay is None:
            raise ValueError("AdamW decays weights: weight_decay is a number; without, use Adam.")
        settings["weight_decay"] = weight_decay
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, **settings)


class Nadam(_Moments):
    """`Adam` with Nesterov's momentum, whose share grows with the steps.

    Args:
        learning_rate: See `Optimizer`.
        beta_1, beta_2, epsilon: See `Adam`.
        **settings: See `Settings`.

    Source: Dozat, "Incorporating Nesterov Momentum into Adam", 2016, algorithm 8.
    """

    name = "nadam"
    _multiplied, _product = 0, 1.0  # of the shares of so many updates

    @property
    def product(self) -> float:
        """The product of the shares of all updates so far; Keras keeps it with its state."""
        return self._product

    def restore(self, step: int, state: Mapping[str, Mapping[str, npt.ArrayLike]]) -> None:
        super().restore(step, state)
        kept = [array for slots in self.state.values() for array in slots.values()]
        self._multiplied, self._product = 0, 1.0
        self._multiply(step, kept[0].dtype if kept else np.dtype(np.float64))

    def share(self, count: int, dtype: np.dtype[Any]) -> float:
        """How much of the mean gradient the update number `count` (from 1) keeps."""
        return float(dtype.type(self.beta_1 * (1 - 0.5 * power(DECAY, count, dtype))))

    def factors(self, rate: float, dtype: np.dtype[Any]) -> tuple[float, ...]:
        count, one = self.step + 1, dtype.type(1)
        self._multiply(count, dtype)
        product = dtype.type(self._product)
        now, later = self.share(count, dtype), self.share(count + 1, dtype)
        rest = float(one - dtype.type(power(self.beta_2, count, dtype)))
        of_mean = later / float(one - product * dtype.type(later))
        of_gradient = (1 - now) / float(one - product)
        return rate, of_mean, of_gradient, rest

    def _multiply(self, count: int, dtype: np.dtype[Any]) -> None:
        """Brings the product up to the update number `count`."""
        while self._multiplied < count:
            self._multiplied += 1
            grown = self._product * self.share(self._multiplied, dtype)
            self._product = float(dtype.type(grown))

    def move(self, gradient: Array, state: State, factors: tuple[float, ...]) -> Array:
        rate, of_mean, of_gradient, rest = factors
        momentum, velocity = state["momentum"], state["velocity"]
        scratch = means(gradient, momentum, velocity, self.beta_1, self.beta_2)
        np.divide(velocity, rest, out=scratch)
        np.sqrt(scratch, out=scratch)
        scratch += self.epsilon
        ahead = momentum * (-rate * of_mean)
        ahead += gradient * (-rate * of_gradient)
        ahead /= scratch
        return ahead


class Adamax(_Moments):
    """`Adam` with the largest gradient, slowly forgotten, in place of the mean square.

    u <- max(beta_2 u, |g|), w <- w - rate m / ((1 - beta_1^t) (u + epsilon)).

    Args:
        learning_rate: See `Optimizer`.
        beta_1, beta_2, epsilon: See `Adam`.
        **settings: See `Settings`.

    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, section 7.1.
    """

    name = "adamax"
    slots_kept = ("momentum", "norm")

    def factors(self, rate: float, dtype: np.dtype[Any]) -> tuple[float, ...]:
        rest = dtype.type(1) - dtype.type(power(self.beta_1, self.step + 1, dtype))
        return (rate / float(rest),)

    def move(self, gradient: Array, state: State, factors: tuple[float, ...]) -> Array:
        (alpha,) = factors
        momentum, norm = state["momentum"], state["norm"]
        scratch = gradient - momentum
        scratch *= 1 - self.beta_1
        momentum += scratch
        norm *= self.beta_2
        np.maximum(norm, np.abs(gradient, out=scratch), out=norm)
        np.add(norm, self.epsilon, out=scratch)
        np.divide(momentum, scratch, out=scratch)
        scratch *= -alpha
        return scratch


def means(gradient: Array, momentum: Array, velocity: Array, beta_1: float, beta_2: float) -> Array:
    """Moves the means of the gradient and of its square in place; returns an array to reuse."""
    scratch = gradient - momentum
    scratch *= 1 - beta_1
    momentum += scratch
    np.multiply(gradient, gradient, out=scratch)
    scratch -= velocity
    scratch *= 1 - beta_2
    velocity += scratch
    return scratch
