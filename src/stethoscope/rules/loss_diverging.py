"""The loss rises, or jumped by orders of magnitude."""

from __future__ import annotations

import math
from typing import Any

from stethoscope.example import DIVERGING, REGRESSOR
from stethoscope.program import Program
from stethoscope.row import Row, RowKind
from stethoscope.rules._base import Rule, at_moment, loss_place
from stethoscope.rules._course import CHECK_EVERY, least_steps
from stethoscope.rules._series import CLEAR, Series
from stethoscope.types import Evidence, Stage, Symptom, SymptomClass


class LossDiverging(Rule):
    """The loss rises, or jumped by orders of magnitude.

    What it detects: the mean of the last third is above the first losses by more than four
    standard errors and a fifth, with a rising trend or no fall since; or one loss is more than
    1000 times the first one.

    Why it is bad: the updates make the model worse.

    How to fix: a smaller learning rate; see the diagnosis.

    False alarms: losses of games between models rise and fall; a loss near 0 at the start.

    References: AUTOTRAINER; TheDeepChecker "loss divergence".
    """

    code = "L004"
    name = "loss-diverging"
    kind = SymptomClass.EVENT
    needs = frozenset({Stage.LOSS})
    healthy = REGRESSOR
    faulty = DIVERGING

    jump = 1e3  # no minibatch noise reaches a factor of a thousand
    rise = 0.2  # of the first losses: noise can be nearly nothing, a creep is no divergence

    def start(self, program: Program) -> Any:
        return {"series": Series(), "told": False}

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        loss = row.scalar(Stage.LOSS)
        if row.kind is not RowKind.STEP or math.isnan(loss) or state["told"]:
            return state, []
        series: Series = state["series"]
        series.add(loss)
        first = series.start()
        scale = max(abs(first), 1e-3)  # a loss that starts at 0 may well grow a little
        if loss > self.jump * scale:
            state["told"] = True
            evidence = [Evidence("loss over the first loss", loss / scale, self.jump, ">")]
            message = f"The loss jumped from {first:.4g} to {loss:.4g}."
            return state, [self._told(row, evidence, message)]
        if series.count < least_steps(row.program) or series.count % CHECK_EVERY:
            return state, []
        if not series.risen(self.rise):
            return state, []
        level, (_, clear) = series.level()[0], series.trend()
        state["told"] = True
        evidence = [
            Evidence("loss, mean of the last third", level, first, ">"),
            Evidence("trend of the loss, in standard errors", clear, -CLEAR, ">"),
        ]
        message = f"The loss rose from {first:.4g} to {level:.4g}."
        return state, [self._told(row, evidence, message)]

    def _told(self, row: Row, evidence: list[Evidence], message: str) -> Symptom:
        return self.symptom(at_moment(loss_place(row.program), row), evidence, message)
