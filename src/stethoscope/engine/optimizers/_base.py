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


LARGE = 1 << 15
"""Elements from which a weight is moved alone: then the copy costs more than the calls it saves."""


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


class _Flat:
    """Weights one after the other in one vector: a small network is then moved in a few calls.

    Attributes:
        names: Of the weights.
        whole: Their values after the last update.
        parts: Views of these by name, in the weights' shapes.
        state: Slot's name to a vector.
    """

    def __init__(self, names: list[str], weights: list[Array]) -> None:
        self.names = names
        self.shapes = [weight.shape for weight in weights]
        ends = np.cumsum([weight.size for weight in weights]).tolist()
        self.bounds = list(zip([0, *ends[:-1]], ends, strict=True))
        self.whole = joined(weights)
        self.parts: dict[str, Array] = {}
        self.state: State = {}

    def split(self, vector: Array) -> dict[str, Array]:
        """Views of a vector by name."""
        return {
            name: vector[start:end].reshape(shape)
            for name, shape, (start, end) in zip(self.names, self.shapes, self.bounds, strict=True)
        }

    def values(self, weights: Mapping[str, Array]) -> Array:
        """All weights in one vector; that of the last update if nobody has replaced one since."""
        if self.parts and all(weights[name] is part for name, part in self.parts.items()):
            return self.whole
        return joined([weights[name] for name in self.names])


class Optimizer(abc.ABC):
    """Moves weights by their gradients.

    Args:
        learning_rate: A number, or a schedule: a function of the step.
        **settings: See `Settings`.

    Attributes:
        name: Canonical lower-case name.
        step: How many updates were made.
        state: Weight's name to the arrays kept for it, under Keras's names ("momentum", ...).
            To be read: they change in place, so copy what is to be kept. `restore` sets it.
        source: The call that constructed it.
        rate_source: The call that constructed its schedule, where that is known.

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
        self._names: list[str] = []
        self._flats: list[_Flat] | None = None
        self.source: SourceRef | None = locate.here(sys._getframe(1))
        self.rate_source: SourceRef | None = None
        self._undecayed: frozenset[str] = frozenset()
        self._undecayed_names: re.Pattern[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy lays its arrays out anew: views would be copied apart from their vectors."""
        return {**vars(self), "_flats": None}

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

    @property
    def excluded_from_weight_decay(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The arguments of `exclude_from_weight_decay`, the patterns as one."""
        names = self._undecayed_names
        return tuple(sorted(self._undecayed)), () if names is None else (names.pattern,)

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
        self.step, self._flats = step, None
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
        rate, new = self.rate, dict[str, Array]()
        if gradients:
            if self._flats is None or self._names != list(gradients):
                self._lay_out(weights, list(gradients))
            clipped, factors = self._clipped(gradients), None
            for flat in self._flats or ():
                values = flat.values(weights)
                if factors is None:  # the weights of a network have one dtype
                    factors = self.factors(rate, values.dtype)
                if self.weight_decay:
                    values = self._decayed(values, flat, self.weight_decay * rate)
                step = self.move(joined([clipped[n] for n in flat.names]), flat.state, factors)
                flat.whole = values + step
                flat.parts = flat.split(flat.whole)
                new |= flat.parts
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
        """What is added to the weights; the arrays of `state` are changed in place.

        It works element by element: it is called once for all weights, one after the other.
        """

    def _lay_out(self, weights: Mapping[str, Array], names: list[str]) -> None:
        """Lays the weights and their states out as vectors; `state` becomes views of these."""
        small = [name for name in names if weights[name].size < LARGE]
        groups = [[name] for name in names if weights[name].size >= LARGE]
        self._names, self._flats = names, []
        for group in [*groups, small] if small else groups:
            flat = _Flat(group, [weights[name] for name in group])
            kept = [self.state.get(name) or self.start(weights[name]) for name in group]
            flat.state = {slot: joined([state[slot] for state in kept]).copy() for slot in kept[0]}
            views = {slot: flat.split(vector) for slot, vector in flat.state.items()}
            for name in group:
                self.state[name] = {slot: views[slot][name] for slot in views}
            self._flats.append(flat)

    def _decayed(self, values: Array, flat: _Flat, share: float) -> Array:
        if not self._undecayed and self._undecayed_names is None:
            return values - values * share
        values = values.copy()
        for name, part in flat.split(values).items():
            if self._decays(name):
                part -= part * share
        return values

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


def joined(arrays: list[Array]) -> Array:
    """The elements of all arrays in one vector; of a single one, a view."""
    if len(arrays) == 1:
        return arrays[0].reshape(-1)
    return np.concatenate([array.ravel() for array in arrays])


def power(base: float, exponent: int, dtype: np.dtype[Any]) -> float:
    """Gives base ** exponent as computed in `dtype`."""
    return float(np.power(dtype.type(base), dtype.type(exponent)))
