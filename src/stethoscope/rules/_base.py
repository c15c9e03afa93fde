"""What a rule is, and the shapes most rules have.

A rule is one file in this folder: a class derived from `Rule` or from one of the combinators
below, with the docstring sections *What it detects*, *Why it is bad*, *How to fix*,
*False alarms* and *References*. Thresholds are class attributes with a comment that says where
they come from. A rule sees a `Program` and rows, never a model and never what comes later.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stethoscope.example import Example
from stethoscope.program import Program
from stethoscope.row import Block, Row
from stethoscope.types import (
    Evidence,
    Place,
    PlaceKind,
    Slot,
    SourceRef,
    Stage,
    Stat,
    Symptom,
    SymptomClass,
)

BoolArray = npt.NDArray[np.bool_]


class Rule(ABC):
    """A detector: a fold over the rows of a run.

    Attributes:
        code: Letter and three digits; never reused.
        name: The pattern it names, in kebab case.
        kind: The class of its claim.
        needs: Stages without which it cannot run; empty for a rule on the Program alone.
        healthy, faulty: The smallest program that it must leave alone, and one it must accuse.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    kind: ClassVar[SymptomClass]
    needs: ClassVar[frozenset[Stage]] = frozenset()
    healthy: ClassVar[Example]
    faulty: ClassVar[Example]

    @abstractmethod
    def start(self, program: Program) -> Any:
        """The state before the first row."""

    @abstractmethod
    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        """The state after `row`, and what is newly seen. `state` is consumed; it stays bounded."""

    def quiet(self, state: Any, block: Block) -> bool:
        """Whether nothing of a block will be told, found without a look at each of its rows.

        If so, `state` is what `update` would have left after the last of them; else untouched.
        A rule that cannot say it cheaply leaves this out.
        """
        return False

    def symptom(
        self,
        place: Place,
        evidence: Sequence[Evidence],
        message: str,
    ) -> Symptom:
        """A symptom of this rule.

        Raises:
            ValueError: there is no evidence.
        """
        if not evidence:
            raise ValueError(f"{self.code} {self.name}: a symptom needs evidence.")
        return Symptom(self.code, self.name, self.kind, place, tuple(evidence), message)


class ProgramRule(Rule):
    """A rule on the Program alone: speaks from the start and whenever the Program is revised."""

    @abstractmethod
    def inspect(self, program: Program) -> Iterable[Symptom]:
        """What is wrong with this revision, at places without a moment."""

    def start(self, program: Program) -> Any:
        return {"program": None, "told": set()}

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        if row.program is state["program"]:
            return state, []
        state["program"] = row.program
        found = []
        for symptom in self.inspect(row.program):
            if symptom.place.key not in state["told"]:
                state["told"].add(symptom.place.key)
                found.append(dataclasses.replace(symptom, place=at_moment(symptom.place, row)))
        return state, found

    def quiet(self, state: Any, block: Block) -> bool:
        return block.program is state["program"]


class StreakRule(Rule):
    """A predicate on one recorded tensor that holds on several probed rows in a row.

    Attributes:
        stage: The stage it reads.
        streak: How many consecutive probed rows must agree.
    """

    stage: ClassVar[Stage]
    streak: ClassVar[int] = 3

    @abstractmethod
    def check(self, row: Row, slot: Slot) -> tuple[Sequence[Evidence], str] | None:
        """Evidence and message when the predicate holds for `slot` at `row`; else None."""

    @abstractmethod
    def may(self, block: Block) -> tuple[list[Slot], BoolArray]:
        """A cheap necessary condition of `check`: the slots, and a [rows, slots]."""

    def start(self, program: Program) -> Any:
        return {"count": {}, "told": set()}

    def quiet(self, state: Any, block: Block) -> bool:
        slots, may = self.may(block)
        if any(slots[i] not in state["told"] for i in np.flatnonzero(may.any(axis=0))):
            return False
        _, (count,) = block.of(self.stage, Stat.COUNT)
        for i in np.flatnonzero((count == count).any(axis=0)):  # NaN: not recorded
            state["count"][slots[i]] = 0
        return True

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        found: list[Symptom] = []
        if not row.probed:
            return state, found
        for slot, _ in row.each(self.stage, Stat.COUNT):
            if slot in state["told"]:
                continue
            answer = self.check(row, slot)
            count = state["count"].get(slot, 0) + 1 if answer else 0
            state["count"][slot] = count
            if answer and count >= self.streak:
                state["told"].add(slot)
                place = at_moment(layer_place(row.program, slot.layer, slot.param, slot.stage), row)
                found.append(self.symptom(place, *answer))
        return state, found


def at_moment(place: Place, row: Row) -> Place:
    """`place` with the step, epoch and batch of `row`."""
    return dataclasses.replace(place, step=row.step, epoch=row.epoch, batch=row.batch)


def layer_place(program: Program, layer: str, param: str = "", stage: Stage | None = None) -> Place:
    """The place of a layer's tensor, with the line that constructed the layer."""
    spec = program.layer(layer)
    source: SourceRef | None = None
    if spec is not None:
        applied = stage in (Stage.PRE_ACTIVATION, Stage.OUTPUT) and spec.activation_source
        source = applied or spec.source
    return Place(PlaceKind.LAYER, layer, param or None, stage, f"layers[{layer}]", source=source)


def activation_place(program: Program, layer: str) -> Place:
    """The place of the activation that `layer` applies."""
    place = layer_place(program, layer, stage=Stage.OUTPUT)
    return dataclasses.replace(place, path=f"layers[{layer}].activation")


def loss_place(program: Program, index: int = 0, field: str = "") -> Place:
    """The place of a loss."""
    source = program.losses[index].source if index < len(program.losses) else None
    path = loss_path(program, index, field)
    return Place(PlaceKind.LOSS, stage=Stage.LOSS, path=path, source=source)


def loss_path(program: Program, index: int, field: str = "") -> str:
    """The path of a field of a loss: with an index where there are several."""
    path = "loss" if len(program.losses) <= 1 else f"loss[{index}]"
    return f"{path}.{field}" if field else path


def optimizer_place(program: Program, field: str = "learning_rate") -> Place:
    """The place of a setting of the optimizer."""
    source = None
    if program.optimizers:
        spec = program.optimizers[0]
        rate = spec.rate_source if field == "learning_rate" else None
        source = rate or spec.source
    return Place(
        PlaceKind.HYPERPARAMETER, stage=Stage.HYPER, path=f"optimizer.{field}", source=source
    )


def data_place(program: Program, role: str, index: int = 0) -> Place:
    """The place of an input or a target; `role` is "input" or "target"."""
    stage = Stage.INPUT if role == "input" else Stage.TARGET
    specs = program.inputs if role == "input" else program.targets
    source = specs[index].source if index < len(specs) else None
    return Place(
        PlaceKind.DATA,
        stage=stage,
        path=f"data.{role}[{index}]",
        source=source or program.fit.source,
    )
