"""Tensors that grow, or fade, over the run or through the layers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from stethoscope.program import Program
from stethoscope.row import Block, Row
from stethoscope.rules._base import Rule, at_moment, layer_place
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

    def quiet(self, state: Any, block: Block) -> bool:
        if state["told"]:
            return True
        slots, (low, high) = block.of(self.stage, Stat.MIN, Stat.MAX)
        if len(state["first"]) < len(slots) or (np.maximum(-low, high) > self.large).any():
            return False
        for i in np.flatnonzero((high == high).any(axis=0)):  # NaN: not recorded
            state["count"][slots[i]] = 0
        return True

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        if not row.probed or state["told"]:
            return state, []
        worst: tuple[float, Slot, float] | None = None
        for slot, high in row.each(self.stage, Stat.MAX):
            size = max(abs(high), abs(row.get(slot, Stat.MIN)))
            first = state["first"].setdefault(slot, size)
            ratio = size / max(first, 1e-30)  # from nothing: the other bound decides
            grown = ratio > self.growth and size > self.large
            state["count"][slot] = state["count"].get(slot, 0) + 1 if grown else 0
            if state["count"][slot] >= 2 and (worst is None or ratio > worst[0]):
                worst = (ratio, slot, size)
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
