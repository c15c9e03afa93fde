"""More classes than output units."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import CLASSIFIER
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule
from stethoscope.rules._baseline import is_class_ids
from stethoscope.rules._output import heads
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import TargetKind


class OutputWidth(ProgramRule):
    """The output has fewer units than the targets have classes.

    What it detects: class ids up to k under an output of fewer than k + 1 units; one unit with a
    binary loss under whole-number targets of three or more classes.

    Why it is bad: the classes beyond the width cannot be named at all.

    How to fix: as many units as classes, with softmax and a crossentropy over classes.

    False alarms: ids that start at 1 with exactly as many units as classes are told by
    `label-encoding`, since there the labels are off by one.

    References: NeuraLint; DeepLocalize benchmark, post 50079585.
    """

    code = "S007"
    name = "output-width"
    kind = SymptomClass.CONTRADICTION
    healthy = CLASSIFIER
    faulty = CLASSIFIER.but(outputs=1, loss="binary_crossentropy")

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a loss."""
        for head in heads(program):
            target = head.target
            if target is None or target.max is None or not head.units:
                continue
            if not is_class_ids(target):
                continue
            kind = head.loss.target_kind
            classes = int(target.max) + 1
            off_by_one = target.min == 1 and classes - 1 == head.units
            if kind is TargetKind.BINARY and head.units == 1 and classes > 2:
                pass
            elif kind is not TargetKind.CLASS_IDS or head.units >= classes or off_by_one:
                continue
            evidence = [Evidence("units of the output", head.units, classes, "<")]
            yield self.symptom(
                head.place(program),
                evidence,
                f"The targets name {classes} classes, but the output has {head.units} "
                f"unit{'s' if head.units > 1 else ''}.",
            )
