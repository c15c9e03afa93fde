"""The first layers get almost no gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from stethoscope.example import CLASSIFIER
from stethoscope.program import Program
from stethoscope.row import Block, Row
from stethoscope.rules._base import Rule, at_moment, layer_place
from stethoscope.types import Evidence, Slot, Stage, Stat, Symptom, SymptomClass


class VanishingGradient(Rule):
    """The first layers get almost no gradient.

    What it detects: on 5 probed steps in a row, the root mean square of the gradient of the first
    kernel is below 1/10,000 of that of the last one.

    Why it is bad: the first layers stay as they were initialized, and the later ones have to learn
    from random features, or cannot.

    How to fix: relu-like activations, He initialization, normalization, shortcuts. Not the learning
    rate: the small update is the effect.

    False alarms: tensors that get exactly no gradient are told by `unchanged-weight`; the ratio is
    between layers of one step, so a small loss late in a run does not trip it. A suspicion.

    References: Hochreiter 1991; Glorot and Bengio 2010; DeepDiagnosis (ICSE'22), whose fixed 1e-7
    is not used here.
    """

    code = "G001"
    name = "vanishing-gradient"
    kind = SymptomClass.SUSPICION
    needs = frozenset({Stage.WEIGHT_GRAD})
    healthy = CLASSIFIER.but(hidden=(16,) * 8, steps=320)
    faulty = healthy.but(activation="sigmoid")

    ratio = 1e-4  # ten relu layers stay above 1e-2, eight sigmoid layers fall below 1e-5
    streak = 5  # probed steps: a few samples at rest are no vanished gradient

    def start(self, program: Program) -> Any:
        return {"count": 0, "told": False}

    def quiet(self, state: Any, block: Block) -> bool:
        if state["told"] or state["count"]:
            return bool(state["told"])
        slots, (norm, count) = block.of(Stage.WEIGHT_GRAD, Stat.NORM, Stat.COUNT)
        order = {spec.path: i for i, spec in enumerate(block.program.layers)}
        kernels = [
            i for i, slot in enumerate(slots) if block.program.kernel_shape(slot.layer, slot.param)
        ]
        kernels.sort(key=lambda i: order[slots[i].layer])
        if len(kernels) < 2:
            return True
        sizes = norm[:, kernels] / np.sqrt(np.maximum(count[:, kernels], 1))
        sizes[~(sizes > 0)] = 0.0
        first = (sizes > 0).argmax(axis=1)[:, None]  # the first that is not 0
        low = np.take_along_axis(sizes, first, axis=1)
        return not bool((low < self.ratio * sizes.max(axis=1, keepdims=True)).any())

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        if not row.probed or state["told"]:
            return state, []
        sizes = [(slot, size) for slot, size in _kernel_gradients(row) if size > 0]
        if len(sizes) < 2:
            return state, []
        (first, low), (last, high) = sizes[0], max(sizes[1:], key=lambda pair: pair[1])
        state["count"] = state["count"] + 1 if low < self.ratio * high else 0
        if state["count"] < self.streak:
            return state, []
        state["told"] = True
        name = f"{first.layer}/{first.param}"
        evidence = [
            Evidence(
                f"gradient of {name} over that of {last.layer}/{last.param}",
                low / high,
                self.ratio,
                "<",
            ),
            Evidence(f"root mean square of the gradient of {name}", low, self.ratio * high, "<"),
        ]
        place = layer_place(row.program, first.layer, first.param, Stage.WEIGHT_GRAD)
        message = (
            f"The gradient of {name} is {low / high:.1g} of that of {last.layer}/{last.param}."
        )
        return state, [self.symptom(at_moment(place, row), evidence, message)]


def _kernel_gradients(row: Row) -> Iterator[tuple[Slot, float]]:
    """Root mean squares of the gradients of matrices and filters, in the order of the layers."""
    found = []
    order = {spec.path: i for i, spec in enumerate(row.program.layers)}
    for slot, norm in row.each(Stage.WEIGHT_GRAD, Stat.NORM):
        if row.program.kernel_shape(slot.layer, slot.param) is None:
            continue
        count = row.get(slot, Stat.COUNT)
        found.append((order[slot.layer], slot, norm / math.sqrt(max(count, 1))))
    for _, slot, size in sorted(found, key=lambda item: item[0]):
        yield slot, size
