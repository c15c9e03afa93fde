"""What the losses and metrics of a compiled Keras model are."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras

from stethoscope.keras.graph import Graph
from stethoscope.keras.names import from_library, library_classes, snake_case
from stethoscope.keras.settings import settings
from stethoscope.program import LossSpec
from stethoscope.types import SourceRef
from stethoscope.vocabulary import LOSSES, Expects

_LOSS_NAMES = {
    "mean_squared_error": "mse",
    "mean_absolute_error": "mae",
    "mean_absolute_percentage_error": "mape",
    "mean_squared_logarithmic_error": "msle",
    "binary_focal_crossentropy": "focal_binary_crossentropy",
    "categorical_focal_crossentropy": "focal_categorical_crossentropy",
    "kldivergence": "kl_divergence",
    "kullback_leibler_divergence": "kl_divergence",
    "logcosh": "log_cosh",
}
_CLASS_AXIS = (
    "categorical_crossentropy",
    "sparse_categorical_crossentropy",
    "focal_categorical_crossentropy",
    "categorical_hinge",
)
_AUTOMATIC = ("crossentropy", "ce")  # Keras chooses the loss by the shapes of the first batch


def loss_name(loss: Any) -> str | None:
    """Canonical name of a Keras loss (string, function, class or object); None when unknown.

    >>> loss_name("MSE"), loss_name(keras.losses.KLDivergence()), loss_name(lambda y, p: p)
    ('mse', 'kl_divergence', None)
    """
    if isinstance(loss, str):
        with contextlib.suppress(Exception):
            loss = keras.losses.get(loss)
    if isinstance(loss, functools.partial):
        return loss_name(loss.func)
    if isinstance(loss, str):
        candidates = [loss]
    elif "LossFunctionWrapper" in library_classes(loss) and type(loss).__name__ == (
        "LossFunctionWrapper"
    ):
        return loss_name(loss.fn)
    elif "Loss" in library_classes(loss):
        # A user's subclass that overrides the computation is another loss.
        if not from_library(type(loss)) and "call" in vars(type(loss)):
            return None
        candidates = library_classes(loss)
    elif from_library(loss) and hasattr(loss, "__name__"):
        candidates = [loss.__name__]
    else:
        return None
    for candidate in candidates:
        name = candidate if candidate.islower() else snake_case(candidate)
        name = _LOSS_NAMES.get(name, name)
        if name in LOSSES:
            return name
    return None


def loss_spec(
    loss: Any,
    *,
    output: str | None = None,
    weight: Any = None,
    source: SourceRef | None = None,
    resolved: Any = None,
) -> LossSpec:
    """Describes one loss as given to `compile`. Never raises.

    Args:
        loss: String, function, class, `functools.partial` or loss object.
        output: Path of the layer whose output is the prediction.
        weight: Its entry in `loss_weights`.
        source: Where it was written.
        resolved: What Keras made of it ("crossentropy" is chosen by the shapes of the data).
    """
    shown = loss
    if isinstance(loss, str) and loss.lower() in _AUTOMATIC and resolved is not None:
        loss = resolved
    if isinstance(loss, (Mapping, type)):  # a serialized loss, or a class that Keras instantiates
        with contextlib.suppress(Exception):
            loss = keras.losses.get(loss)
    name = loss_name(loss)
    config = _settings(loss)
    from_logits = bool(config.get("from_logits", False))
    expects = LOSSES[name].expects if name else None
    if name and expects == Expects.PROBABILITIES and from_logits:
        expects = Expects.LOGITS
    if weight is not None:
        config["loss_weight"] = weight if isinstance(weight, (int, float)) else str(weight)
    axis = config.get("axis", -1)
    return LossSpec(
        name=name,
        type=_type_name(shown),
        expects=expects,
        output=output,
        reduction=_reduction(loss),
        weighted=bool(config.get("label_smoothing")) or weight not in (None, 1, 1.0),
        class_axis=axis if name in _CLASS_AXIS and isinstance(axis, int) else None,
        ignore_index=config.get("ignore_class"),
        config=config,
        source=source,
    )


def _settings(loss: Any) -> dict[str, Any]:
    if isinstance(loss, functools.partial):
        plain = (bool, int, float, str)
        own = {k: v for k, v in loss.keywords.items() if isinstance(v, plain)}
        return {**_settings(loss.func), **own}
    if "Loss" not in library_classes(loss):
        return {}
    found = settings(loss) if from_library(type(loss)) else dict(getattr(loss, "_fn_kwargs", {}))
    for key in ("name", "reduction", "fn"):
        found.pop(key, None)
    return {k: v for k, v in found.items() if v is None or isinstance(v, (bool, int, float, str))}


def _reduction(loss: Any) -> str | None:
    if "Loss" not in library_classes(loss):
        return "mean"  # Keras wraps a function in a loss object with its default reduction
    reduction = getattr(loss, "reduction", None)
    if reduction in ("sum_over_batch_size", "mean", "mean_with_sample_weight"):
        return "mean"
    return str(reduction) if reduction else "none"


def _type_name(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, functools.partial):
        return _type_name(value.func)
    if isinstance(value, Mapping):
        return str(value.get("class_name", "dict"))
    return str(getattr(value, "__name__", None) or type(value).__name__)


def loss_specs(
    model: Any,
    flow: Graph,
    *,
    sources: Mapping[int, SourceRef],
    compile_source: SourceRef | None,
) -> tuple[LossSpec, ...]:
    """The losses that a model was compiled with, in the order of its outputs. Never raises."""
    compiled = getattr(model, "_compile_loss", None)
    given = getattr(compiled, "_user_loss", None)
    if given is None:
        return ()
    parts = [part for part in _per_output(given, flow) if part[1] is not None]
    weights = _weights(getattr(compiled, "_user_loss_weights", None), parts, flow)
    flat = getattr(compiled, "_flat_losses", None) or ()
    specs = []
    for i, (end, loss) in enumerate(parts):
        index = end.index
        output = flow.outputs[index] if index is not None and index < len(flow.outputs) else None
        resolved = flat[i].loss if len(flat) == len(parts) else None
        specs.append(
            loss_spec(
                loss,
                output=output or None,
                weight=weights[i],
                source=sources.get(id(loss), compile_source),
                resolved=resolved or _by_width(loss, output, flow),
            )
        )
    return tuple(specs)


@dataclasses.dataclass(frozen=True)
class End:
    """The output that a loss works on: its targets and its prediction are found by it.

    Attributes:
        index: Of the output, in Keras's flat order; None when unknown.
        name: What a dictionary of targets or losses calls it; None when unknown.
        ignore: Label that the loss leaves out; None when there is none.
    """

    index: int | None = None
    name: str | None = None
    ignore: int | None = None


def loss_ends(model: Any, flow: Graph) -> tuple[End, ...]:
    """The output of each loss that `loss_specs` lists, in the same order. Never raises."""
    given = getattr(getattr(model, "_compile_loss", None), "_user_loss", None)
    if given is None:
        return ()
    with contextlib.suppress(Exception):
        return tuple(
            dataclasses.replace(end, ignore=loss_spec(loss).ignore_index)
            for end, loss in _per_output(given, flow)
            if loss is not None
        )
    return ()


def _per_output(given: Any, flow: Graph) -> Iterator[tuple[End, Any]]:
    """(output, loss) pairs of whatever was given to `compile`."""
    outputs = len(flow.outputs)
    if isinstance(given, Mapping) and "class_name" not in given:
        for key in sorted(given, key=lambda key: _index(key, flow) or 0):
            yield End(_index(key, flow), str(key)), given[key]
    elif isinstance(given, (list, tuple)):
        for i, loss in enumerate(given):
            nested = isinstance(loss, (list, tuple))
            for each in loss if nested else (loss,):
                yield (
                    _end(i if len(given) <= max(outputs, 1) else 0 if outputs == 1 else None, flow),
                    each,
                )
    else:
        for i in range(max(outputs, 1)):
            yield _end(i if outputs else None, flow), given


def _end(index: int | None, flow: Graph) -> End:
    known = index is not None and index < len(flow.output_names)
    return End(index, flow.output_names[index] if known and index is not None else None)


def _index(key: Any, flow: Graph) -> int | None:
    names = flow.output_names
    return names.index(str(key)) if str(key) in names else None


def _weights(given: Any, parts: Sequence[tuple[End, Any]], flow: Graph) -> list[Any]:
    places = [end.index for end, _ in parts]
    if isinstance(given, Mapping):
        by_index = {_index(key, flow): weight for key, weight in given.items()}
        return [None if i is None else by_index.get(i) for i in places]
    if isinstance(given, (list, tuple)):
        return [given[i] if i is not None and i < len(given) else None for i in places]
    return [given] * len(parts)


def _by_width(loss: Any, output: str | None, flow: Graph) -> Any:
    """What "crossentropy" becomes over one unit; over more it depends on the targets."""
    node = flow.nodes.get(output or "")
    one = node is not None and node.output_shape is not None and node.output_shape[-1:] == (1,)
    return keras.losses.binary_crossentropy if one else None


def metric_names(model: Any) -> tuple[str, ...]:
    """Names of the compiled metrics as they appear in the logs, or as given before the first batch.

    Metrics that the model or its layers add by themselves come last.
    """
    compiled = getattr(model, "_compile_metrics", None)
    names: list[str] = []
    if compiled is not None and getattr(compiled, "built", False):
        names = [name for name, _ in compiled_metrics(compiled)]
    elif compiled is not None:
        for attribute in ("_user_metrics", "_user_weighted_metrics"):
            names.extend(_flat_names(getattr(compiled, attribute, None)))
    names.extend(str(metric.name) for metric in getattr(model, "_metrics", ()))
    return tuple(names)


def _flat_names(given: Any) -> Iterator[str]:
    if isinstance(given, Mapping) and "class_name" not in given:
        for output, each in given.items():
            yield from (f"{output}_{name}" for name in _flat_names(each))
    elif isinstance(given, (list, tuple)):
        for each in given:
            yield from _flat_names(each)
    elif given is not None:
        name = getattr(given, "name", None)
        yield name if isinstance(name, str) else _type_name(given)


def compiled_metrics(compiled: Any) -> list[tuple[str, Any]]:
    """(name in the logs, metric) of a built `CompileMetrics`, named as Keras names them."""
    found: dict[str, Any] = {}
    taken: dict[str, int] = {}
    for attribute in ("_flat_metrics", "_flat_weighted_metrics"):
        for group in getattr(compiled, attribute, None) or ():
            for metric in getattr(group, "metrics", ()) if group else ():
                prefix = f"{group.output_name}_" if getattr(group, "output_name", None) else ""
                name = prefix + metric.name
                if name in taken and attribute == "_flat_weighted_metrics":
                    name = f"{prefix}weighted_{metric.name}"
                    if name not in taken:
                        taken[name] = 1
                        found[name] = metric
                        continue
                if name in taken:
                    taken[name] += 1
                    name = f"{name}_{taken[name] - 1}"
                else:
                    taken[name] = 1
                found[name] = metric
    return list(found.items())
