"""A layer's settings and parameters as plain values."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping
from typing import Any

from stethoscope.keras.names import from_library, is_layer, library_classes, snake_case, wrapped

LONGEST_LIST = 16  # settings are numbers and short tuples; what is longer is data (a vocabulary)

_NOT_SETTINGS = frozenset({"name", "trainable", "dtype", "seed", "batch_input_shape", "function"})


def settings(thing: Any) -> dict[str, Any]:
    """The JSON-ready part of `thing.get_config()`; empty where that is missing or fails.

    Initializers and regularizers become `{"name": "random_normal", "stddev": 0.05}`. The settings
    of a wrapped layer are merged in, with the wrapper's own beside them.
    """
    raw: Any = {}
    if from_library(type(thing)) or not is_layer(thing):
        # A user's own get_config may do anything: it is not called.
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            raw = thing.get_config()
    elif is_layer(thing):
        raw = _inherited(thing)
    found: dict[str, Any] = {}
    inner = wrapped(thing) if is_layer(thing) else None
    if inner is not None:
        found.update(settings(inner))
        found["wraps"] = type(inner).__name__
    cell = getattr(thing, "cell", None)
    if cell is not None and "RNN" in library_classes(thing):
        found.update(settings(cell))
    for key, value in raw.items() if isinstance(raw, Mapping) else ():
        if key in _NOT_SETTINGS or (inner is not None and key in ("layer", "backward_layer")):
            continue
        known, plain = _plain(value)
        if known and not (plain is None and key in found):
            found[str(key)] = plain
    return found


def _inherited(layer: Any) -> dict[str, Any]:
    """Settings of a user's subclass of a Keras layer: its base's attributes, read not called."""
    names: tuple[str, ...] = ("units", "filters", "rate", "axis", "momentum", "epsilon", "use_bias")
    names += ("kernel_size", "padding", "strides", "data_format", "return_sequences", "num_heads")
    return {name: getattr(layer, name) for name in names if hasattr(layer, name)}


def _plain(value: Any) -> tuple[bool, Any]:
    """(whether it can be said in JSON, how)."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return True, value
    if isinstance(value, (list, tuple)):
        items = [_plain(item) for item in value[: LONGEST_LIST + 1]]
        if len(items) > LONGEST_LIST or not all(known for known, _ in items):
            return False, None
        return True, [item for _, item in items]
    if isinstance(value, Mapping):
        if "class_name" in value:
            return True, _named(str(value["class_name"]), value.get("config"))
        return True, {str(k): p for k, (known, p) in _plain_items(value) if known}
    if isinstance(value, type) or callable(value):
        name = getattr(value, "__name__", None)
        if isinstance(name, str):
            return True, name
        return True, _named(type(value).__name__, getattr(value, "get_config", dict)())
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return True, value.item()
    return False, None


def _plain_items(value: Mapping[Any, Any]) -> list[tuple[Any, tuple[bool, Any]]]:
    return [(k, _plain(v)) for k, v in value.items() if k not in _NOT_SETTINGS]


def _named(class_name: str, config: Any) -> dict[str, Any] | str:
    if isinstance(config, str):  # a function: {"class_name": "function", "config": "relu"}
        return config
    found: dict[str, Any] = {"name": snake_case(class_name)}
    if isinstance(config, Mapping):
        found.update({str(k): p for k, (known, p) in _plain_items(config) if known})
    return found


def parameters(layer: Any, *, own_only: bool = False) -> dict[str, Any]:
    """Name to Keras variable, of everything in `layer` that was made to be trained.

    A frozen layer's parameters are among them; running statistics and seeds are not. The name is
    Keras's ("kernel"), with the sub-layers' names before it where that is not unique.

    Args:
        layer: Any layer.
        own_only: Leave out what belongs to the sub-layers.
    """
    found: list[Any] = []
    queue, seen = [layer], set[int]()
    while queue:
        part = queue.pop(0)
        if id(part) in seen:
            continue
        seen.add(id(part))
        own = getattr(part, "_trainable_variables", None)
        found.extend(getattr(part, "trainable_weights", ()) if own is None else own)
        if not own_only:
            queue = [*getattr(part, "_layers", ()), *queue]
    unique = list({id(variable): variable for variable in found}.values())
    names = [str(getattr(variable, "name", "variable")) for variable in unique]
    result: dict[str, Any] = {}
    for variable, name in zip(unique, names, strict=True):
        if names.count(name) > 1:
            name = _inner_path(layer, variable) or name
        free, number = name, 0
        while free in result:
            number += 1
            free = f"{name}_{number}"
        result[free] = variable
    return result


def _inner_path(layer: Any, variable: Any) -> str:
    parts = str(getattr(variable, "path", "")).split("/")
    name = getattr(layer, "name", None)
    return "/".join(parts[parts.index(name) + 1 :] if name in parts else parts[-2:])
