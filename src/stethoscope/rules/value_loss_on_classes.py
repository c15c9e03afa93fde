"""A loss for real values is used on classes."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import ONE_HOT
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule, loss_place
from stethoscope.rules._baseline import classes_of
from stethoscope.rules._output import heads
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import TargetKind


class ValueLossOnClasses(ProgramRule):
    """A loss for real values is used on classes.

    What it detects: a squared or absolute error whose targets are one-hot rows of at least 3
    columns.

    Why it is bad: its gradient vanishes where a softmax is confidently wrong, and without a softmax
    the outputs are unbounded; a crossentropy has neither problem.

    How to fix: crossentropy over classes with softmax (or on logits).

    False alarms: distillation and one-hot autoencoders; squared error does learn classes, slowly: a
    suspicion.

    References: DeepLocalize benchmark, posts 48385830, 38648195; DeepFD "wrong loss".
    """

    code = "S008"
    name = "value-loss-on-classes"
    kind = SymptomClass.SUSPICION
    healthy = ONE_HOT
    faulty = ONE_HOT.but(loss="mse")

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a loss."""
        for head in heads(program):
            target = head.target
            if head.loss.target_kind is not TargetKind.REAL or target is None:
                continue
            if not target.one_hot or not target.shape or target.shape[-1] < 3:
                continue
            classes = classes_of(target)
            evidence = [
                Evidence("one-hot target columns", classes or 0, 2, ">"),
                Evidence("loss", head.loss.type, "a crossentropy", "!="),
            ]
            yield self.symptom(
                loss_place(program, head.index),
                evidence,
                f"{head.loss.type} is a loss for real values, but the targets are {classes} "
                "one-hot classes.",
            )
