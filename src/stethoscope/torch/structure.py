"""The layers of a run and their edges, from what the probed steps showed of the data flow.

A functional activation that alone reads the very output of a dense or convolutional layer is
that layer's own activation: the two are shown as one, with a value before and after it.
"""

from __future__ import annotations

import dataclasses

from stethoscope.program import LayerSpec
from stethoscope.torch import describe, sources
from stethoscope.torch.calls import plain_axis
from stethoscope.torch.flow import Flow, Key, Node
from stethoscope.torch.probe import is_layer
from stethoscope.torch.roots import Root
from stethoscope.torch.sources import Sources
from stethoscope.types import Stage
from stethoscope.vocabulary import AFFINE, LayerKind


class Structure:
    """Accumulates the layers and edges of one run.

    Args:
        lines: Where modules were constructed.
    """

    def __init__(self, lines: Sources) -> None:
        self.changed = True
        self._lines = lines
        self._nodes: dict[Key, Node] = {}
        self._edges: dict[tuple[Key | None, Key], None] = {}
        self._into: dict[Key, Key] = {}  # a functional activation -> the layer it belongs to
        self._bases: dict[Key, Key] = {}  # the reverse

    def learn(self, flow: Flow) -> None:
        """Takes what one step showed."""
        for key, node in flow.nodes.items():
            if key in self._nodes:
                continue
            self._nodes[key] = node
            self.changed = True
            base = self._nodes.get(node.base) if node.base else None
            if (
                base is not None
                and base.kind in AFFINE
                and not base.functional
                and base.key not in self._bases
                and flow.only_reader(base.key, key)
            ):
                self._into[key] = base.key
                self._bases[base.key] = key
        for edge in flow.edges:
            if edge not in self._edges:
                self._edges[edge] = None
                self.changed = True

    def moved(self, key: Key) -> Key:
        """The layer that `key` is shown as."""
        return self._into.get(key, key)

    def folded(self, key: Key, stage: Stage) -> tuple[Key, Stage] | None:
        """Where a tensor of `key` is shown; None when it is not (it is shown already)."""
        if key in self._into:
            return self._into[key], stage
        if key in self._bases and stage in (Stage.OUTPUT, Stage.OUTPUT_GRAD):
            return None
        return key, stage

    def path(self, key: Key, roots: list[Root]) -> str:
        """The path of a layer in the Program."""
        number, path = key
        root = next((r for r in roots if r.number == number), None)
        return root.shown(path) if root is not None else path

    def layers(self, roots: list[Root], user_file: str | None = None) -> tuple[LayerSpec, ...]:
        """The layers in the order of the forward pass, then those with parameters that never ran.

        Building them clears `changed`.

        Args:
            roots: The models of the run.
            user_file: The file with the training loop, for lines that were not recorded.
        """
        self.changed = False
        modules = {
            (root.number, root.path(m)): m
            for root in roots
            if root.module is not None
            for m in root.module.modules()
        }
        find = sources.Finder(self._lines, modules, user_file)
        specs = []
        for key, node in self._nodes.items():
            if key in self._into:
                continue
            path = self.path(key, roots)
            module = modules.get(key)
            if module is None:
                specs.append(_call_spec(path, node))
                continue
            spec = describe.layer_spec(path, module, find(key))
            if key in self._bases:
                spec = _with_activation(spec, self._nodes[self._bases[key]])
            specs.append(_with_shape(spec, node.shape))
        for key, module in modules.items():
            if key in self._nodes or not (module._parameters or is_layer(module)):
                continue
            spec = describe.layer_spec(self.path(key, roots), module, find(key))
            if spec.params:
                specs.append(spec)
        return tuple(specs)

    def edges(self, roots: list[Root]) -> tuple[tuple[str, str], ...]:
        """The data flow between the layers as they are shown; "" is the model's input."""
        found: dict[tuple[str, str], None] = {}
        for start, end in self._edges:
            first = self.moved(start) if start is not None else None
            last = self.moved(end)
            if first == last or (last not in self._nodes and not self._named(last, roots)):
                continue
            name = self.path(first, roots) if first is not None else ""
            found[name, self.path(last, roots)] = None
        return tuple(found)

    def _named(self, key: Key, roots: list[Root]) -> bool:
        return any(r.number == key[0] and key[1] in r.paths.values() for r in roots)


def _call_spec(path: str, node: Node) -> LayerSpec:
    activation = node.name if node.kind is LayerKind.ACTIVATION else "linear"
    return LayerSpec(
        path=path,
        type=node.name,
        kind=node.kind,
        activation=activation,
        config=node.config,
        output_shape=node.shape,
        source=node.source,
    )


def _with_activation(spec: LayerSpec, node: Node) -> LayerSpec:
    config = dict(spec.config)
    for name, value in node.config.items():
        config[name if name == "axis" else f"activation_{name}"] = value
    return dataclasses.replace(
        spec, activation=node.name, activation_source=node.source, config=config
    )


def _with_shape(spec: LayerSpec, shape: tuple[int, ...] | None) -> LayerSpec:
    """`spec` with its output's shape, and the axis of a softmax counted from the front."""
    config = dict(spec.config)
    of_module = spec.kind is LayerKind.ACTIVATION and ("axis" in config or "dim" in config)
    if of_module and shape is not None:
        axis = plain_axis(config.get("axis"), len(shape))
        if axis is not None:
            config["axis"] = axis
    return dataclasses.replace(spec, output_shape=shape, config=config)
