"""What is looked at of a step: every stage's tensors, and the slots that they are recorded in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stethoscope.array_stats import Tensor, describe_many
from stethoscope.engine.describe import applied
from stethoscope.engine.layers._base import Array
from stethoscope.engine.network import Network
from stethoscope.engine.training import Step
from stethoscope.stats import FloatArray
from stethoscope.types import Slot, Stage
from stethoscope.vocabulary import ACTIVATIONS, LayerKind

Slots = tuple[Slot, ...]


class Observer:
    """Describes the steps of one network.

    Attributes:
        network: What is trained.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self._first = len(network.inputs)
        self._saturations = [_saturation(applied(node.layer)) for node in network.nodes]
        self._before = [_has_before(network, i) for i in range(len(network.nodes))]
        self._slots: dict[tuple[object, ...], Slots] = {}

    def describe(self, steps: Sequence[Step]) -> list[tuple[Slots, FloatArray]]:
        """For each step its slots, in the order in which they were computed, and [slots, stats].

        Many small tensors are described at the price of one: see `array_stats.describe_many`.
        """
        slots = [self._slots_of(step) for step in steps]
        rows = describe_many([tensor for step in steps for tensor in self._tensors(step)])
        ends = np.cumsum([len(one) for one in slots])
        return [(one, rows[end - len(one) : end]) for one, end in zip(slots, ends, strict=True)]

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

    def _tensors(self, step: Step) -> list[Tensor]:
        done, nodes = step.done, self.network.nodes
        found = [Tensor(x) for x in (*step.inputs, *step.targets)]
        for index, node in enumerate(nodes):
            axis = node.layer.unit_axis
            if self._before[index]:
                before = self._input_of_activation(step, index)
                found.append(Tensor(before, self._saturations[index], axis))
            found.append(Tensor(done.values[self._first + index], None, axis))
        for gradient in reversed(done.gradients[self._first :]):
            if gradient is not None:
                found.append(Tensor(gradient))
        for name, old in step.before.items():
            found += (Tensor(step.gradients[name]), Tensor(old), Tensor(step.after[name] - old))
        return found

    def _slots_of(self, step: Step) -> Slots:
        flows = tuple(g is not None for g in step.done.gradients[self._first :])
        key = (len(step.inputs), len(step.targets), flows, *step.before)
        known = self._slots.get(key)
        if known is None:
            known = self._slots[key] = self._named(step, flows)
        return known

    def _named(self, step: Step, flows: Sequence[bool]) -> Slots:
        nodes = self.network.nodes
        found = [Slot("", str(i), Stage.INPUT) for i in range(len(step.inputs))]
        found += [Slot("", str(i), Stage.TARGET) for i in range(len(step.targets))]
        for index, node in enumerate(nodes):
            if self._before[index]:
                found.append(Slot(node.path, "", Stage.PRE_ACTIVATION))
            found.append(Slot(node.path, "", Stage.OUTPUT))
        for node, flow in zip(reversed(nodes), reversed(flows), strict=True):
            if flow:
                found.append(Slot(node.path, "", Stage.OUTPUT_GRAD))
        for name in step.before:
            layer, param = name.rsplit("/", 1)
            stages = (Stage.WEIGHT_GRAD, Stage.WEIGHT, Stage.UPDATE)
            found += [Slot(layer, param, stage) for stage in stages]
        return tuple(found)

    def _input_of_activation(self, step: Step, index: int) -> Array:
        node = self.network.nodes[index]
        if node.layer.kind is LayerKind.ACTIVATION:
            return step.done.values[node.inputs[0]]
        return step.done.before[index]


def _has_before(network: Network, index: int) -> bool:
    """Whether a node applies an activation to values that can be told apart from its output."""
    layer = network.nodes[index].layer
    if layer.kind is LayerKind.ACTIVATION:  # also one that has weights, as PReLU
        return True
    return layer.activation is not None and layer.activation.name != "linear"


def _saturation(activation: str | None) -> tuple[float, float] | None:
    facts = ACTIVATIONS.get(activation or "")
    return facts.saturation if facts and np.isfinite(facts.saturation).any() else None
