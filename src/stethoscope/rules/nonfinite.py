"""Non-finite numbers, one rule for each stage, since each has causes of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from stethoscope.example import CLASSIFIER, REGRESSOR, Example
from stethoscope.program import Program
from stethoscope.rules._base import Rule, at_moment, data_place, layer_place, loss_place
from stethoscope.trace import Row
from stethoscope.types import (
    Evidence,
    Phase,
    Place,
    PlaceKind,
    Slot,
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
            yield self._told(row, slot, what, rows)

    def _counts(self, row: Row) -> Iterable[Symptom]:
        for stage in self.stages:
            if stage.is_scalar:
                continue
            for slot, count in row.each(stage, Stat.NAN_COUNT):
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


class NonfiniteInput(NonfiniteRule):
    """An input batch holds NaN or infinity.

    What it detects: at least one element of an input is not finite.

    Why it is bad: one such element makes the loss, every gradient and, after one update, every
    weight NaN.

    How to fix: find the rows named in the report and drop or fill them; check divisions and
    logarithms in the preprocessing.

    False alarms: models that mask NaN themselves before the first layer.

    References: DeepLocalize (ICSE'21) Algorithm 1; UMLAUT (CHI'21).
    """

    code = "D001"
    name = "nonfinite-input"
    stages = (Stage.INPUT,)
    needs = frozenset({Stage.INPUT})
    healthy = CLASSIFIER
    faulty = Example(nan_input_at=7)


class NonfiniteTarget(NonfiniteRule):
    """A target batch holds NaN or infinity.

    What it detects: at least one element of a target is not finite.

    Why it is bad: the loss of that sample is NaN, and with it every weight after one update.

    How to fix: drop or mask the samples without a target.

    False alarms: losses that skip NaN targets on purpose.

    References: UMLAUT (CHI'21).
    """

    code = "D002"
    name = "nonfinite-target"
    stages = (Stage.TARGET,)
    needs = frozenset({Stage.TARGET})
    healthy = REGRESSOR
    faulty = Example(
        data="real", outputs=1, loss="mse", from_logits=False, learning_rate=0.05, inf_target_at=7
    )


class NonfiniteActivation(NonfiniteRule):
    """A layer produced NaN or infinity.

    What it detects: the first pre-activation or output that is not finite in the forward pass.

    Why it is bad: the loss and every gradient upstream become NaN.

    How to fix: the report's diagnosis says which: too large a learning rate, unscaled inputs, or
    an operation outside its domain.

    False alarms: additive attention masks of minus infinity that a softmax takes in.

    References: DeepLocalize (ICSE'21) EBA and EAA; DeepDiagnosis (ICSE'22) "numerical error".
    """

    code = "F001"
    name = "nonfinite-activation"
    stages = (Stage.PRE_ACTIVATION, Stage.OUTPUT)
    needs = frozenset({Stage.OUTPUT})
    healthy = CLASSIFIER
    faulty = Example(
        data="real", outputs=1, loss="mse", from_logits=False, learning_rate=50.0, hidden=(16, 16)
    )


class NonfiniteLoss(NonfiniteRule):
    """The loss is NaN or infinite.

    What it detects: the loss of a step is not a finite number.

    Why it is bad: its gradient is not finite either; one update destroys the weights.

    How to fix: look for what made it (upstream symptoms come first in the report).

    False alarms: none known.

    References: DeepLocalize (ICSE'21) ELF; Keras TerminateOnNaN.
    """

    code = "L001"
    name = "nonfinite-loss"
    stages = (Stage.LOSS,)
    needs = frozenset({Stage.LOSS})
    healthy = CLASSIFIER
    faulty = Example(nan_input_at=7)


class NonfiniteMetric(NonfiniteRule):
    """A metric is NaN or infinite.

    What it detects: a metric of a training step is not a finite number.

    Why it is bad: it hides whether the model learns; often a division by an empty class.

    How to fix: guard the division, or fix what makes the loss non-finite.

    False alarms: metrics that are undefined on a batch without positives.

    References: DeepLocalize (ICSE'21) EAF.
    """

    code = "L002"
    name = "nonfinite-metric"
    stages = (Stage.METRIC,)
    needs = frozenset({Stage.METRIC})
    healthy = CLASSIFIER
    faulty = Example(
        data="real",
        outputs=1,
        loss="mse",
        from_logits=False,
        learning_rate=0.05,
        nan_input_at=7,
    )


class NonfiniteGradient(NonfiniteRule):
    """A gradient is NaN or infinite.

    What it detects: the gradient of a layer's output or of a parameter is not finite.

    Why it is bad: the update makes the weights non-finite.

    How to fix: a finite loss with a non-finite gradient comes from an operation whose derivative
    is infinite there (sqrt at 0, a norm of zeros): add a small constant inside.

    False alarms: float16 with a loss scaler, which skips such steps; those are not reported.

    References: DeepLocalize (ICSE'21) EBDW.
    """

    code = "G003"
    name = "nonfinite-gradient"
    stages = (Stage.OUTPUT_GRAD, Stage.WEIGHT_GRAD)
    needs = frozenset({Stage.WEIGHT_GRAD})
    healthy = CLASSIFIER
    faulty = Example(nan_input_at=7)


class NonfiniteUpdate(NonfiniteRule):
    """An update is NaN or infinite.

    What it detects: a parameter changed by a number that is not finite.

    Why it is bad: the parameter is destroyed.

    How to fix: with finite gradients the optimizer itself made it: too large a learning rate or
    an epsilon of 0.

    False alarms: none known.

    References: DeepLocalize (ICSE'21) EBDW.
    """

    code = "W005"
    name = "nonfinite-update"
    stages = (Stage.UPDATE,)
    needs = frozenset({Stage.UPDATE})
    healthy = CLASSIFIER
    faulty = Example(nan_input_at=7)


class NonfiniteWeight(NonfiniteRule):
    """A weight is NaN or infinite.

    What it detects: a parameter holds a number that is not finite.

    Why it is bad: everything computed with it is not finite; training cannot recover.

    How to fix: restart from the last good checkpoint after mending the cause named above it.

    False alarms: buffers used as masks are not parameters and are not read.

    References: DeepLocalize (ICSE'21) EBW.
    """

    code = "W001"
    name = "nonfinite-weight"
    stages = (Stage.WEIGHT,)
    needs = frozenset({Stage.WEIGHT})
    healthy = CLASSIFIER
    faulty = Example(nan_input_at=7)
