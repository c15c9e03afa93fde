"""Tensors that grow, or fade, over the run or through the layers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

from stethoscope.example import CLASSIFIER, REGRESSOR, Example
from stethoscope.program import Program
from stethoscope.rules._base import Rule, at_moment, layer_place
from stethoscope.trace import Row
from stethoscope.types import Evidence, Slot, Stage, Stat, Symptom, SymptomClass


class GrowthRule(Rule):
    """A tensor's largest element against what it was at its first probe, twice in a row."""

    kind = SymptomClass.EVENT
    stage: ClassVar[Stage]
    growth: ClassVar[float]
    large: ClassVar[float]
    word: ClassVar[str]

    def start(self, program: Program) -> Any:
        return {"first": {}, "count": {}, "told": False}

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        if not row.probed or state["told"]:
            return state, []
        worst: tuple[float, Slot, float] | None = None
        for slot, high in row.each(self.stage, Stat.MAX):
            size = max(abs(high), abs(row.get(slot, Stat.MIN)))
            first = state["first"].setdefault(slot, size)
            grown = size > self.growth * max(first, 1e-30) and size > self.large
            state["count"][slot] = state["count"].get(slot, 0) + 1 if grown else 0
            if state["count"][slot] >= 2 and (worst is None or size / first > worst[0]):
                worst = (size / max(first, 1e-30), slot, size)
        if worst is None:
            return state, []
        state["told"] = True
        ratio, slot, size = worst
        name = f"{slot.layer}/{slot.param}".strip("/")
        evidence = [
            Evidence(f"{self.word} of {name} over its first value", ratio, self.growth, ">"),
            Evidence(f"largest {self.word} of {name}", size, self.large, ">"),
        ]
        message = f"The {self.word} of {name} grew {ratio:.3g}-fold, to {size:.3g}."
        place = at_moment(layer_place(row.program, slot.layer, slot.param, slot.stage), row)
        return state, [self.symptom(place, evidence, message)]


class ExplodingActivation(GrowthRule):
    """An output grew by orders of magnitude.

    What it detects: the largest element of a layer's output is more than 1000 times what it was
    at the first probed step and above 10,000, on two probed steps in a row.

    Why it is bad: gradients grow with it; the next stop is infinity.

    How to fix: a smaller learning rate; gradient clipping for recurrent networks.

    False alarms: regression on very large targets needs large outputs, but gets there more slowly
    than a blow-up; such a run also learns and is left in peace.

    References: TheDeepChecker; AUTOTRAINER "exploding".
    """

    code = "F002"
    name = "exploding-activation"
    stage = Stage.OUTPUT
    needs = frozenset({Stage.OUTPUT})
    growth = 1e3  # learning moves outputs by a factor of a hundred at most
    large = 1e4  # outputs near 1 at the start
    word = "output"
    healthy = REGRESSOR
    faulty = Example(
        data="real",
        outputs=1,
        loss="mse",
        from_logits=False,
        learning_rate=1.5,
        hidden=(64, 64),
        activation="leaky_relu",
    )


class ExplodingGradient(GrowthRule):
    """A gradient grew by orders of magnitude.

    What it detects: the largest element of a parameter's gradient is more than 1000 times what it
    was at the first probed step and above 100, on two probed steps in a row.

    Why it is bad: one such update undoes everything learned.

    How to fix: a smaller learning rate; gradient clipping; normalization.

    False alarms: a first gradient near 0 (zero-initialized branches) makes the ratio large, which
    is why the second bound is there.

    References: Pascanu et al. 2013; AUTOTRAINER "exploding gradient".
    """

    code = "G002"
    name = "exploding-gradient"
    stage = Stage.WEIGHT_GRAD
    needs = frozenset({Stage.WEIGHT_GRAD})
    growth = 1e3  # gradients fall as a run learns; spikes stay within a factor of a hundred
    large = 100.0  # an update of that size with a usual rate is as large as the weights
    word = "gradient"
    healthy = CLASSIFIER
    faulty = ExplodingActivation.faulty


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
    healthy = CLASSIFIER
    faulty = Example(hidden=(16,) * 8, activation="sigmoid")

    ratio = 1e-4  # ten relu layers stay above 1e-2, eight sigmoid layers fall below 1e-5
    streak = 5

    def start(self, program: Program) -> Any:
        return {"count": 0, "told": False}

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
        spec = row.program.layer(slot.layer)
        shape = spec.params.get(slot.param) if spec else None
        if shape is None or len(shape) < 2:
            continue
        count = row.get(slot, Stat.COUNT)
        found.append((order[slot.layer], slot, norm / math.sqrt(max(count, 1))))
    for _, slot, size in sorted(found, key=lambda item: item[0]):
        yield slot, size
