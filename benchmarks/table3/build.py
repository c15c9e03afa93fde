"""A case as a compiled Keras model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import keras

from table3.cases import Case


def keras_model(case: Case, input_shape: tuple[int, ...]) -> Any:
    """Builds and compiles the model of a case, with new weights.

    Args:
        case: The program.
        input_shape: Of one sample.
    """
    layers = [_layer(settings) for settings in case.layers]
    model = keras.Sequential([keras.Input(input_shape), *layers])
    model.compile(_optimizer(case.optimizer), case.loss, metrics=list(case.metrics))
    return model


def _layer(settings: Mapping[str, Any]) -> Any:
    given = {key: _value(key, value) for key, value in settings.items() if key != "type"}
    return getattr(keras.layers, settings["type"])(**given)


def _value(key: str, value: Any) -> Any:
    """`normal(0.05)` and the like as the object that Keras takes."""
    found = re.fullmatch(r"(\w+)\((.+)\)", value) if isinstance(value, str) else None
    if found is None:
        return tuple(value) if isinstance(value, list) else value
    name, number = found[1], float(found[2])
    if key.endswith("_regularizer"):
        return {"l2": keras.regularizers.L2}[name](number)
    makers = {
        "normal": lambda: keras.initializers.RandomNormal(0.0, number),
        "uniform": lambda: keras.initializers.RandomUniform(-number, number),
        "constant": lambda: keras.initializers.Constant(number),
    }
    return makers[name]()


def _optimizer(settings: Mapping[str, Any]) -> Any:
    given = dict(settings)
    kind, decay = getattr(keras.optimizers, given.pop("name")), given.pop("decay", 0.0)
    if decay:  # Keras 2: rate / (1 + decay * step)
        rate = given["learning_rate"]
        given["learning_rate"] = keras.optimizers.schedules.InverseTimeDecay(rate, 1, decay)
    return kind(**given)
