"""What an engine model is, as a `Program`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stethoscope.engine.layers._base import Layer
from stethoscope.engine.losses import Loss
from stethoscope.engine.network import Network, Node
from stethoscope.engine.training import Trainable
from stethoscope.program import DataSpec, LayerSpec, LossSpec, OptimizerSpec, Program
from stethoscope.vocabulary import LOSSES, Expects, LayerKind

NO_SETTINGS = frozenset({"name", "state", "step", "source", "rate_source", "trainable", "original"})


def program(
    model: Trainable,
    inputs: Sequence[DataSpec] = (),
    targets: Sequence[DataSpec] = (),
    *,
    weighted: bool = False,
) -> Program:
    """Describes a compiled model.

    Args:
        model: What is trained.
        inputs: Facts of the data it is trained on, one for each input.
        targets: The same of its targets.
        weighted: The samples have weights.
    """
    network = model.network
    facts: Sequence[DataSpec | None] = targets or [None] * len(model.losses)
    return Program(
        framework="numpy",
        framework_version=np.__version__,
        layers=tuple(_layer(node, network) for node in network.nodes),
        edges=tuple(_edges(network)),
        losses=tuple(
            _loss(model, loss, position, target, weighted)
            for loss, position, target in zip(model.losses, network.outputs, facts, strict=True)
        ),
        optimizers=() if model.optimizer is None else (_optimizer(model),),
        metrics=tuple(model.metrics),
        inputs=tuple(inputs),
        targets=tuple(targets),
        fit=model.plan,
    )


def settings(thing: Any) -> dict[str, Any]:
    """The plain values among the attributes of a layer, loss or optimizer."""
    found: dict[str, Any] = {}
    for name, value in vars(thing).items():
        if name.startswith("_") or name in NO_SETTINGS:
            continue
        if value is None or isinstance(value, bool | int | float | str):
            found[name] = value
        elif isinstance(value, tuple):
            found[name] = list(value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            inner = {
                k: v for k, v in vars(value).items() if isinstance(v, bool | int | float | str)
            }
            found[name] = {"name": type(value).__name__, **inner}
    return found


def _layer(node: Node, network: Network) -> LayerSpec:
    layer = node.layer
    params = {name: value.shape for name, value in network.weights_of(layer).items()}
    trained = {name: shape for name, shape in params.items() if name not in layer.moving}
    return LayerSpec(
        path=node.path,
        type=type(layer).__name__,
        kind=layer.kind,
        activation=applied(layer),
        config=settings(layer),
        params=trained if node.path == layer.name else {},
        trainable=layer.trainable if trained else None,
        output_shape=(-1, *node.shape),
        source=layer.source,
    )


def applied(layer: Layer) -> str | None:
    """Canonical name of the activation that a layer applies last."""
    if layer.activation is not None:
        return layer.activation.name
    inner = getattr(layer, "cell_activation", None)  # a recurrence applies its own
    if inner is not None:
        return str(inner.name)
    return None if layer.kind is LayerKind.OTHER else "linear"


def _edges(network: Network) -> Iterator[tuple[str, str]]:
    first = len(network.inputs)
    for node in network.nodes:
        for position in node.inputs:
            before = "" if position < first else network.nodes[position - first].path
            yield before, node.path


def _loss(
    model: Trainable, loss: Loss, position: int, target: DataSpec | None, weighted: bool
) -> LossSpec:
    network = model.network
    first = len(network.inputs)
    node = network.nodes[position - first] if position >= first else None
    expects = LOSSES[loss.name].expects if loss.name in LOSSES else None
    if getattr(loss, "from_logits", False):
        expects = Expects.LOGITS
    expects = getattr(loss, "expects", None) or expects  # a translated loss knows it
    batch = model.plan.batch_size or -1
    uneven = getattr(loss, "label_smoothing", 0) or getattr(loss, "weighted", False)
    return LossSpec(
        name=loss.name if loss.name in LOSSES else None,
        type=loss.original or type(loss).__name__,
        expects=expects,
        output=node.path if node else None,
        target=target,
        prediction_shape=(batch, *node.shape) if node else None,
        target_shape=target.batch_shape if target else None,
        reduction="sum" if loss.reduction == "sum" else "mean",
        weighted=bool(uneven) or weighted,
        class_axis=loss.axis,
        ignore_index=getattr(loss, "ignore_class", None),
        config=settings(loss),
        source=getattr(loss, "source", None) or model.compile_source,
    )


def _optimizer(model: Trainable) -> OptimizerSpec:
    optimizer = model.optimizer
    assert optimizer is not None
    rate = optimizer.learning_rate
    return OptimizerSpec(
        name=optimizer.name,
        type=type(optimizer).__name__,
        learning_rate=optimizer.rate,
        schedule=type(rate).__name__ if callable(rate) else None,
        config=settings(optimizer),
        params=tuple(model.network.trained),
        source=getattr(optimizer, "source", None) or model.compile_source,
        rate_source=optimizer.rate_source,
    )
