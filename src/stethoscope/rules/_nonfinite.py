"""Non-finite numbers, one rule for each stage, since each has causes of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar

from stethoscope.program import Program
from stethoscope.row import Block, Row
from stethoscope.rules._base import Rule, at_moment, data_place, layer_place, loss_place
from stethoscope.types import (
    Evidence,
    Phase,
    Place,
    PlaceKind,
    Slot,
    SourceRef,
    Stage,
    Stat,
    Symptom,
    SymptomClass,
)

_WORDS = {
    Stage.INPUT: "input",
    Stage.TARGET: "target",
    Stage.PRE_ACTIVATION: "pre-activation",
    Stage.OUTPUT: "output",
    Stage.LOSS: "loss",
    Stage.METRIC: "metric",
    Stage.OUTPUT_GRAD: "gradient of the output",
    Stage.WEIGHT_GRAD: "gradient",
    Stage.UPDATE: "update",
    Stage.WEIGHT: "weight",
}


class NonfiniteRule(Rule):
    """What it detects: the first tensor of its stages that holds a NaN or an infinity.

    Reads the counts of a probed step and the `nonfinite` events of the per-step check. Only the
    first place is told: from there the non-finite numbers spread.
    """

    kind = SymptomClass.EVENT
    stages: ClassVar[tuple[Stage, ...]]

    def start(self, program: Program) -> Any:
        return {"told": False}

    def quiet(self, state: Any, block: Block) -> bool:
        return state["told"] or not block.counts_nonfinite

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        if state["told"]:
            return state, []
        for symptom in (*self._events(row), *self._counts(row)):
            state["told"] = True
            return state, [symptom]
        return state, []

    def _events(self, row: Row) -> Iterable[Symptom]:
        for event in row.events:
            payload = event.payload
            if event.kind != "nonfinite" or payload.get("stage") not in self.stages:
                continue
            if payload.get("phase", Phase.TRAIN) != Phase.TRAIN:
                continue
            stage = Stage(payload["stage"])
            slot = Slot(payload.get("layer") or "", payload.get("param") or "", stage)
            what = str(payload.get("what") or payload.get("value") or "nan")
            rows = tuple(int(i) for i in payload.get("rows") or ())
            told = self._told(row, slot, what, rows)
            line = payload.get("line")  # of the very call, in a layer that makes several
            if line:
                source = SourceRef(str(line[0]), int(line[1]))
                told = dataclasses.replace(
                    told, place=dataclasses.replace(told.place, source=source)
                )
            yield told

    def _counts(self, row: Row) -> Iterable[Symptom]:
        for stage in self.stages if row.counts_nonfinite else ():
            if stage.is_scalar:
                continue
            for slot, count in row.each(stage, Stat.NAN_COUNT):
                if is_frozen(row, slot):
                    continue
                infinite = row.get(slot, Stat.INF_COUNT)
                if count + infinite > 0:
                    yield self._told(row, slot, "nan" if count else "inf", (), count + infinite)

    def _told(
        self, row: Row, slot: Slot, what: str, rows: tuple[int, ...], count: float = 0
    ) -> Symptom:
        name = f"{slot.layer}/{slot.param}".strip("/")
        word = _WORDS[slot.stage]
        where = f" in row {', '.join(map(str, rows[:5]))} of the batch" if rows else ""
        subject = f"{word} {name}".strip() if name and slot.layer else word
        evidence = [Evidence(subject, what, "finite", "!=")]
        if count:
            evidence.append(Evidence(f"non-finite elements of {subject}", count, 0, ">"))
        message = f"The {subject} holds {what}{where} at step {row.step}."
        return self.symptom(_place(row, slot, rows), evidence, message)


def is_frozen(row: Row, slot: Slot) -> bool:
    """Whether a weight got no gradient in a probed step in which others did: nothing trains it.

    A mask of -inf may be kept as a parameter; nobody learns it, and no update can spoil it.
    """
    if slot.stage not in (Stage.WEIGHT, Stage.UPDATE):
        return False
    graded = [s for s, _ in row.each(Stage.WEIGHT_GRAD, Stat.COUNT)]
    return bool(graded) and all((s.layer, s.param) != (slot.layer, slot.param) for s in graded)


def _place(row: Row, slot: Slot, rows: tuple[int, ...]) -> Place:
    program, stage = row.program, slot.stage
    if stage in (Stage.INPUT, Stage.TARGET):
        index = int(slot.param) if slot.param.isdigit() else 0
        place = data_place(program, stage.value, index)
    elif stage is Stage.LOSS:
        place = loss_place(program)
    elif stage is Stage.METRIC:
        place = Place(PlaceKind.LOSS, stage=stage, path=f"metrics.{slot.param}")
    else:
        place = layer_place(program, slot.layer, slot.param, stage)
    place = at_moment(place, row)
    return Place(**{**vars(place), "rows": rows}) if rows else place
