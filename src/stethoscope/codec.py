"""The shared dataclasses as JSON-ready values, and back.

Non-finite numbers travel as strings, since JSON has none.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar, Union

T = TypeVar("T")


def encode(value: Any) -> Any:
    """Turns a shared dataclass (or a nest of them) into values that `json.dumps` takes.

    >>> from stethoscope.types import Evidence
    >>> encode(Evidence("loss", float("nan"), 1.0, "!="))
    {'what': 'loss', 'value': 'nan', 'bound': 1.0, 'relation': '!='}
    """
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): encode(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [encode(v) for v in value]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    value = value.item() if hasattr(value, "item") else value
    plain = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return value if plain else str(value)


def decode(kind: type[T], value: Any) -> T:
    """Reads back what `encode` wrote, as `kind`.

    Raises:
        TypeError, ValueError, KeyError: where `value` does not have the shape of `kind`.

    >>> from stethoscope.types import Evidence
    >>> decode(Evidence, {"what": "loss", "value": 1, "bound": "inf", "relation": "<"}).bound
    'inf'
    """
    return typing.cast(T, _decode(kind, value))


_HINTS: dict[type, dict[str, Any]] = {}


def _decode(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        concrete = [k for k in typing.get_args(kind) if k is not type(None)]
        return _decode(concrete[0], value) if len(concrete) == 1 and value is not None else value
    if origin is tuple:
        args = typing.get_args(kind)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_decode(args[0], v) for v in value)
        return tuple(_decode(a, v) for a, v in zip(args, value, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        return {k: _decode(typing.get_args(kind)[1], v) for k, v in value.items()}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, Mapping):
            raise TypeError(f"expected the fields of a {kind.__name__}, got {value!r}.")
        hints = _HINTS.setdefault(kind, typing.get_type_hints(kind))
        known = {f.name for f in dataclasses.fields(kind)}
        return kind(**{k: _decode(hints[k], v) for k, v in value.items() if k in known})
    if kind is float:
        return float(value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    return value
