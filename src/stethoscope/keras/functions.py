"""Activations that a user's own `call` applies as functions: `keras.ops.relu(x)`.

Every spelling of such a call (`keras.ops`, `keras.activations`, imported by name) ends in a
function of the backend's module. For as long as one call of the model lasts these functions are
shadowed: those that the symbolic call found are seen in its order, any other is told as missed.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from keras.src import backend

from stethoscope.keras.names import from_library, is_layer, library_classes, snake_case
from stethoscope.keras.taps import Listener, Tapped, shadow
from stethoscope.vocabulary import ACTIVATIONS

_NAMES = {"ReLU": "relu", "Relu6": "relu6"}
_NO_FUNCTIONS = {"linear", "prelu", "exponential"}  # an exponential is rarely an activation
WATCHED = frozenset(ACTIVATIONS) - _NO_FUNCTIONS


def applied_by(tapped: Tapped) -> str:
    """The name of the backend's function that an operation calls."""
    name = type(tapped.layer).__name__
    return _NAMES.get(name, snake_case(name))


def has_own_code(model: Any, tapped: Sequence[Tapped]) -> bool:
    """Whether code of the user's runs inside the model's forward pass."""
    return _is_own(model) or any(is_layer(one.layer) and _is_own(one.layer) for one in tapped)


def _is_own(layer: Any) -> bool:
    return not from_library(type(layer)) or "Lambda" in library_classes(layer)


def queues(functions: Sequence[Tapped]) -> tuple[dict[str, list[Tapped]], set[str]]:
    """The operations of each function in the order of their calls.

    Returns:
        The queues, and the paths of the operations whose order is not known.
    """
    by_name: dict[str, list[Tapped]] = {}
    missed: set[str] = set()
    for one in functions:
        by_name.setdefault(applied_by(one), []).append(one)
    for name, found in list(by_name.items()):
        # Keras numbers the operations of a class as they are made.
        found.sort(key=lambda one: _number(one.layer.name))
        if name not in WATCHED or len({type(one.layer) for one in found}) > 1:
            missed.update(one.path for one in by_name.pop(name))
    return by_name, missed


def _number(name: str) -> int:
    end = name.rsplit("_", 1)[-1]
    return int(end) if end.isdigit() else 0


@contextlib.contextmanager
def listen(
    model: Any, functions: Sequence[Tapped], inside: list[Tapped | None], listener: Listener
) -> Iterator[None]:
    """While open, `listener` sees the functional activations of the model's `call`.

    Args:
        model: Its `call` is shadowed, to know what is called inside it.
        functions: Operations that a symbolic call of the model found.
        inside: The layers whose call is running, innermost last; None is the model.
        listener: What sees them.
    """
    by_name, missed = queues(functions)
    undo = [shadow(model, "call", _inside_of(model.call, inside))]
    try:
        for module in (backend.nn, backend.numpy):
            for name in WATCHED & set(vars(module)):
                seen = _seen(vars(module)[name], by_name.get(name, []), inside, listener)
                undo.append(shadow(module, name, seen))
        yield
    finally:
        for back in reversed(undo):
            back()
        left = {one.path for queue in by_name.values() for one in queue}
        for path in missed | left:
            listener.miss(path)


def _inside_of(original: Callable[..., Any], inside: list[Tapped | None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        inside.append(None)
        try:
            return original(*args, **kwargs)
        finally:
            inside.pop()

    return call


def _seen(
    original: Callable[..., Any],
    queue: list[Tapped],
    inside: list[Tapped | None],
    listener: Listener,
) -> Callable[..., Any]:
    thread = threading.get_ident()

    @functools.wraps(original, updated=())
    def function(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if not inside or threading.get_ident() != thread:
            return original(tensor, *args, **kwargs)
        layer = inside[-1]
        if layer is not None or not queue:
            if layer is None or _hides(layer):
                listener.miss("" if layer is None else layer.path)
            return original(tensor, *args, **kwargs)
        one = queue.pop(0)
        inside.append(one)  # some functions are made of others
        try:
            listener.before(one, tensor)
            return listener.after(one, original(tensor, *args, **kwargs))
        finally:
            inside.pop()

    return function


def _hides(tapped: Tapped) -> bool:
    """Whether a function called right inside it is more than its own, seen activation."""
    own = is_layer(tapped.layer) and _is_own(tapped.layer)
    return own and not tapped.inline and not tapped.is_activation


def reasons(missed: Sequence[str] | set[str]) -> Mapping[str, str]:
    """What to declare unseen: topic to reason.

    Args:
        missed: Paths of layers or operations; "" for the model itself.
    """
    return {
        f"activations in {path}" if path else "functional activations": (
            "an activation applied as a function in a call() of your own is not seen"
        )
        for path in sorted(missed)
    }
