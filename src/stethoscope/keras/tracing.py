"""The data flow of a subclassed model, from one symbolic call of it.

The model's `call` is run on symbolic tensors, as Keras does to infer shapes; nothing is computed.
What that adds to the layers (nodes) and to Keras's counters of names is taken away again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
from keras.src.backend.common import global_state
from keras.src.ops.function import Function

from stethoscope.keras.graph import INPUT, Graph, graph, output_names, walk
from stethoscope.keras.undisturbed import undisturbed

NAMES = "object_name_uids"


def flow(model: Any, x: Any = None) -> Graph:
    """The structure of a model: read where it is functional, traced where it is subclassed.

    Args:
        model: A built model.
        x: Inputs (arrays) of any number of samples; default: of the shape it was built for.

    Returns:
        A graph that is not `known` where the model cannot be called symbolically.
    """
    found = graph(model)
    if found.known or not getattr(model, "built", False):
        return found
    # Any of the user's code may fail on symbolic tensors: then the flow stays unknown.
    with contextlib.suppress(Exception), undisturbed(), _names_kept(), _nodes_kept(model):
        inputs = _symbolic(model, x)
        how = {"training": True} if model._call_has_training_arg else {}
        outputs = model.call(inputs, **how)
        return _graph(model, Function(inputs, outputs, name="traced"))
    return found


def _graph(model: Any, function: Any) -> Graph:
    result = Graph(traced=True, output_names=output_names(model, function))
    ends = walk(result, function, "", [(INPUT,) for _ in function._inputs])
    result.outputs = tuple(end[0] if end else INPUT for end in ends)
    return result


def _symbolic(model: Any, x: Any) -> Any:
    if x is not None and all(hasattr(t, "shape") for t in keras.tree.flatten(x)):
        return keras.tree.map_structure(
            lambda t: keras.KerasTensor((None, *t.shape[1:]), dtype=_dtype(t)), x
        )
    shape = next(iter(model._build_shapes_dict.values()))
    return keras.KerasTensor((None, *shape[1:]), dtype=model.input_dtype)


def _dtype(tensor: Any) -> str:
    name = keras.backend.standardize_dtype(tensor.dtype)
    return "float32" if name == "float64" else str(name)


@contextlib.contextmanager
def _names_kept() -> Iterator[None]:
    """Operations made here draw names that the user's later layers would have had."""
    names = global_state.get_global_attribute(NAMES)
    before = None if names is None else names.copy()
    try:
        yield
    finally:
        global_state.set_global_attribute(NAMES, before)


@contextlib.contextmanager
def _nodes_kept(model: Any) -> Iterator[None]:
    lists = [
        nodes
        for layer in model._flatten_layers()
        for nodes in (layer._inbound_nodes, layer._outbound_nodes)
    ]
    lengths = [len(nodes) for nodes in lists]
    try:
        yield
    finally:
        for nodes, length in zip(lists, lengths, strict=True):
            del nodes[length:]
