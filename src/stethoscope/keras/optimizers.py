"""What a Keras optimizer is."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stethoscope.keras.names import known_as, library_classes
from stethoscope.keras.settings import settings
from stethoscope.program import OptimizerSpec
from stethoscope.types import SourceRef

_KNOWN = "SGD Adam AdamW Adamax Nadam RMSprop Adagrad Adadelta Ftrl Lion Lamb Adafactor Muon"
_OPTIMIZERS = {name: name.lower() for name in _KNOWN.split(" ")} | {
    "ScheduleFreeAdamW": "schedule_free_adamw"
}


def optimizer_spec(
    optimizer: Any,
    *,
    params: Sequence[str] = (),
    sources: Mapping[int, SourceRef] | None = None,
    compile_source: SourceRef | None = None,
) -> OptimizerSpec:
    """Describes an optimizer object. Never raises.

    Args:
        optimizer: As the model holds it; of a `LossScaleOptimizer` the inner one is described.
        params: Paths of the parameters it updates.
        sources: id of an object to the call that made it.
        compile_source: The `compile` call, for an optimizer given as a string.
    """
    sources = sources or {}
    inner = getattr(optimizer, "inner_optimizer", None)
    outer_config: dict[str, Any] = {}
    if inner is not None:
        outer_config = {"loss_scale": "dynamic", **_picked(settings(optimizer), "initial_scale")}
    source = sources.get(id(optimizer)) or sources.get(id(inner)) or compile_source
    optimizer = inner if inner is not None else optimizer
    rate, schedule = learning_rate(optimizer)
    raw = settings(optimizer)
    raw.pop("learning_rate", None)
    scale = raw.pop("loss_scale_factor", None)
    if scale is not None:
        outer_config["loss_scale"] = scale
    return OptimizerSpec(
        name=known_as(optimizer, _OPTIMIZERS) or type(optimizer).__name__.lower(),
        type=type(optimizer).__name__,
        learning_rate=rate,
        schedule=None if schedule is None else schedule_name(schedule),
        config={**raw, **outer_config},
        params=tuple(params),
        source=source,
        rate_source=None if schedule is None else sources.get(id(schedule)),
    )


def _picked(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def schedule_name(schedule: Any) -> str:
    """Class name of a schedule object, or the name of a function that gives the rate."""
    return str(getattr(schedule, "__name__", None) or type(schedule).__name__)


def learning_rate(optimizer: Any) -> tuple[float | None, Any | None]:
    """(the rate of the next step, the schedule object that drives it).

    The rate is None when it cannot be read: a function that gives the rate is the user's and is
    not called; the variables of a JAX model are empty in the middle of `fit`.
    """
    parts = getattr(optimizer, "optimizers", None)
    if parts:  # a MultiOptimizer: its own rate is never used
        return learning_rate(parts[0])
    held: Any = getattr(optimizer, "_learning_rate", None)
    if "LearningRateSchedule" in library_classes(held):
        with contextlib.suppress(Exception):
            step = optimizer._iterations
            return (_number(held(step)) if _is_filled(step) else None), held
        return None, held
    if callable(held) and not hasattr(held, "value"):
        return None, held
    with contextlib.suppress(Exception):
        return (_number(held) if _is_filled(held) else None), None
    return None, None


def _is_filled(variable: Any) -> bool:
    """Whether a Keras variable holds its value; without one `.value` is the initial value anew."""
    return getattr(variable, "_value", variable) is not None


def _number(value: Any) -> float:
    """A Python float with the digits that a float32 carries: 0.001, not 0.0010000000475."""
    value = getattr(value, "value", value)
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    array = np.asarray(value)
    return float(str(array.item() if array.dtype.kind in "iu" else array.astype(np.float32)[()]))
