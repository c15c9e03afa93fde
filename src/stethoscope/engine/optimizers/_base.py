"""What an optimizer is: clipping, weight decay and the learning rate are shared by all of them."""

from __future__ import annotations

import abc
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from stethoscope.diagnosis import locate
from stethoscope.types import SourceRef

Array = npt.NDArray[Any]
Schedule = Callable[[int], float]
"""Number of the step, from 0 -> learning rate."""
State = dict[str, Array]
"""What is kept for one weight: slot's name to an array of the weight's shape."""

ABSENT = {
    "use_ema": "keeps no moving average of the weights",
    "loss_scale_factor": "does not scale losses",
    "gradient_accumulation_steps": "updates after every batch",
}


class Settings(TypedDict, total=False):
    """Arguments that every optimizer takes.

    Attributes:
        weight_decay: Share of each weight, times the learning rate, taken away before the update.
        clipnorm: Largest norm of each weight's gradient.
        clipvalue: Largest absolute value of a gradient.
        global_clipnorm: Largest norm of all gradients together.
        use_ema, loss_scale_factor, gradient_accumulation_steps: Keras's; an error here.
    """

    weight_decay: float | None
    clipnorm: float | None
    clipvalue: float | None
    global_clipnorm: float | None
    use_ema: bool
    loss_scale_factor: float | None
    gradient_accumulation_steps: int | None


class Optimizer(abc.ABC):
    """Moves weights by their gradients.

    Args:
        learning_rate: A number, or a schedule: a function of the step.
        **settings: See `Settings`.

    Attributes:
        name: Canonical lower-case name.
        step: How many updates were made.
        state: Weight's name to the arrays kept for it, under Keras's names ("momentum", ...);
            changed in place, so copy what is to be kept. `restore` sets it.
        source: The call that constructed it.

    Raises:
        ValueError: More than one way of clipping, or something that the engine does not have.
    """

    name: str

    def __init__(self, learning_rate: float | Schedule, **settings: Unpack[Settings]) -> None:
        for key, fact in ABSENT.items():
            if settings.get(key):
                raise ValueError(f"the engine {fact}; leave out {key}.")
        unknown = sorted(settings.keys() - Settings.__annotations__.keys())
        if unknown:
            raise ValueError(f"{type(self).__name__} has no argument {', '.join(unknown)}.")
        self.learning_rate = learning_rate
        self.weight_decay = settings.get("weight_decay")
        self.clipnorm = settings.get("clipnorm")
        self.clipvalue = settings.get("clipvalue")
        self.global_clipnorm = settings.get("global_clipnorm")
        ways = (self.clipnorm, self.clipvalue, self.global_clipnorm)
        if sum(way is not None for way in ways) > 1:
            raise ValueError(
                "only one of clipnorm, clipvalue and global_clipnorm can be set; got "
                f"{self.clipnorm}, {self.clipvalue} and {self.global_clipnorm}."
            )
        self.step = 0
        self.state: dict[str, State] = {}
        self.source: SourceRef | None = locate.here(sys._getframe(1))
        self._undecayed: frozenset[str] = frozenset()
        self._undecayed_names: re.Pattern[str] | None = None

    @property
    def rate(self) -> float:
        """The learning rate of the coming update."""
        rate = self.learning_rate
        return float(rate(self.step)) if callable(rate) else rate

    def exclude_from_weight_decay(
        self, var_list: Iterable[str] = (), var_names: Iterable[str] = ()
    ) -> None:
        """Says which weights do not decay; without this call every one does.

        Args:
            var_list: Full names ("dense/kernel").
            var_names: Regular expressions, searched in the last part of a name ("bias").
        """
        self._undecayed = frozenset(var_list)
        patterns = list(var_names)
        self._undecayed_names = re.compile("|".join(patterns)) if patterns else None

    def restore(self, step: int, state: Mapping[str, Mapping[str, npt.ArrayLike]]) -> None:
        """Goes on as after `step` updates; the arrays are copied.

        Args:
            step: How many updates were made.
            state: Weight's name to its arrays; a weight that is left out starts anew.

        Raises:
            ValueError: The arrays of a weight are not those that this optimizer keeps.
        """
        fresh = self.start(np.zeros(()))
        for name, arrays in state.items():
            if arrays.keys() != fresh.keys():
                raise ValueError(
                    f"{type(self).__name__} keeps {sorted(fresh)} for a weight; got "
                    f"{sorted(arrays)} for {name!r}."
                )
        self.step = step
        self.state = {
            name: {slot: np.array(value) for slot, value in arrays.items()}
            for name, arrays in state.items()
        }

    def update(
        self, weights: Mapping[str, Array], gradients: Mapping[str, Array]
    ) -> dict[str, Array]:
        """The new value of each weight that has a gradient; advances the state by one step.

        Args:
            weights: By name; the arrays are left as they are.
            gradients: Of the weights that move; likewise.
        """
        rate, new, factors = self.rate, {}, None
        for name, gradient in self._clipped(gradients).items():
            weight = weights[name]
            state = self.state.get(name)
            if state is None:
                state = self.state[name] = self.start(weight)
            if factors is None:  # the weights of a network have one dtype
                factors = self.factors(rate, weight.dtype)
            if self.weight_decay and self._decays(name):
                weight = weight - weight * (self.weight_decay * rate)
            new[name] = weight + self.move(gradient, state, factors)
        self.step += 1
        return new

    def start(self, weight: Array) -> State:
        """What is kept for a weight before its first update."""
        return {}

    def factors(self, rate: float, dtype: np.dtype[Any]) -> tuple[float, ...]:
        """The numbers that `move` needs in this step, the same for every weight.

        Keras computes powers of the step in the weights' dtype: in float32, 1 - 0.999 is off by
        5e-5 of its value, which is why `dtype` matters.
        """
        return (rate,)

    @abc.abstractmethod
    def move(self, gradient: Array, state: State, factors: tuple[float, ...]) -> Array:
        """What is added to a weight; the arrays of `state` are changed in place."""

    def _decays(self, name: str) -> bool:
        if name in self._undecayed:
            return False
        names = self._undecayed_names
        return names is None or names.search(name.rsplit("/", 1)[-1]) is None

    def _clipped(self, gradients: Mapping[str, Array]) -> Mapping[str, Array]:
        if self.clipnorm:
            most = self.clipnorm
            return {
                name: g * (most / max(math.sqrt(_squares(g)), most))
                for name, g in gradients.items()
            }
        if self.global_clipnorm:
            norm = math.sqrt(sum(_squares(g) for g in gradients.values()))
            # Keras: one gradient that is not finite makes all of them NaN
            scale = math.nan
            if math.isfinite(norm):
                scale = self.global_clipnorm / max(norm, self.global_clipnorm)
            return {name: g * scale for name, g in gradients.items()}
        if self.clipvalue:
            most = self.clipvalue
            return {n: np.minimum(np.maximum(g, -most), most) for n, g in gradients.items()}
        return gradients


def _squares(gradient: Array) -> float:
    return float(np.vdot(gradient, gradient))


def power(base: float, exponent: int, dtype: np.dtype[Any]) -> float:
    """Gives base ** exponent as computed in `dtype`."""
    return float(np.power(dtype.type(base), dtype.type(exponent)))
