"""The learning rate is 0 from the start."""

from __future__ import annotations

from typing import Any

from stethoscope.example import CLASSIFIER, Example
from stethoscope.program import Program
from stethoscope.row import Block, Row
from stethoscope.rules._base import Rule, at_moment, optimizer_place
from stethoscope.types import Evidence, Stage, Symptom, SymptomClass


class ZeroRate(Rule):
    """The learning rate is 0 from the start.

    What it detects: every parameter group has a learning rate of exactly 0 on the first 10 steps.

    Why it is bad: nothing is learned.

    How to fix: set a rate; check what the schedule gives at its first steps.

    False alarms: the first step of a linear warm-up is 0, ten are not; a group that is frozen by a
    rate of 0 is fine as long as another one learns; a schedule may end at 0. One by
    epochs may give 0 for the whole first epoch: the fault is withdrawn when the rate leaves 0.

    References: the schedule mistakes in PyTorch's and Keras's forums.
    """

    code = "W007"
    name = "zero-learning-rate"
    kind = SymptomClass.CONTRADICTION
    needs = frozenset({Stage.HYPER})
    healthy = CLASSIFIER
    faulty = Example(learning_rate=0.0)
    streak = 10  # steps: a warm-up from 0 leaves it after the first

    def start(self, program: Program) -> Any:
        return {"count": 0, "over": False}

    def quiet(self, state: Any, block: Block) -> bool:
        return bool(state["over"])

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        if state["over"]:
            return state, []
        rates = [v for slot, v in row.each(Stage.HYPER) if slot.param.startswith("learning_rate")]
        if not rates:
            return state, []
        state["count"] += 1
        state["over"] = any(rates) or state["count"] == self.streak
        if any(rates) or state["count"] < self.streak:
            return state, []
        place = at_moment(optimizer_place(row.program), row)
        evidence = [Evidence("learning rate", 0.0, 0.0, "=")]
        message = f"The learning rate is 0 on all of the first {self.streak} steps."
        return state, [self.symptom(place, evidence, message)]
