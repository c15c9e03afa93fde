"""From a framework's settings to the engine's: what is not understood is an error."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from stethoscope.engine import activations, regularizers, schedules
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
}


def where(kind: str, name: str, source: SourceRef | None = None) -> str:
    """How a part of the user's program is called in an error: its name, class and line."""
    line = f", {source.file}:{source.line}" if source else ""
    return f"{name!r} ({kind}{line})"


def construct(kind: type, settings: Mapping[str, Any], place: str) -> Any:
    """An engine object with the settings of its original.

    Args:
        kind: Engine class whose arguments are named as in Keras.
        settings: As `get_config()` gives them; nested objects as {"class_name", "config"}.
        place: What is translated, for errors.

    Raises:
        TranslationError: A setting that has an effect is not known to the engine.
    """
    accepted = inspect.signature(kind).parameters
    given = {}
    for key, value in settings.items():
        if key in WITHOUT_EFFECT or key.endswith("_initializer"):
            continue
        if key in accepted:
            given[key] = _value(key, value, place)
        elif value:  # None, False, 0 and "" switch something off that the engine does not have
            raise TranslationError(
                f"{place} cannot be translated: the engine has no {key}={value!r}."
            )
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        raise TranslationError(f"{place} cannot be translated: {error}") from error


def _value(key: str, value: Any, place: str) -> Any:
    if key.endswith("activation") and value is not None:
        return _activation(value, place)
    if not isinstance(value, Mapping) or "class_name" not in value:
        return tuple(value) if isinstance(value, list) else value
    for module in (regularizers, schedules):
        kind = getattr(module, str(value["class_name"]), None)
        if inspect.isclass(kind):
            return construct(kind, value.get("config") or {}, place)
    raise TranslationError(
        f"{place} cannot be translated: the engine has no {value['class_name']} for its {key}."
    )


def _activation(value: Any, place: str) -> Any:
    name = value.get("config") if isinstance(value, Mapping) else value
    try:
        return activations.get(name)
    except (TypeError, ValueError, KeyError) as error:
        raise TranslationError(f"{place} cannot be translated: {error}") from error
