"""A loss for classes is used on real values."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule, loss_place
from stethoscope.rules._baseline import is_class_ids
from stethoscope.rules._output import heads
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import Expects, TargetKind


class ClassLossOnValues(ProgramRule):
    """A loss for classes is used on real values.

    What it detects: a binary crossentropy on targets that are no labels and no probabilities: many
    distinct values, by more than 0.05 outside 0..1 on average; from a first batch, by more than 1.

    Why it is bad: it has no minimum at the targets, and none at all where they are larger than 1.

    How to fix: squared or absolute error with an output without activation.

    False alarms: images that interpolation has carried a little beyond 0..1 have a smaller distance
    on average. A crossentropy over classes whose one-hot rows are weighted (policy gradients) has
    targets outside 0..1 on purpose; it is not read.

    References: AUTOTRAINER; DeepFD "wrong loss".
    """

    code = "S009"
    name = "class-loss-on-values"
    kind = SymptomClass.CONTRADICTION
    healthy = REGRESSOR
    faulty = REGRESSOR.but(
        loss="binary_crossentropy", from_logits=True, target_scale=5.0, target_offset=3.0
    )

    far = 0.05  # bicubic interpolation of images in 0..1 overshoots by 0.01 on average
    far_at_once = 1.0  # standardized values are 0.48 outside on average, a batch of them up to 1

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a loss."""
        for head in heads(program):
            target, kind = head.target, head.loss.target_kind
            probability = head.loss.expects in (Expects.PROBABILITIES, Expects.LOGITS)
            if kind is not TargetKind.BINARY or not probability:
                continue
            if target is None or target.min is None or target.max is None:
                continue
            far = self.far if target.believable else self.far_at_once
            whole = target.integer_valued and (target.distinct or 0) <= 100
            if not target.beyond_unit > far or whole or is_class_ids(target):
                continue
            evidence = [
                Evidence("mean distance of the targets from 0..1", target.beyond_unit, far, ">"),
                Evidence(
                    "range of the targets", f"{target.min:.4g}..{target.max:.4g}", "0..1", "!="
                ),
            ]
            yield self.symptom(
                loss_place(program, head.index),
                evidence,
                f"{head.loss.type} takes probabilities as targets, but the targets run from "
                f"{target.min:.4g} to {target.max:.4g}.",
            )
