"""The layers of a network as statements: one after the other, or as a graph of assignments."""

from __future__ import annotations

import keyword
import re
from collections import Counter

import numpy as np

from stethoscope import engine
from stethoscope.engine.layers._base import Layer
from stethoscope.engine.network import Network
from stethoscope.engine.translate.expressions import (
    WIDTH,
    Call,
    Expression,
    Parts,
    call,
    flat,
    of,
    text,
    without_activation,
)
from stethoscope.vocabulary import LayerKind

RESERVED = frozenset({"Path", "np", "stethoscope", "stored", *dir(engine)})
"""What the program has before its layers, and needs while it makes them or later."""


class Graph:
    """Writes one network.

    Args:
        network: With the settings of its layers; the weights are written elsewhere.
        parts: Takes the statements.
    """

    def __init__(self, network: Network, parts: Parts) -> None:
        self._network = network
        self._parts = parts
        self._names = {layer.name for layer in network.layers}
        self._variables: set[str] = set(RESERVED)
        self._activations: dict[Layer, Call] = {}

    def write(self) -> None:
        """Says the statements that make `model`."""
        network = self._network
        precise = {} if network.dtype == np.float32 else {"dtype": text(network.dtype.name)}
        if self._is_row():
            self._parts.set("model = ", call("Sequential", **precise))
            for node in network.nodes:
                self._add(_step(node.layer), node.layer)
                if _applies(node.layer):
                    self._add(self._activation(node.layer), None)
            self._parts.set("", call("model.build", of(network.inputs[0].shape)))
        else:
            inputs, outputs = self._assign()
            self._parts.set("model = ", call("Model", inputs, outputs, **precise))

    def _is_row(self) -> bool:
        """Whether each layer reads what the one before it gives, and nothing else is read."""
        network = self._network
        last = len(network.nodes)
        return (
            len(network.inputs) == 1
            and last > 0
            and network.outputs == (last,)
            and len(network.layers) == last
            and all(node.inputs == (i,) for i, node in enumerate(network.nodes))
        )

    def _add(self, expression: Expression, layer: Layer | None) -> None:
        added = call("model.add", expression)
        self._parts.set("", added, _comment(layer, len(flat(added))))

    def _activation(self, layer: Layer) -> Call:
        """The activation of a layer as a layer of its own."""
        if layer not in self._activations:
            assert layer.activation is not None
            name = wanted = f"{layer.name}_{layer.activation.name}"
            number = 1
            while name in self._names:
                number += 1
                name = f"{wanted}_{number}"
            self._names.add(name)
            given = of(layer.activation)
            self._activations[layer] = call("Activation", given, name=text(name))
        return self._activations[layer]

    def _assign(self) -> tuple[Expression, Expression]:
        network = self._network
        values: list[str] = []
        for i, symbol in enumerate(network.inputs):
            name = network.input_name(i)
            variable = self._variable(name)
            named = {"name": text(name)} if name == symbol.name else {}
            self._parts.set(f"{variable} = ", call("Input", of(symbol.shape), **named))
            values.append(variable)
        uses = Counter(node.layer for node in network.nodes)
        made: dict[str, str] = {}
        for node in network.nodes:
            several = uses[node.layer] > 1
            before = _listed([values[i] for i in node.inputs], len(node.inputs) > 1)
            value = self._apply(_step(node.layer), node.layer, node.path, before, several, made)
            if _applies(node.layer):
                after = self._activation(node.layer)
                path = f"{node.path}_{node.layer.activation.name}" if node.layer.activation else ""
                value = self._apply(after, None, path, value, several, made)
            values.append(value)
        inputs = _listed(values[: len(network.inputs)], len(network.inputs) > 1)
        outputs = [values[i] for i in network.outputs]
        return inputs, _listed(outputs, len(outputs) > 1)

    def _apply(
        self,
        made_by: Expression,
        layer: Layer | None,
        path: str,
        before: Expression,
        several: bool,
        made: dict[str, str],
    ) -> str:
        """Says the application of a layer; returns the variable that holds its value."""
        whole = flat(made_by)
        variable = self._variable(path)
        line = f"{variable} = {whole}({flat(before)})"
        if not several and len(line) <= WIDTH:
            self._parts.say(line + _comment(layer, len(line)), calls=made_by)
            return variable
        if whole not in made:
            made[whole] = self._variable(f"{path}_layer")
            start = f"{made[whole]} = "
            self._parts.set(start, made_by, _comment(layer, len(start) + len(whole)))
        self._parts.set(f"{variable} = ", call(made[whole], before))
        return variable

    def _variable(self, path: str) -> str:
        """A variable for a value, that is not taken yet."""
        base = re.sub(r"\W+", "_", path).strip("_") or "value"
        if base[0].isdigit() or keyword.iskeyword(base):
            base = f"layer_{base}"
        name, number = base, 1
        while name in self._variables:
            number += 1
            name = f"{base}_{number}"
        self._variables.add(name)
        return name


def _applies(layer: Layer) -> bool:
    """Whether a layer ends with an activation that can be a step of its own."""
    activation = layer.activation
    own = layer.kind is LayerKind.ACTIVATION
    return activation is not None and activation.name != "linear" and not own


def _step(layer: Layer) -> Call:
    """The layer itself; its activation is another step."""
    if layer.kind is not LayerKind.ACTIVATION:
        return without_activation(layer)
    made = of(layer)
    assert isinstance(made, Call)
    return made


def _listed(values: list[str], several: bool) -> Expression:
    return Call("[", tuple(("", value) for value in values)) if several else values[0]


def _comment(layer: Layer | None, length: int) -> str:
    """Where the script has the layer, if the line has room for it."""
    if layer is None or layer.source is None:
        return ""
    comment = f"  # {layer.source.file}:{layer.source.line}"
    return comment if length + len(comment) <= WIDTH else ""
