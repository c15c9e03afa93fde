"""Weights that a network cannot start from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from stethoscope.example import CLASSIFIER, Example
from stethoscope.program import LayerSpec, Program
from stethoscope.row import Block, Row
from stethoscope.rules._base import Rule, at_moment, layer_place
from stethoscope.types import Evidence, Slot, Stage, Stat, Symptom, SymptomClass
from stethoscope.vocabulary import AFFINE


class Initialization(Rule):
    """The initial weights are all equal, far too large or far too small, or a bias is extreme.

    What it detects: at the first probed step, a kernel of a dense or convolutional layer whose
    elements are all equal; whose standard deviation is more than 10 times, or less than 1/100, of
    1/sqrt(fan in); or a bias vector whose mean is more than 5 times the spread of the layer's
    pre-activations away from 0.

    Why it is bad: equal units get equal gradients and stay equal; the scale multiplies from layer
    to layer; a large negative bias shuts every unit of a ReLU layer.

    How to fix: He initialization for relu, Glorot for tanh and sigmoid; biases at 0.

    False alarms: zero-initialized last layers of residual branches and of heads start at 0 on
    purpose: zeros accuse only where the layer before them gets no other gradient path. A suspicion.

    References: He et al. 2015; Glorot and Bengio 2010; TheDeepChecker "poor init".
    """

    code = "W006"
    name = "initialization"
    kind = SymptomClass.SUSPICION
    needs = frozenset({Stage.WEIGHT})
    healthy = CLASSIFIER
    faulty = Example(bias=-10.0)

    too_large = 10.0  # normal(std=1) on 784 inputs is 28 times He; He itself is 1.4
    too_small = 0.01  # below that the first signals of a 3-layer net are under 1e-6 of the input
    bias_spreads = 5.0  # a unit that far from 0 changes sign for one sample in a million

    def start(self, program: Program) -> Any:
        return {"done": False}

    def quiet(self, state: Any, block: Block) -> bool:
        return bool(state["done"])

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        if state["done"] or not row.probed:
            return state, []
        state["done"] = True
        return state, list(self._first(row))

    def _first(self, row: Row) -> Iterator[Symptom]:
        for slot, deviation in row.each(Stage.WEIGHT, Stat.STD):
            spec = row.program.layer(slot.layer)
            shape = spec.params.get(slot.param) if spec else None
            if spec is None or shape is None or spec.kind not in AFFINE or not spec.trainable:
                continue
            told = self._kernel(spec, slot, shape, deviation, row) if len(shape) >= 2 else None
            if told is None and len(shape) == 1 and "bias" in slot.param:
                told = self._bias(spec, slot, row)
            if told is not None:
                place = at_moment(
                    layer_place(row.program, slot.layer, slot.param, Stage.WEIGHT), row
                )
                yield self.symptom(place, *told)

    def _kernel(
        self, spec: LayerSpec, slot: Slot, shape: tuple[int, ...], deviation: float, row: Row
    ) -> tuple[list[Evidence], str] | None:
        name = f"{slot.layer}/{slot.param}"
        mean = row.get(slot, Stat.MEAN)
        units = spec.units or min(shape)
        if deviation <= 1e-7 * max(abs(mean), 1e-30):
            last = not row.program.successors(spec.path)
            if units < 2 or (mean == 0 and last):
                return None
            evidence = [Evidence(f"standard deviation of {name}", deviation, 0, "=")]
            return (
                evidence,
                f"All weights of {name} are {mean:g}: its units stay copies of each other.",
            )
        usual = 1 / math.sqrt(max(math.prod(shape) / max(units, 1), 1))
        ratio = math.hypot(deviation, mean) / usual
        if ratio > self.too_large:
            evidence = [
                Evidence(f"scale of {name} over 1/sqrt(fan in)", ratio, self.too_large, ">")
            ]
            return evidence, f"The initial weights of {name} are {ratio:.3g} times the usual scale."
        if ratio < self.too_small:
            evidence = [
                Evidence(f"scale of {name} over 1/sqrt(fan in)", ratio, self.too_small, "<")
            ]
            return evidence, f"The initial weights of {name} are {ratio:.3g} times the usual scale."
        return None

    def _bias(self, spec: LayerSpec, slot: Slot, row: Row) -> tuple[list[Evidence], str] | None:
        mean = row.get(slot, Stat.MEAN)
        spread = row.get(Slot(spec.path, "", Stage.PRE_ACTIVATION), Stat.STD)
        if spread != spread:
            spread = row.get(Slot(spec.path, "", Stage.OUTPUT), Stat.STD)
        if not spread > 0 or not abs(mean) > self.bias_spreads * spread or abs(mean) < 1:
            return None
        name = f"{slot.layer}/{slot.param}"
        evidence = [
            Evidence(
                f"mean of {name} over the spread of its pre-activations",
                abs(mean) / spread,
                self.bias_spreads,
                ">",
            )
        ]
        return evidence, (
            f"The initial bias {name} is {mean:.4g}, while the pre-activations vary by only "
            f"{spread:.3g}: the bias decides alone."
        )
