"""How far the weights move in a step, against how large they are."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

from stethoscope.program import Program
from stethoscope.row import Block, Row
from stethoscope.rules._base import Rule, at_moment, optimizer_place
from stethoscope.types import Evidence, Slot, Stage, Stat, Symptom, SymptomClass


class UpdateRatio(Rule):
    """Update over weight of the kernel that moves most, on several probed steps in a row."""

    kind = SymptomClass.SUSPICION
    needs = frozenset({Stage.UPDATE, Stage.WEIGHT})
    streak: ClassVar[int]
    bound: ClassVar[float]
    relation: ClassVar[str]
    at_once: ClassVar[float] = math.inf
    from_start: ClassVar[bool] = False

    def start(self, program: Program) -> Any:
        return {"count": 0, "told": False}

    def quiet(self, state: Any, block: Block) -> bool:
        return bool(state["told"])

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        if not row.probed or state["told"]:
            return state, []
        ratios = update_ratios(row)
        if not ratios:
            return state, []
        slot, ratio = max(ratios, key=lambda pair: pair[1])
        if self.from_start and not self.broken(ratio):
            state["told"] = True  # it has moved: what rests later has arrived
            return state, []
        state["count"] = state["count"] + 1 if self.broken(ratio) else 0
        if state["count"] < self.streak and not ratio > self.at_once:
            return state, []
        state["told"] = True
        name = f"{slot.layer}/{slot.param}"
        evidence = [
            Evidence(f"update of {name} over its weight", ratio, self.bound, self.relation),
        ]
        place = at_moment(optimizer_place(row.program), row)
        message = f"One step changes {name} by {ratio:.2g} of its size."
        return state, [self.symptom(place, evidence, message)]

    @abstractmethod
    def broken(self, ratio: float) -> bool:
        """Whether the ratio of the kernel that moves most breaks the bound."""


NEAR_ZERO = 0.1  # of the usual norm, the root of fan out: below it weights start at 0 on purpose


def update_ratios(row: Row) -> list[tuple[Slot, float]]:
    """|update| / |weight| of every trained matrix and filter of a probed row."""
    found = []
    for slot, norm in row.each(Stage.UPDATE, Stat.NORM):
        shape = row.program.kernel_shape(slot.layer, slot.param)
        weight = row.get(Slot(slot.layer, slot.param, Stage.WEIGHT), Stat.NORM)
        if shape is None:
            continue
        least = NEAR_ZERO * math.sqrt(min(shape[0], shape[-1]))  # one of the two is fan out
        if not weight > least:
            continue  # a weight that starts at 0 on purpose moves by any multiple of itself
        found.append((slot, norm / weight))
    return found
