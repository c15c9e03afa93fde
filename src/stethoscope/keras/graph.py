"""Layers in call order and the data flow between them, read from the symbolic graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from stethoscope.keras.names import layer_kind, library_classes
from stethoscope.vocabulary import LayerKind

INPUT = ""


@dataclasses.dataclass(frozen=True)
class Node:
    """A layer or operation of the program.

    Attributes:
        path: Its name, behind those of the models that hold it.
        operation: The Keras object.
        tensors: How many tensors its first call takes; 0 when unknown.
        output_shape: Of its first call, with -1 for an open axis; None when unknown.
        nested: It belongs to a layer that is listed too and whose own data flow is unknown.
    """

    path: str
    operation: Any
    tensors: int = 0
    output_shape: tuple[int, ...] | None = None
    nested: bool = False


@dataclasses.dataclass
class Graph:
    """What is known of a model's structure.

    Attributes:
        nodes: Path to node, in call order where the flow is known.
        edges: (from, to) paths, `INPUT` for the model's input.
        outputs: Path of the producer of each output, in Keras's flat order.
        output_names: What a loss or metric dictionary calls each of them.
        known: False for a subclassed model: nodes are in attribute order, edges are missing.
        traced: It comes from a symbolic call: operations among the nodes are function calls in
            the user's `call`, which the real step makes without them.
    """

    nodes: dict[str, Node] = dataclasses.field(default_factory=dict)
    edges: dict[tuple[str, str], None] = dataclasses.field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    known: bool = True
    traced: bool = False


def graph(model: Any) -> Graph:
    """Reads the structure of any Keras model; what it cannot know it leaves out."""
    result = Graph()
    function = _function(model)
    if function is not None:
        feeds = [(INPUT,) for _ in function._inputs]
        ends = walk(result, function, "", feeds)
        result.outputs = tuple(end[0] if end else INPUT for end in ends)
        result.output_names = output_names(model, function)
    elif "Sequential" in library_classes(model):
        last = _chain(result, model, "", INPUT)
        result.outputs = (last,) if last is not None else ()
        result.known = last is not None
    else:
        result.known = False
        for child in getattr(model, "_layers", ()):
            _tree(result, child, "", nested=False)
    if not result.known:
        result.edges.clear()
    return result


def _function(model: Any) -> Any | None:
    """The symbolic function of a functional model or of a built Sequential; None without one."""
    if "Sequential" in library_classes(model):
        return getattr(model, "_functional", None)
    return model if hasattr(model, "_nodes_by_depth") and hasattr(model, "_inputs") else None


def output_names(model: Any, function: Any) -> tuple[str, ...]:
    """What a dictionary of losses or targets calls the outputs, in Keras's flat order."""
    struct = getattr(function, "_outputs_struct", None)
    if isinstance(struct, dict) and len(struct) == len(function._outputs):
        return tuple(sorted(map(str, struct)))
    return tuple(str(name) for name in getattr(model, "output_names", None) or ())


def walk(
    result: Graph, function: Any, prefix: str, feeds: Sequence[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """Adds the nodes of one symbolic function to `result`.

    Args:
        result: Is added to.
        function: A Keras `Function`.
        prefix: Of the paths.
        feeds: The producers of its inputs.

    Returns:
        The producers of its outputs.
    """
    made = {id(t): tuple(feed) for t, feed in zip(function._inputs, feeds, strict=False)}
    for node in _ordered(function):
        if node.is_input or all(id(t) in made for t in node.outputs):
            continue
        operation, before = node.operation, [made.get(id(t), ()) for t in node.input_tensors]
        path = prefix + operation.name
        inner = _function(operation)
        if inner is not None:
            ends = walk(result, inner, path + "/", before)
        else:
            _add(result, path, operation, len(before), _shape(node.outputs))
            result.edges.update({(start, path): None for feed in before for start in feed})
            ends = [(path,)] * len(node.outputs)
        made.update({id(t): end for t, end in zip(node.outputs, ends, strict=False)})
    return [made.get(id(t), ()) for t in function._outputs]


def _ordered(function: Any) -> Iterator[Any]:
    place = {id(operation): i for i, operation in enumerate(function._operations)}
    for depth in sorted(function._nodes_by_depth, reverse=True):
        nodes = function._nodes_by_depth[depth]
        yield from sorted(nodes, key=lambda node: place.get(id(node.operation), 0))


def _shape(outputs: Sequence[Any]) -> tuple[int, ...] | None:
    shape = getattr(outputs[0], "shape", None) if outputs else None
    if shape is None:
        return None
    # The batch axis is open also where Keras was built with the size of the first batch.
    return tuple(-1 if axis is None or i == 0 else int(axis) for i, axis in enumerate(shape))


def _add(result: Graph, path: str, layer: Any, tensors: int, shape: tuple[int, ...] | None) -> None:
    if path in result.nodes:  # shared: called more than once
        return
    result.nodes[path] = Node(path, layer, tensors, shape)
    if layer_kind(layer) == LayerKind.CONTAINER:
        for child in getattr(layer, "_layers", ()):
            _tree(result, child, path + "/", nested=True)


def _chain(result: Graph, model: Any, prefix: str, before: str) -> str | None:
    """Adds an unbuilt Sequential: the flow is its order. None when a part's flow is unknown."""
    for layer in model.layers:
        path = prefix + layer.name
        function = _function(layer)
        if function is not None:
            ends = walk(result, function, path + "/", [(before,)])
            if len(ends) != 1 or len(ends[0]) != 1:
                return None
            before = ends[0][0]
        elif "Sequential" in library_classes(layer):
            last = _chain(result, layer, path + "/", before)
            if last is None:
                return None
            before = last
        else:
            _add(result, path, layer, 1, None)
            result.edges[before, path] = None
            before = path
    return before


def _tree(result: Graph, layer: Any, prefix: str, *, nested: bool) -> None:
    """Adds a layer and what it holds, without any data flow."""
    if "InputLayer" in library_classes(layer):
        return
    if any(node.operation is layer for node in result.nodes.values()):
        return
    path, number = prefix + str(getattr(layer, "name", type(layer).__name__)), 0
    free = path
    while free in result.nodes:
        number += 1
        free = f"{path}_{number}"
    container = layer_kind(layer) == LayerKind.CONTAINER
    plain_model = container and "Trainer" in library_classes(layer)
    if not plain_model:
        result.nodes[free] = Node(free, layer, nested=nested)
    if container:
        for child in getattr(layer, "_layers", ()):
            _tree(result, child, free + "/", nested=nested or not plain_model)
