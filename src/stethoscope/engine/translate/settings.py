"""From a framework's settings to the engine's: what is not understood is an error."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from stethoscope import engine
from stethoscope.engine import activations, regularizers, schedules
from stethoscope.engine.layers._base import Layer
from stethoscope.types import SourceRef


class TranslationError(Exception):
    """A program, or a part of it, that the engine cannot run; the message names it and its line."""


# Settings that change nothing of what is computed, or that the copied weights make irrelevant.
WITHOUT_EFFECT = {
    "name",
    "trainable",
    "dtype",
    "seed",
    "batch_shape",
    "sparse",
    "ragged",
    "optional",
    "unroll",
    "implementation",
    "loss_scale_factor",
    "ema_momentum",
    "input_axes",
    "output_axes",
    "renorm_momentum",
    "unit_forget_bias",
    "zero_output_for_mask",  # a mask itself is not translated
}
LAYERS_AS_ACTIVATIONS = {
    "ELU": "elu",
    "LeakyReLU": "leaky_relu",
    "ReLU": "relu",
    "Softmax": "softmax",
}
"""Layers without weights that Keras takes as the activation of another one."""
USUAL = {"interpolation": "nearest"}
"""Settings that the engine does not have because it does only this."""


def where(kind: str, name: str, source: SourceRef | None = None) -> str:
    """How a part of the user's program is called in an error: its name, class and line."""
    line = f", {source.file}:{source.line}" if source else ""
    return f"{name!r} ({kind}{line})"


def of_keras(thing: Any) -> bool:
    """Whether a class, a function or an object is Keras's; a name of a module is one too.

    >>> of_keras("keras.src.losses"), of_keras("keras_of_mine"), of_keras(None)
    (True, False, False)
    """
    module = thing if isinstance(thing, str) else getattr(thing, "__module__", None)
    return str(module).partition(".")[0] == "keras"


def construct(kind: Callable[..., Any], settings: Mapping[str, Any], place: str) -> Any:
    """An engine object with the settings of its original.

    Args:
        kind: Engine class, or what makes its objects, whose arguments are named as in Keras.
        settings: As `get_config()` gives them; nested objects as {"class_name", "config"}.
        place: What is translated, for errors.

    Raises:
        TranslationError: A setting that has an effect is not known to the engine.
    """
    accepted = _arguments(kind)
    given = {}
    for key, value in settings.items():
        if key in WITHOUT_EFFECT or key.endswith("_initializer"):
            continue
        if key in accepted:
            given[key] = _value(key, value, place)
        elif value and value != USUAL.get(
            key
        ):  # None, False, 0 and "" switch something off that the engine does not have
            raise TranslationError(
                f"{place} cannot be translated: the engine has no {key}={value!r}."
            )
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        raise TranslationError(f"{place} cannot be translated: {error}") from error


@functools.cache
def _arguments(kind: Callable[..., Any]) -> frozenset[str]:
    """Every argument, also those that a class takes as `**settings` and hands on."""
    names: set[str] = set()
    owners = (
        [vars(owner).get("__init__") for owner in kind.__mro__]
        if isinstance(kind, type)
        else [kind]
    )
    for function in filter(None, owners):
        parameters = inspect.signature(function).parameters.values()
        names |= {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
        rest = [one.name for one in parameters if one.kind is one.VAR_KEYWORD]
        hints = typing.get_type_hints(function) if rest else {}
        declared = typing.get_args(hints.get(rest[0])) if rest else ()
        if declared:  # Unpack[Settings]
            names |= set(typing.get_type_hints(declared[0]))
        if declared or not rest:
            break
    return frozenset(names - {"self"})


def _value(key: str, value: Any, place: str) -> Any:
    if key.endswith("activation") and value is not None:
        return _activation(value, place)
    if not isinstance(value, Mapping) or "class_name" not in value:
        return tuple(value) if isinstance(value, list) else value
    for module in (regularizers, schedules, engine):
        kind = getattr(module, str(value["class_name"]), None)
        own = not of_keras(value.get("module") or "")
        if kind is None or own or (module is engine and not is_layer(kind)):
            continue
        # a class, or what Keras has as one: L1 and L2 are functions here
        return construct(kind, value.get("config") or {}, place)
    raise TranslationError(
        f"{place} cannot be translated: the engine has no {value['class_name']} for its {key}."
    )


def is_layer(kind: Any) -> bool:
    """Whether this is a class of layers of the engine."""
    return isinstance(kind, type) and issubclass(kind, Layer)


def _activation(value: Any, place: str) -> Any:
    name = value.get("config") if isinstance(value, Mapping) else value
    if isinstance(name, Mapping):
        kind = str(value["class_name"])
        function = LAYERS_AS_ACTIVATIONS.get(kind, "")
        if not function or not of_keras(value.get("module") or ""):
            raise TranslationError(
                f"{place} cannot be translated: its activation is a {kind}; apply it as a layer."
            )
        return construct(getattr(activations, function), name, place)
    try:
        return activations.get(name)
    except (TypeError, ValueError, KeyError) as error:
        raise TranslationError(f"{place} cannot be translated: {error}") from error
