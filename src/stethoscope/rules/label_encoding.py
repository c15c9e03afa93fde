"""Labels that do not fit the loss."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import BINARY
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule, data_place
from stethoscope.rules._output import heads
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import Expects, TargetKind


class LabelEncoding(ProgramRule):
    """The labels are not encoded as the loss takes them.

    What it detects: class ids that are not whole numbers, negative (other than the ignored id), or
    counted from 1 under as many units as classes; labels of a binary loss such as -1/1 or 0/255,
    seen in the whole data or in 20 batches.

    Why it is bad: fractions are cut to whole ids, so all samples get the same class; ids beyond the
    classes are read as none at all; a target of -1 or 255 has no probability to meet.

    How to fix: whole ids from 0, or one-hot rows, or 0/1.

    False alarms: padding ids of a loss that is told the lengths (CTC), and one-hot rows that are
    weighted by a return (policy gradients): neither is read.

    References: DeepLocalize benchmark, post 59325381; TheDeepChecker.
    """

    code = "D005"
    name = "label-encoding"
    kind = SymptomClass.CONTRADICTION
    healthy = BINARY
    faulty = BINARY.but(target_scale=255.0)

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a loss."""
        for head in heads(program):
            target, kind, expects = head.target, head.loss.target_kind, head.loss.expects
            if target is None or target.min is None or target.max is None or expects is None:
                continue
            found: tuple[Evidence, str] | None = None
            if kind is TargetKind.CLASS_IDS and head.loss.name != "ctc":  # it pads with any id
                found = _ids(
                    target.min,
                    target.max,
                    bool(target.integer_valued),
                    head.units,
                    head.loss.ignore_index,
                )
            elif kind is TargetKind.BINARY and expects in (
                Expects.PROBABILITIES,
                Expects.LOGITS,
            ):
                few = target.integer_valued and target.distinct == 2 and target.believable
                if few and (target.min < 0 or target.max > 1):
                    found = (
                        Evidence("labels", f"{target.min:g} and {target.max:g}", "0 and 1", "!="),
                        f"The labels are {target.min:g} and {target.max:g}, but the loss takes 0 "
                        "and 1.",
                    )
            if found is not None:
                yield self.symptom(data_place(program, "target", head.index), [found[0]], found[1])


def _ids(
    low: float, high: float, whole: bool, units: int | None, ignored: int | None
) -> tuple[Evidence, str] | None:
    if not whole:
        return (
            Evidence("class ids", f"{low:.4g}..{high:.4g}", "whole numbers", "!="),
            f"The loss takes whole class ids, but the targets are fractions from {low:.4g} to "
            f"{high:.4g}: they are cut to the same ids.",
        )
    if low < 0 and low != ignored:
        return (
            Evidence("smallest class id", low, 0, "<"),
            f"The smallest class id is {low:g}, but ids count from 0.",
        )
    if units is not None and units > 1 and low == 1 and high == units:
        return (
            Evidence("largest class id", high, units - 1, ">"),
            f"The class ids run from 1 to {high:g}, but with {units} units they count from 0 to "
            f"{units - 1}.",
        )
    return None
