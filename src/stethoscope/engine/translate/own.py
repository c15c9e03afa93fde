"""Which code of a Keras program is the user's own: the engine reads models, it runs none of it."""

from __future__ import annotations

import inspect
import itertools
from types import CodeType
from typing import Any

from stethoscope.diagnosis import locate
from stethoscope.engine.translate.settings import TranslationError, of_keras, where
from stethoscope.types import SourceRef

WITHOUT_EFFECT = {
    "build_from_config",
    "compile",  # what it left behind is read
    "compile_from_config",
    "export",
    "fit",  # the engine takes the place of the one of Keras that it calls
    "from_config",
    "get_build_config",
    "get_compile_config",
    "get_config",
    "load_weights",
    "make_predict_function",
    "predict",
    "predict_on_batch",
    "predict_step",
    "save",
    "save_weights",
    "summary",
    "test_on_batch",
    "to_json",
    "train_on_batch",
}
"""Methods that no training of Keras calls."""


def refuse_arguments(node: Any, name: str) -> None:
    """Refuses a layer or an operator that is called with more than the tensors it works on.

    Args:
        node: Of Keras: one call, with its arguments.
        name: How the layer is called.

    Raises:
        TranslationError: There is a number, an array or a setting among the arguments.
    """
    kind = type(node.operation).__name__
    for key, value in itertools.chain(
        (("", one) for one in _leaves(node.arguments.args)), node.arguments.kwargs.items()
    ):
        leaves = _leaves(value)
        if all(leaf is None for leaf in leaves):
            continue
        if all(hasattr(leaf, "_keras_history") for leaf in leaves) and key in ("", "inputs", "x"):
            continue
        if key == "training":  # a model overrides it by what it is doing itself
            continue
        given = key or f"the constant {value!r}"
        raise TranslationError(
            f"layer {where(kind, name)} cannot be translated: it is called with {given}."
        )


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in _leaves(part)]
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in _leaves(part)]
    return [value]


def refuse(thing: Any, what: str, name: str) -> None:
    """Refuses a model or a layer that computes with a method of the user's.

    Args:
        thing: The Keras object.
        what: "model" or "layer".
        name: How it is called.

    Raises:
        TranslationError: A class outside of Keras, or the object itself, has a method in place of
            one of Keras's, or an activation is a function of the user's; the message has its line.
    """
    kind = type(thing)
    mine = list(itertools.takewhile(lambda one: not of_keras(one), kind.__mro__))
    methods = {key: value for one in reversed(mine) for key, value in vars(one).items()}
    rest = kind.__mro__[len(mine) :]
    methods |= {key: value for key, value in vars(thing).items() if inspect.isroutine(value)}
    for key, value in methods.items():
        hidden = key.startswith("__") and key != "__call__"
        known = any(key in vars(one) for one in rest)
        if hidden or not known or key in WITHOUT_EFFECT or of_keras(value):
            continue
        raise TranslationError(
            f"{what} {where(kind.__name__, name, line(value))} cannot be translated: its {key} is "
            "code of your own, which the engine cannot read."
        )
    config = thing.get_config() if what == "layer" and hasattr(thing, "get_config") else {}
    for key in config:  # which has only the name of a function
        function = getattr(thing, key, None) if key.endswith("activation") else None
        if function is not None and not (of_keras(function) or of_keras(type(function))):
            raise TranslationError(
                f"{what} {where(kind.__name__, name, line(function))} cannot be translated: its "
                f"{key} is a function of your own."
            )
    for inner in ("forward_layer", "backward_layer"):
        if hasattr(thing, inner):
            refuse(getattr(thing, inner), what, name)


def line(function: Any) -> SourceRef | None:
    """Where a function, a method or a property is written."""
    for wrapper in ("fget", "func", "__func__", "__wrapped__"):
        function = getattr(function, wrapper, None) or function
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    return SourceRef(locate.shown_path(code.co_filename), code.co_firstlineno)
