"""The loss is no better than that of a constant prediction, and is not falling."""

from __future__ import annotations

import math
from typing import Any

from stethoscope.agreement import CORRELATION
from stethoscope.example import CLASSIFIER, Example
from stethoscope.program import Program
from stethoscope.row import Row, RowKind
from stethoscope.rules._base import Rule, at_moment, loss_place
from stethoscope.rules._baseline import trivial_loss
from stethoscope.rules._course import CHECK_EVERY, least_steps
from stethoscope.rules._series import CLEAR, Series
from stethoscope.types import Evidence, Stage, Symptom, SymptomClass


class LossNotDecreasing(Rule):
    """The loss is no better than that of a constant prediction, and is not falling.

    What it detects: after 30 steps or 5 % of the planned ones, the mean of the last third of the
    losses is not clearly below what the best constant prediction would score (where that is known:
    else not clearly below the first losses), a trend test over the last half finds no fall, and the
    predictions, where they are seen, do not go with the targets.

    Why it is bad: the model uses nothing of its input.

    How to fix: this is an effect: the report's diagnosis says of what.

    False alarms: very noisy losses (reinforcement learning), adversarial ones and those of several
    losses together need not fall; no baseline is known for them, and the sum is held against its
    first values: an event, which accuses nothing by itself.

    References: DeepDiagnosis (ICSE'22) "loss not decreasing", DeepLocalize "model does not learn",
    in a form that does not need two equal numbers.
    """

    code = "L003"
    name = "loss-not-decreasing"
    kind = SymptomClass.EVENT
    needs = frozenset({Stage.LOSS})
    healthy = CLASSIFIER
    faulty = Example(learning_rate=1e-6)

    margin = 0.02  # of the bound: as far as a baseline of a sample of the targets can be off

    def start(self, program: Program) -> Any:
        return {"series": Series(), "agreement": Series(), "told": False}

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        loss = row.scalar(Stage.LOSS)
        if row.kind is not RowKind.STEP or math.isnan(loss):
            return state, []
        series: Series = state["series"]
        series.add(loss)
        agreement = row.scalar(Stage.LOSS, param=CORRELATION)
        if not math.isnan(agreement):
            state["agreement"].add(agreement)
        if state["told"] or series.count < least_steps(row.program) or series.count % CHECK_EVERY:
            return state, []
        level, error = series.level()
        slope, clear = series.trend()
        known = trivial_loss(row.program)
        first = series.start()
        bound, words = (known.high, known.words) if known else (first, "the first steps gave")
        agrees, noise = state["agreement"].level(share=0.5)
        if agrees > CLEAR * noise:  # targets that are mostly noise
            return state, []
        slack = self.margin * abs(bound)
        if not level > bound - slack - error or (slope < 0 and clear < -CLEAR):
            return state, []
        if level > first + CLEAR * error + slack:  # it rises: another rule's matter
            return state, []
        state["told"] = True
        evidence = [
            Evidence(
                "loss, mean of the last third and its error", level + error, bound - slack, ">"
            ),
            Evidence("trend of the loss, in standard errors", clear, -CLEAR, ">"),
        ]
        message = f"The loss stays at {level:.4g} after {series.count} steps ({words} {bound:.4g})."
        return state, [self.symptom(at_moment(loss_place(row.program), row), evidence, message)]
