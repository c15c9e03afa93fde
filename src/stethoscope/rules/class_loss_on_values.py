"""A loss for classes is used on real values."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR, Example
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule, loss_place
from stethoscope.rules._baseline import is_class_ids
from stethoscope.rules._output import heads
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import Expects, TargetKind


class ClassLossOnValues(ProgramRule):
    """A loss for classes is used on real values.

    What it detects: a binary crossentropy on targets that are no labels and no probabilities: many
    distinct values, some outside 0..1.

    Why it is bad: it has no minimum at the targets, and none at all where they are larger than 1.

    How to fix: squared or absolute error with an output without activation.

    False alarms: a crossentropy over classes whose one-hot rows are weighted (policy gradients) has
    targets outside 0..1 on purpose; it is not read.

    References: AUTOTRAINER; DeepFD "wrong loss".
    """

    code = "S009"
    name = "class-loss-on-values"
    kind = SymptomClass.CONTRADICTION
    healthy = REGRESSOR
    faulty = Example(
        data="real", outputs=1, loss="binary_crossentropy", target_scale=5.0, target_offset=3.0
    )

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a loss."""
        for head in heads(program):
            target, kind = head.target, head.loss.target_kind
            probability = head.loss.expects in (Expects.PROBABILITIES, Expects.LOGITS)
            if kind is not TargetKind.BINARY or not probability:
                continue
            if target is None or target.min is None or target.max is None:
                continue
            outside = target.min < -0.01 or target.max > 1.01
            whole = target.integer_valued and (target.distinct or 0) <= 100
            if not outside or whole or is_class_ids(target):
                continue
            evidence = [
                Evidence(
                    "range of the targets", f"{target.min:.4g}..{target.max:.4g}", "0..1", "!="
                )
            ]
            yield self.symptom(
                loss_place(program, head.index),
                evidence,
                f"{head.loss.type} takes probabilities as targets, but the targets run from "
                f"{target.min:.4g} to {target.max:.4g}.",
            )
