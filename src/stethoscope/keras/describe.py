"""What a Keras 3 program is: layers, data flow, losses, optimizer and metrics as a `Program`.

Everything is read, nothing is run: no forward pass, no random number, no `build`. A functional
model or a Sequential of any nesting is known in full once it has an input shape. Of a subclassed
model only the layers are known, in the order of its attributes; the order of the calls, the data
flow, the output shapes and the layer behind each output come from the first probed step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import keras

from stethoscope.keras.batch_values import unseen_metrics
from stethoscope.keras.graph import Graph, Node, graph
from stethoscope.keras.losses import loss_spec, loss_specs, metric_names
from stethoscope.keras.names import (
    activation_name,
    from_library,
    is_layer,
    layer_activation,
    layer_kind,
    operation_activation,
    operation_kind,
    unit_axis,
)
from stethoscope.keras.optimizers import optimizer_spec
from stethoscope.keras.settings import parameters, settings
from stethoscope.program import FitSpec, LayerSpec, LossSpec, OptimizerSpec, Program
from stethoscope.types import SourceRef
from stethoscope.vocabulary import LayerKind

__all__ = [
    "activation_name",
    "layer_kind",
    "layer_objects",
    "loss_spec",
    "optimizer_spec",
    "program",
    "unit_axis",
]


def program(
    model: Any,
    *,
    sources: Mapping[int, SourceRef],
    compile_source: SourceRef | None = None,
    fit: FitSpec | None = None,
    flow: Graph | None = None,
) -> Program:
    """Describes a Keras model as it stands. Never raises; what failed is in `unseen`.

    Args:
        model: A compiled model; one that is not compiled has no losses and no optimizer.
        sources: id of a layer, optimizer, schedule or loss object to the call that made it.
        compile_source: The `compile` call: the line of whatever was given there as a string.
        fit: How it is trained, where that is known.
        flow: Its structure, where it was traced; default: as far as it can be read.
    """
    unseen: dict[str, str] = {}
    flow = flow or _graph(model, unseen)
    layers = tuple(_layer(node, sources, unseen) for node in flow.nodes.values())
    losses: tuple[LossSpec, ...] = ()
    metrics: tuple[str, ...] = ()
    optimizers: tuple[OptimizerSpec, ...] = ()
    with _declared(unseen, "losses"):
        losses = loss_specs(model, flow, sources=sources, compile_source=compile_source)
    with _declared(unseen, "optimizer"):
        optimizer = getattr(model, "optimizer", None)
        if optimizer is not None:
            optimizers = tuple(
                optimizer_spec(
                    part,
                    params=_trained(model, part, flow),
                    sources=sources,
                    compile_source=compile_source,
                )
                for part in getattr(optimizer, "optimizers", None) or (optimizer,)
            )
    with _declared(unseen, "metrics"):
        metrics = metric_names(model)
        unseen.update(unseen_metrics(model))
    _declare_missing(model, flow, losses, optimizers, unseen)
    return Program(
        framework="keras",
        framework_version=str(keras.__version__),
        backend=str(keras.backend.backend()),
        layers=layers,
        edges=tuple(flow.edges),
        losses=losses,
        optimizers=optimizers,
        metrics=metrics,
        fit=fit or FitSpec(),
        unseen=unseen,
    )


def layer_objects(model: Any) -> dict[str, Any]:
    """Path, as in the Program, to the layer (or symbolic operation) itself."""
    return {path: node.operation for path, node in _graph(model, {}).nodes.items()}


@contextlib.contextmanager
def _declared(unseen: dict[str, str], topic: str) -> Iterator[None]:
    """Turns a failure to describe something into an entry of `unseen`."""
    try:
        yield
    except Exception as error:
        unseen[topic] = f"could not be read: {type(error).__name__}: {error}"


def _graph(model: Any, unseen: dict[str, str]) -> Graph:
    with _declared(unseen, "data flow"):
        return graph(model)
    fallback = Graph(known=False)
    for child in getattr(model, "layers", ()):
        name = str(getattr(child, "name", type(child).__name__))
        fallback.nodes.setdefault(name, Node(name, child))
    return fallback


def _layer(node: Node, sources: Mapping[int, SourceRef], unseen: dict[str, str]) -> LayerSpec:
    operation = node.operation
    with _declared(unseen, f"layer {node.path}"):
        if not is_layer(operation):
            kind = operation_kind(operation, node.tensors)
            return LayerSpec(
                path=node.path,
                type=type(operation).__name__,
                kind=kind,
                activation=operation_activation(operation, kind),
                output_shape=node.output_shape,
                source=sources.get(id(operation)),
            )
        kind = layer_kind(operation)
        variables = parameters(operation, own_only=kind == LayerKind.CONTAINER)
        return LayerSpec(
            path=node.path,
            type=type(operation).__name__,
            kind=kind,
            activation=layer_activation(operation),
            config=settings(operation),
            params={name: _shape(variable) for name, variable in variables.items()},
            trainable=any(v.trainable for v in variables.values()) if variables else None,
            output_shape=node.output_shape,
            source=sources.get(id(operation)),
        )
    return LayerSpec(
        path=node.path,
        type=type(operation).__name__,
        kind=LayerKind.OTHER,
        source=sources.get(id(operation)),
    )


def _shape(variable: Any) -> tuple[int, ...]:
    return tuple(-1 if axis is None else int(axis) for axis in variable.shape)


def _trained(model: Any, optimizer: Any, flow: Graph) -> tuple[str, ...]:
    """Paths of the parameters that the optimizer updates: its own list once it is built."""
    own = getattr(optimizer, "_trainable_variables", None) or ()
    inner = getattr(optimizer, "inner_optimizer", None)
    own = getattr(inner, "_trainable_variables", None) or own
    if not own and optimizer is getattr(model, "optimizer", None):
        own = getattr(model, "trainable_variables", ())
    wanted = {id(variable) for variable in own}
    paths = []
    for node in flow.nodes.values():
        if not is_layer(node.operation):
            continue
        only_own = layer_kind(node.operation) == LayerKind.CONTAINER
        for name, variable in parameters(node.operation, own_only=only_own).items():
            if id(variable) in wanted:
                paths.append(f"{node.path}/{name}")
    return tuple(paths)


def _adds_loss(layer: Any) -> bool:
    """Whether a layer adds to the total loss; `layer.losses` is not read, since it computes."""
    if not is_layer(layer):
        return False
    own = getattr(layer, "_losses", None) or getattr(layer, "activity_regularizer", None)
    variables = parameters(layer, own_only=layer_kind(layer) == LayerKind.CONTAINER).values()
    return bool(own) or any(getattr(v, "regularizer", None) for v in variables)


def _declare_missing(
    model: Any,
    flow: Graph,
    losses: tuple[LossSpec, ...],
    optimizers: tuple[OptimizerSpec, ...],
    unseen: dict[str, str],
) -> None:
    if not flow.known:
        unseen.setdefault(
            "data flow", "the model is subclassed: it is known only from a forward pass"
        )
    if not losses:
        unseen.setdefault("losses", "no loss was given to compile()")
    if not optimizers:
        unseen.setdefault("optimizer", "compile() was not called")
    if not getattr(model, "built", True):
        unseen.setdefault("weights", "the model is not built: its parameters do not exist yet")
    if any(_adds_loss(node.operation) for node in flow.nodes.values()) or _adds_loss(model):
        unseen.setdefault("added losses", "losses from add_loss() or regularizers are in the total")
    own_step = getattr(type(model), "train_step", None)
    if own_step is not None and not from_library(own_step):
        unseen.setdefault("training step", "the model overrides train_step()")
    if any(loss.name is None for loss in losses):
        unseen.setdefault("loss name", "the loss is not one of Keras's own")
