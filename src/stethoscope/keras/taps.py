"""Seeing what a layer computes, for as long as one call of the model lasts.

A tap shadows `layer.call` and `layer.activation` in the instance's own dictionary, which Keras
and torch look at first; taking it away leaves the layer as it was, whatever it held there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import keras

from stethoscope.keras.graph import Node
from stethoscope.keras.names import unit_axis
from stethoscope.program import LayerSpec
from stethoscope.vocabulary import ACTIVATIONS, AFFINE, LayerKind

_MISSING = object()


@dataclasses.dataclass(frozen=True)
class Tapped:
    """One layer or operation to look at.

    Attributes:
        path: As in the Program.
        layer: The Keras object.
        is_activation: Its input is the pre-activation.
        inline: It applies an activation of its own that can be seen apart.
        saturation: Interval of its activation; None where that never saturates.
        unit_axis: Axis of the units in its output; None where an output has no units.
    """

    path: str
    layer: Any
    is_activation: bool = False
    inline: bool = False
    saturation: tuple[float, float] | None = None
    unit_axis: int | None = None


class Listener(Protocol):
    """What a tap calls. Arguments are the framework's own tensors, possibly traced."""

    def before(self, tapped: Tapped, tensor: Any) -> None:
        """Sees a pre-activation."""

    def after(self, tapped: Tapped, tensor: Any) -> Any:
        """Sees an output and returns what the layer is to return."""

    def miss(self, path: str) -> None:
        """Is told of a functional activation that is not seen; "" where the model calls it."""


def choose(nodes: Mapping[str, Node], specs: Sequence[LayerSpec]) -> list[Tapped]:
    """What to tap of a described model: each object once, under its first path."""
    by_path = {spec.path: spec for spec in specs}
    chosen: dict[int, Tapped] = {}
    for path, node in nodes.items():
        spec = by_path.get(path)
        if spec is None or id(node.operation) in chosen:
            continue
        chosen[id(node.operation)] = _tapped(spec, node.operation)
    return list(chosen.values())


def _tapped(spec: LayerSpec, layer: Any) -> Tapped:
    facts = ACTIVATIONS.get(spec.activation or "")
    saturation = facts.saturation if facts and _is_bounded(facts.saturation) else None
    axis: int | None
    try:
        axis = unit_axis(layer)
    except (AttributeError, TypeError, ValueError):
        axis = -1
    return Tapped(
        path=spec.path,
        layer=layer,
        is_activation=spec.kind is LayerKind.ACTIVATION,
        inline=spec.kind in AFFINE
        and spec.activation != "linear"
        and callable(getattr(layer, "activation", None)),
        saturation=saturation,
        unit_axis=axis,
    )


def _is_bounded(interval: tuple[float, float]) -> bool:
    return interval[0] > -float("inf") or interval[1] < float("inf")


@contextlib.contextmanager
def tap(
    tapped: Sequence[Tapped], listener: Listener, inside: list[Tapped | None] | None = None
) -> Iterator[None]:
    """While open, `listener` sees every call of the layers in `tapped`.

    Args:
        tapped: The layers.
        listener: What sees them.
        inside: Is told the layers whose call is running, innermost last.
    """
    shadows = []
    inside = [] if inside is None else inside
    try:
        for one in tapped:
            shadows.append(shadow(one.layer, "call", _call(one, listener, inside)))
            if one.inline:
                shadows.append(shadow(one.layer, "activation", _activation(one, listener)))
        yield
    finally:
        for undo in reversed(shadows):
            undo()


def shadow(owner: Any, name: str, value: Any) -> Callable[[], None]:
    """Puts `value` before `owner.name`, past every `__setattr__`; returns what takes it away."""
    own = vars(owner)
    before = own.get(name, _MISSING)
    own[name] = value

    def undo() -> None:
        if before is _MISSING:
            own.pop(name, None)
        else:
            own[name] = before

    return undo


def _call(tapped: Tapped, listener: Listener, inside: list[Tapped | None]) -> Callable[..., Any]:
    original = tapped.layer.call

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if tapped.is_activation and args:
            listener.before(tapped, args[0])
        inside.append(tapped)
        try:
            output = original(*args, **kwargs)
        finally:
            inside.pop()
        return _after(tapped, listener, output)

    return call


def _after(tapped: Tapped, listener: Listener, output: Any) -> Any:
    """Shows the first tensor of an output, and puts it back into its structure."""
    flat = keras.tree.flatten(output)
    if not flat:
        return output
    seen = listener.after(tapped, flat[0])
    if seen is flat[0]:
        return output
    return keras.tree.pack_sequence_as(output, [seen, *flat[1:]])


def _activation(tapped: Tapped, listener: Listener) -> Callable[..., Any]:
    original = tapped.layer.activation

    @functools.wraps(original, updated=())
    def activation(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        listener.before(tapped, tensor)
        return original(tensor, *args, **kwargs)

    return activation
