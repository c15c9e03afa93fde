"""The accuracy is no better than naming the commonest class."""

from __future__ import annotations

import math
from typing import Any

from stethoscope.example import CLASSIFIER, Example
from stethoscope.program import Program
from stethoscope.row import Row, RowKind
from stethoscope.rules._base import Rule, at_moment
from stethoscope.rules._baseline import chance
from stethoscope.rules._course import CHECK_EVERY, least_steps
from stethoscope.rules._series import CLEAR, Series
from stethoscope.types import Evidence, Place, PlaceKind, Stage, Symptom, SymptomClass


class MetricNotIncreasing(Rule):
    """The accuracy is no better than naming the commonest class.

    What it detects: after 30 steps or 5 % of the planned ones, the mean of the last third of the
    batch accuracies is not above the share of the commonest class by 0.02 and four standard errors,
    and a trend test over the last half finds no rise. Where that bound is 1 or more, no accuracy
    could pass it, and nothing is said.

    Why it is bad: the model uses nothing of its input.

    How to fix: this is an effect: the report's diagnosis says of what.

    False alarms: rare classes under a threshold metric stay unnamed for long while the loss falls.

    References: DeepDiagnosis (ICSE'22) "accuracy not increasing".
    """

    code = "L005"
    name = "metric-not-increasing"
    kind = SymptomClass.EVENT
    needs = frozenset({Stage.METRIC})
    healthy = CLASSIFIER
    faulty = Example(learning_rate=1e-6)

    margin = 0.02  # accuracy by chance varies by so much over 600 samples

    def start(self, program: Program) -> Any:
        return {"series": Series(), "told": False}

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        if row.kind is not RowKind.STEP or state["told"]:
            return state, []
        value = next((v for slot, v in row.each(Stage.METRIC) if "acc" in slot.param), math.nan)
        if math.isnan(value):
            return state, []
        series: Series = state["series"]
        series.add(value)
        if series.count < least_steps(row.program) or series.count % CHECK_EVERY:
            return state, []
        bound = chance(row.program)
        if bound is None:
            return state, []
        level, error = series.level()
        slope, clear = series.trend()
        least = bound + self.margin + CLEAR * error
        if least >= 1 or level > least or (slope > 0 and clear > CLEAR):
            return state, []
        state["told"] = True
        evidence = [
            Evidence(
                "accuracy, mean of the last third less its error",
                level - CLEAR * error,
                bound + self.margin,
                "<",
            ),
            Evidence("trend of the accuracy, in standard errors", clear, CLEAR, "<"),
        ]
        message = (
            f"The accuracy stays at {level:.3g}; naming the commonest class gives {bound:.3g}."
        )
        place = at_moment(Place(PlaceKind.LOSS, stage=Stage.METRIC, path="metrics.accuracy"), row)
        return state, [self.symptom(place, evidence, message)]
