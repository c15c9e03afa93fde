"""Inputs and targets on a scale that a fresh network cannot handle."""

from __future__ import annotations

import math
from collections.abc import Iterable

from stethoscope.example import CLASSIFIER, REGRESSOR, Example
from stethoscope.program import DataSpec, LayerSpec, Program
from stethoscope.rules._base import ProgramRule, data_place
from stethoscope.rules._baseline import is_class_ids
from stethoscope.rules._output import heads
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import AFFINE, PASS_THROUGH, Expects, LayerKind, TargetKind


class UnscaledInput(ProgramRule):
    """The inputs are large, or their columns differ widely in scale.

    What it detects: the root mean square of the inputs is above 10, or that of one column is more
    than 100 times that of another, where the first layer with weights is a linear map or
    recurrent and nothing before it normalizes.

    Why it is bad: initial weights are made for inputs near 1. Pre-activations grow with the inputs,
    activations saturate or die, and one learning rate cannot fit all columns.

    How to fix: standardize the columns (mean 0, standard deviation 1), or divide pixels by 255.

    False alarms: batch normalization after the first layer often heals it: a suspicion, told only
    when the run is harmed.

    References: UMLAUT (CHI'21); DeepDiagnosis (ICSE'22) "normalise"; LeCun, Efficient BackProp 4.3.
    """

    code = "D003"
    name = "unscaled-input"
    kind = SymptomClass.SUSPICION
    healthy = CLASSIFIER
    faulty = Example(input_scale=300.0)

    large = 10.0  # He and Glorot initialization assume 1; ten times that saturates a sigmoid
    spread = 100.0  # columns further apart than this need rates further apart than one rate can be

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom an input."""
        first = _first_acting(program)
        if any(spec.kind not in (*AFFINE, LayerKind.RECURRENT) for spec in first):
            return
        for index, data in enumerate(program.inputs):
            size = _rms(data)
            if size is None or size == 0:
                continue
            place = data_place(program, "input", index)
            sizes = sorted(math.hypot(c.mean, c.std) for c in data.columns if c.max != c.min)
            middle = sizes[len(sizes) // 2] if sizes else size
            if size > self.large:
                evidence = [
                    Evidence("root mean square of the inputs", size, self.large, ">"),
                    Evidence(
                        "range of the inputs", f"{data.min:.4g}..{data.max:.4g}", "-1..1", "!="
                    ),
                ]
                yield self.symptom(
                    place,
                    evidence,
                    f"The inputs run from {data.min:.4g} to {data.max:.4g}; initial weights are "
                    "made for inputs near 1.",
                )
            elif sizes and sizes[-1] > self.spread * max(middle, 1e-12) and sizes[-1] > 1:
                evidence = [
                    Evidence(
                        "largest column over the median one", sizes[-1] / middle, self.spread, ">"
                    )
                ]
                yield self.symptom(
                    place, evidence, "The columns of the inputs differ widely in scale."
                )


class UnscaledTarget(ProgramRule):
    """Real-valued targets are far from 1 in scale.

    What it detects: a squared or absolute error on targets with a root mean square above 10.

    Why it is bad: the first errors are as large as the targets, and the gradient of a squared
    error grows with them: a rate that fits targets near 1 blows up, or the output needs a very
    long time to arrive.

    How to fix: standardize the targets, and scale the predictions back; or take a smaller rate.

    False alarms: an adaptive optimizer often learns anyway: a suspicion.

    References: TheDeepChecker; DeepLocalize benchmark, posts 48934338, 52800582.
    """

    code = "D004"
    name = "unscaled-target"
    kind = SymptomClass.SUSPICION
    healthy = REGRESSOR
    faulty = Example(
        data="real",
        outputs=1,
        loss="mse",
        from_logits=False,
        learning_rate=0.05,
        target_scale=300.0,
    )

    large = 10.0  # the output of a fresh network is near 1

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a target."""
        for head in heads(program):
            if head.target is None or head.loss.expects is not Expects.VALUES:
                continue
            if head.loss.target_kind is not TargetKind.REAL or is_class_ids(head.target):
                continue
            size = _rms(head.target)
            if size is None or size <= self.large:
                continue
            low, high = head.target.min, head.target.max
            evidence = [Evidence("root mean square of the targets", size, self.large, ">")]
            yield self.symptom(
                data_place(program, "target", head.index),
                evidence,
                f"The targets run from {low:.4g} to {high:.4g}; the output of a fresh network is "
                "near 1.",
            )


class ConstantTarget(ProgramRule):
    """Every target is the same.

    What it detects: one distinct value in all targets, once enough of them were seen.

    Why it is bad: a constant prediction is perfect; the input does not matter.

    How to fix: look at how the targets are read, cast or divided.

    False alarms: the "real" and "fake" targets of a GAN are constant by design: a suspicion.

    References: TheDeepChecker.
    """

    code = "D006"
    name = "constant-target"
    kind = SymptomClass.SUSPICION
    healthy = REGRESSOR
    faulty = Example(
        data="real", outputs=1, loss="mse", from_logits=False, target_scale=0.0, target_offset=2.0
    )

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a target."""
        for index, target in enumerate(program.targets):
            if target.constant and target.believable and target.rows_seen > 1:
                evidence = [Evidence("distinct targets", 1, 2, "<")]
                yield self.symptom(
                    data_place(program, "target", index),
                    evidence,
                    f"All {target.rows_seen} targets are {target.min:g}.",
                )


def _rms(data: DataSpec) -> float | None:
    if data.mean is None or data.std is None:
        return None
    return math.hypot(data.mean, data.std)


def _first_acting(program: Program) -> list[LayerSpec]:
    """The first layers that work on the values of the inputs, behind those that only reshape."""
    if not program.edges:
        return list(program.layers[:1])
    queue, seen, found = list(program.successors("")), set[str](), []
    while queue:
        path = queue.pop(0)
        spec = program.layer(path)
        if spec is None or path in seen:
            continue
        seen.add(path)
        if spec.kind in PASS_THROUGH or (spec.kind is LayerKind.OTHER and not spec.params):
            queue.extend(program.successors(path))
        else:
            found.append(spec)
    return found
