"""The metrics of a compiled Keras model, with their settings."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from stethoscope.engine import metrics
from stethoscope.engine.metrics import Metric
from stethoscope.engine.translate.settings import TranslationError, of_keras, where

CLASSES_ONLY = ("accuracy", "cosine_similarity")
"""Functions of Keras that are something else than the metric of that name."""


def read(compiled: Any, outputs: Sequence[str]) -> list[Metric]:
    """The metrics that `compile` was given.

    Args:
        compiled: What Keras keeps of them, or None.
        outputs: Names of the model's outputs.

    Raises:
        TranslationError: The engine has no such metric or no such setting, they are weighted, or
            they are of another output than the first.
    """
    if compiled is None:
        return []
    if _listed(compiled._user_weighted_metrics):
        raise TranslationError(
            "weighted_metrics cannot be translated: the metrics of the engine have no sample "
            "weights; use metrics."
        )
    given = compiled._user_metrics or []
    if len(outputs) > 1:
        known = set(given) <= set(outputs) if isinstance(given, Mapping) else True
        if not known or (given and not isinstance(given, Mapping) and len(given) != len(outputs)):
            raise TranslationError(
                "the metrics cannot be translated: expected those of each output, or a dict by the "
                f"outputs' names, which are {', '.join(map(repr, outputs))}."
            )
        if isinstance(given, Mapping):
            given = [given.get(name) for name in outputs]
        for name, own in zip(outputs[1:], given[1:], strict=False):
            if _listed(own):
                raise TranslationError(
                    f"the metrics of output {name!r} cannot be translated: the engine has metrics "
                    f"of the first output, {outputs[0]!r}, only."
                )
        given = given[:1]
    return [_metric(one, compiled.metrics) for one in _listed(given)]


def _metric(given: Any, made: Sequence[Any]) -> Metric:
    """One metric: a name, or a class, an object or a function of Keras.

    Args:
        given: To `compile`.
        made: What Keras has made of all of them, or nothing yet.
    """
    kind = given if isinstance(given, type) else type(given)
    if isinstance(given, str):
        return _made(repr(given), given, given, {})
    if inspect.isfunction(given):
        name = given.__name__
        if not of_keras(given):
            raise TranslationError(
                f"metric {name!r} cannot be translated: it is a function of your own."
            )
        return _made(repr(name), "" if name in CLASSES_ONLY else name, name, {})
    usual = {key: one.default for key, one in inspect.signature(kind).parameters.items()}
    same: list[Any] = [one for one in (given, *made) if type(one) is kind]
    name = str(same[0].name if same else usual.get("name") or kind.__name__)
    shown = where(kind.__name__, name)
    if not of_keras(kind):
        raise TranslationError(f"metric {shown} cannot be translated: it is a class of your own.")
    settings = {}
    if not isinstance(given, type):
        # the configuration leaves out what Keras hands on to the metric's function
        held = {**getattr(given, "_fn_kwargs", {}), **given.get_config()}
        settings = {
            key: value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
            for key, value in held.items()
            if key not in ("name", "dtype", "fn") and value != usual.get(key, value is None)
        }
    known = kind.__name__ != "Accuracy"  # which compares the numbers themselves
    return _made(shown, kind.__name__ if known else "", name, settings)


def _made(shown: str, kind: str, name: str, settings: Mapping[str, Any]) -> Metric:
    listed = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    reason = f"the engine has none with {listed}." if listed else "the engine has no such metric."
    several = any(isinstance(value, list | tuple) for value in settings.values())
    try:
        if several or "ignore_class" in settings:  # the engine has it for losses
            raise ValueError
        return metrics.get(kind, name, **settings)
    except (TypeError, ValueError):
        raise TranslationError(f"metric {shown} cannot be translated: {reason}") from None


def _listed(given: Any) -> list[Any]:
    """What there is of metrics, in Keras's order."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        given = [given[key] for key in sorted(given)]
    if isinstance(given, list | tuple):
        return [one for part in given for one in _listed(part)]
    return [given]
