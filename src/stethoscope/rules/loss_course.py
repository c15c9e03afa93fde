"""The course of the loss and of the metric: flat, rising, no better than a constant."""

from __future__ import annotations

import math
from typing import Any

from stethoscope.example import CLASSIFIER, Example
from stethoscope.program import Program
from stethoscope.rules._base import Rule, at_moment, loss_place
from stethoscope.rules._baseline import chance, trivial_loss
from stethoscope.rules._series import CLEAR, Series
from stethoscope.trace import Row, RowKind
from stethoscope.types import Evidence, Place, PlaceKind, Stage, Symptom, SymptomClass

LEAST_STEPS = 30  # DESIGN 6: below that a flat stretch is noise
CHECK_EVERY = 10


class LossNotDecreasing(Rule):
    """The loss is no better than that of a constant prediction, and is not falling.

    What it detects: after 30 steps or 5 % of the planned ones, the mean of the last third of the
    losses is not clearly below what the best constant prediction would score (where that is known:
    else not clearly below the first losses), and a trend test over the last half finds no fall.

    Why it is bad: the model uses nothing of its input.

    How to fix: this is an effect: the report's diagnosis says of what.

    False alarms: very noisy losses (reinforcement learning) and adversarial ones do not fall; no
    baseline is known for them, and more than one loss in a run is left out.

    References: DeepDiagnosis (ICSE'22) "loss not decreasing", DeepLocalize "model does not learn",
    in a form that does not need two equal numbers.
    """

    code = "L003"
    name = "loss-not-decreasing"
    kind = SymptomClass.EVENT
    needs = frozenset({Stage.LOSS})
    healthy = CLASSIFIER
    faulty = Example(learning_rate=1e-6)

    margin = 0.02  # a model that uses its input is 2 % better than one that does not

    def start(self, program: Program) -> Any:
        return {"series": Series(), "told": False}

    def update(self, state: Any, row: Row) -> tuple[Any, list[Symptom]]:
        loss = row.scalar(Stage.LOSS)
        if row.kind is not RowKind.STEP or math.isnan(loss):
            return state, []
        series: Series = state["series"]
        series.add(loss)
        if state["told"] or series.count < least_steps(row.program) or series.count % CHECK_EVERY:
            return state, []
        level, error = series.level()
        slope, clear = series.trend()
        known = trivial_loss(row.program)
        first = series.start()
        bound, words = known if known else (first, "the first steps gave")
        slack = self.margin * abs(bound)
        if not level > bound - slack - error or (slope < 0 and clear < -CLEAR):
            return state, []
        if level > first + CLEAR * error + slack:  # it rises: another rule's matter
            return state, []
        state["told"] = True
        evidence = [
            Evidence("loss, mean of the last third", level, bound, ">"),
            Evidence("slope over its error", clear, -CLEAR, ">"),
        ]
        message = f"The loss stays at {level:.4g} after {series.count} steps ({words} {bound:.4g})."
        return state, [self.symptom(at_moment(loss_place(row.program), row), evidence, message)]


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
    healthy = CLASSIFIER
    faulty = Example(
        data="real",
        outputs=1,
        loss="mse",
        from_logits=False,
        learning_rate=1.5,
        hidden=(64, 64),
        activation="leaky_relu",
    )

    jump = 1e3  # no minibatch noise reaches a factor of a thousand
    rise = 0.2

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
        place = at_moment(loss_place(row.program), row)
        if loss > self.jump * scale:
            state["told"] = True
            evidence = [Evidence("loss over the first loss", loss / scale, self.jump, ">")]
            message = f"The loss jumped from {first:.4g} to {loss:.4g}."
            return state, [self.symptom(place, evidence, message)]
        if series.count < least_steps(row.program) or series.count % CHECK_EVERY:
            return state, []
        level, error = series.level()
        _, clear = series.trend()
        if not level > first + CLEAR * error + self.rise * scale or clear < -CLEAR:
            return state, []
        state["told"] = True
        evidence = [
            Evidence("loss, mean of the last third", level, first, ">"),
            Evidence("slope over its error", clear, -CLEAR, ">"),
        ]
        message = f"The loss rose from {first:.4g} to {level:.4g}."
        return state, [self.symptom(place, evidence, message)]


class MetricNotIncreasing(Rule):
    """The accuracy is no better than naming the commonest class.

    What it detects: after 30 steps or 5 % of the planned ones, the mean of the last third of the
    batch accuracies is not above the share of the commonest class by four standard errors, and a
    trend test over the last half finds no rise.

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

    margin = 0.02

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
        if level > bound + self.margin + CLEAR * error or (slope > 0 and clear > CLEAR):
            return state, []
        state["told"] = True
        evidence = [
            Evidence("accuracy, mean of the last third", level, bound, "<"),
            Evidence("slope over its error", clear, CLEAR, "<"),
        ]
        message = (
            f"The accuracy stays at {level:.3g}; naming the commonest class gives {bound:.3g}."
        )
        place = at_moment(Place(PlaceKind.LOSS, stage=Stage.METRIC, path="metrics.accuracy"), row)
        return state, [self.symptom(place, evidence, message)]


def least_steps(program: Program) -> int:
    """Steps before the course of a loss may accuse."""
    planned = program.fit.planned_steps
    return max(LEAST_STEPS, math.ceil(0.05 * planned)) if planned else LEAST_STEPS
