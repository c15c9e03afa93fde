"""What is looked at of a step: every stage's tensors, and the slots that they are recorded in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stethoscope.array_stats import Look, describe_many
from stethoscope.engine.describe import applied
from stethoscope.engine.layers._base import Array
from stethoscope.engine.network import Network
from stethoscope.engine.step import Step
from stethoscope.stats import FloatArray
from stethoscope.types import Slot, Stage
from stethoscope.vocabulary import ACTIVATIONS, LayerKind

Slots = tuple[Slot, ...]


class View(NamedTuple):
    """What the tensors of a step are called, and how each is described."""

    slots: Slots
    looks: tuple[Look, ...]


class Observer:
    """Describes the steps of one network.

    Attributes:
        network: What is trained.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self._first = len(network.inputs)
        self._before = [_has_before(network, i) for i in range(len(network.nodes))]
        self._views: dict[tuple[object, ...], View] = {}

    def describe(self, steps: Sequence[Step]) -> list[tuple[Slots, FloatArray]]:
        """For each step its slots, in the order in which they were computed, and [slots, stats].

        Steps in a row whose tensors have the same shapes cost hardly more than one of them.
        """
        found: list[tuple[Slots, FloatArray]] = []
        for _, alike in itertools.groupby(steps, _shape):
            group = list(alike)
            view = self._view(group[0])
            rows = describe_many([self._tensors(step) for step in group], view.looks)
            found += [(view.slots, row) for row in rows]
        return found

    def samples(self, step: Step, slot: Slot) -> Array:
        """The tensor of a slot whose first axis is the samples; an empty array for any other."""
        if slot.stage is Stage.INPUT:
            return step.inputs[int(slot.param)]
        if slot.stage is Stage.TARGET:
            return step.targets[int(slot.param)]
        places = {node.path: i for i, node in enumerate(self.network.nodes)}
        if slot.stage is Stage.PRE_ACTIVATION:
            return self._input_of_activation(step, places[slot.layer])
        if slot.stage is Stage.OUTPUT:
            return step.done.values[self._first + places[slot.layer]]
        return np.empty(0)

    def _tensors(self, step: Step) -> list[Array]:
        done, first = step.done, self._first
        found = [*step.inputs, *step.targets]
        for index in range(len(self.network.nodes)):
            if self._before[index]:
                found.append(self._input_of_activation(step, index))
            found.append(done.values[first + index])
        found += [flow for flow in reversed(done.gradients[first:]) if flow is not None]
        for name, old in step.before.items():
            found += (step.gradients[name], old, step.after[name] - old)
        return found

    def _view(self, step: Step) -> View:
        flows = [flow is not None for flow in step.done.gradients[self._first :]]
        key = (len(step.inputs), len(step.targets), *flows, *step.before)
        known = self._views.get(key)
        if known is None:
            known = self._views[key] = View(*zip(*self._named(step, flows), strict=True))
        return known

    def _named(self, step: Step, flows: Sequence[bool]) -> Iterator[tuple[Slot, Look]]:
        nodes = self.network.nodes
        for stage, tensors in ((Stage.INPUT, step.inputs), (Stage.TARGET, step.targets)):
            for i in range(len(tensors)):
                yield Slot("", str(i), stage), Look()
        for node, before in zip(nodes, self._before, strict=True):
            axis = node.layer.unit_axis
            if before:
                saturation = _saturation(applied(node.layer))
                yield Slot(node.path, "", Stage.PRE_ACTIVATION), Look(saturation, axis)
            yield Slot(node.path, "", Stage.OUTPUT), Look(None, axis)
        for node, flow in zip(reversed(nodes), reversed(flows), strict=True):
            if flow:
                yield Slot(node.path, "", Stage.OUTPUT_GRAD), Look()
        for name in step.before:
            layer, param = name.rsplit("/", 1)
            for stage in (Stage.WEIGHT_GRAD, Stage.WEIGHT, Stage.UPDATE):
                yield Slot(layer, param, stage), Look()

    def _input_of_activation(self, step: Step, index: int) -> Array:
        node = self.network.nodes[index]
        if node.layer.kind is LayerKind.ACTIVATION:
            return step.done.values[node.inputs[0]]
        return step.done.before[index]


def _shape(step: Step) -> list[object]:
    """What the shapes of a step's tensors depend on, in one network."""
    flows = [flow is not None for flow in step.done.gradients]
    return [*(array.shape for array in (*step.inputs, *step.targets)), flows, *step.before]


def _has_before(network: Network, index: int) -> bool:
    """Whether a node applies an activation to values that can be told apart from its output."""
    layer = network.nodes[index].layer
    if layer.kind is LayerKind.ACTIVATION:  # also one that has weights, as PReLU
        return True
    return layer.activation is not None and layer.activation.name != "linear"


def _saturation(activation: str | None) -> tuple[float, float] | None:
    facts = ACTIVATIONS.get(activation or "")
    return facts.saturation if facts and np.isfinite(facts.saturation).any() else None
