"""Which array of what a fit is given belongs to which input and output of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from stethoscope.engine.layers._base import Array
from stethoscope.engine.translate import TranslationError


def inputs(model: Any, data: Any) -> list[Array]:
    """One array for each input of a functional or Sequential model, in its order.

    Raises:
        TranslationError: They do not fit.
    """
    functional = getattr(model, "_functional", None) or model
    struct = functional._inputs_struct
    tensors = keras.tree.flatten(struct)
    names = sorted(struct) if isinstance(struct, Mapping) else [one.name for one in tensors]
    arrays = _flat(_by_name(data, names, "input"))
    if len(arrays) != len(tensors):
        raise TranslationError(
            f"fit cannot be run in the engine: expected {len(tensors)} inputs, got {len(arrays)}."
        )
    return [
        _of_rank(array, tuple(one.shape), one.name)
        for array, one in zip(arrays, tensors, strict=True)
    ]


def targets(model: Any, data: Any) -> list[Array]:
    """One array for each output of the model, in its order.

    Raises:
        TranslationError: They do not fit.
    """
    names = list(getattr(model, "output_names", ["output"]))  # a Sequential model has none
    struct = getattr(model, "_outputs_struct", None)
    if isinstance(struct, Mapping) and len(names) > 1:
        keys = sorted(struct)
        if set(keys) == set(names) and keys != names:
            raise TranslationError(
                "fit cannot be run in the engine: the model's outputs are a dict whose keys are "
                "names of other layers; give each output the key of its layer."
            )
        names = keys
    arrays = _flat(_by_name(data, names, "output") if len(names) > 1 else data)
    if len(arrays) != len(names):
        raise TranslationError(
            f"fit cannot be run in the engine: expected {len(names)} targets, got {len(arrays)}."
        )
    return arrays


def weight(data: Any) -> Array | None:
    """The factors of the samples.

    Raises:
        TranslationError: There are some for each output.
    """
    arrays = _flat(data)
    if len(arrays) > 1:
        raise TranslationError(
            "fit cannot be run in the engine: it has sample weights for each output."
        )
    return arrays[0] if arrays else None


def held_out(model: Any, data: Any) -> tuple[list[Array], list[Array], Array | None]:
    """Inputs, targets and weights of held-out data.

    Raises:
        TranslationError: They are no arrays, or do not fit.
    """
    if not isinstance(data, list | tuple):
        raise TranslationError(
            f"fit cannot be run in the engine: its validation_data is a {type(data).__name__}; the "
            "engine takes arrays (x, y)."
        )
    x, y, factors = keras.utils.unpack_x_y_sample_weight(data)
    return inputs(model, x), targets(model, y), weight(factors)


def _by_name(data: Any, names: Sequence[str], what: str) -> Any:
    """The parts of a dict in the order of `names`; anything else as it is."""
    if not isinstance(data, Mapping):
        return data
    missing = [name for name in names if name not in data]
    if missing:
        raise TranslationError(
            f"fit cannot be run in the engine: its data have nothing for {what} {missing[0]!r}; "
            f"they have {', '.join(repr(str(key)) for key in data)}."
        )
    return [data[name] for name in names]


def _of_rank(array: Array, shape: tuple[int | None, ...], name: str) -> Array:
    """With or without a last axis of size 1, as the input has it; Keras does the same."""
    if array.ndim == len(shape) + 1 and array.shape[-1] == 1:
        array = array[..., 0]
    elif array.ndim == len(shape) - 1 and shape[-1] == 1:
        array = array[..., None]
    if array.shape[1:] != shape[1:]:
        raise TranslationError(
            f"fit cannot be run in the engine: input {name!r} has samples of shape {shape[1:]}; "
            f"got {array.shape[1:]}."
        )
    return array


def _flat(data: Any) -> list[Array]:
    return [np.asarray(part) for part in keras.tree.flatten(data) if part is not None]
