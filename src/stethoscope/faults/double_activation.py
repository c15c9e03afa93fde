"""The loss applies softmax (or sigmoid) itself, to what already went through it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from stethoscope.example import CLASSIFIER
from stethoscope.faults._base import (
    CERTAIN,
    NO_GRADIENT,
    NO_LEARNING,
    Fault,
    Findings,
    Suspect,
    set_activation,
)
from stethoscope.faults._output_layer import head_at
from stethoscope.rules._base import loss_path
from stethoscope.rules._baseline import trivial_loss
from stethoscope.rules._output import Head
from stethoscope.rules.double_activation import squashed_before
from stethoscope.types import Change, Fix, Op
from stethoscope.vocabulary import TargetKind

NEAR = 0.2  # four fifths of the way from the baseline to the floor


class DoubleActivation(Fault):
    """The loss applies softmax (or sigmoid) itself, to what already went through it."""

    name = "double-activation"
    group = "structure"
    shown_by = frozenset({"double-activation"})
    effects = NO_LEARNING | NO_GRADIENT
    healthy = CLASSIFIER
    faulty = CLASSIFIER.but(output_activation="softmax")

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("double-activation"):
            head = head_at(findings, symptom)
            if head is None:
                continue
            inner = squashed_before(findings.program, head)
            outer, given = head.loss.type, head.activation
            if inner is not None and head.layer is not None:
                outer, given = head.layer.path, inner.activation
                fixes = [set_activation(inner, "linear", f"{outer} takes logits")]
            elif head.layer is not None:
                fixes = [set_activation(head.layer, "linear", f"{outer} takes logits")]
            else:
                change = Change(
                    Op.REMOVE,
                    loss_path(findings.program, head.index, "input.activation"),
                    None,
                    symptom.place.source,
                )
                fixes = [Fix("remove the softmax before the loss", change)]
            why = [
                (f"What does {outer} take?", "logits"),
                ("What is it given?", f"the output of {given or 'a softmax'}"),
            ]
            floor = _floor(head)
            message = symptom.message
            if floor is not None:
                message += f" The loss cannot fall below {floor:.3g}."
                why.append(("How low can the loss fall?", f"to {floor:.4g}, not to 0"))
            yield self.suspect(
                [symptom],
                message=message,
                confidence=CERTAIN,
                fixes=fixes,
                why=why,
                fatal=not _arrived(findings, floor),
            )


def _floor(head: Head) -> float | None:
    """The least loss when what the loss squashes lies between 0 and 1 already.

    For a softmax over C classes the best input is 1 for the right class and 0 for the others:
    -log(e / (e + C - 1)). For a sigmoid it is 1 or 0: log(1 + 1/e) where the target is 1, log 2
    where it is 0.
    """
    if head.loss.target_kind is TargetKind.BINARY:
        if head.target is None or head.target.mean is None:
            return None
        ones = min(max(head.target.mean, 0.0), 1.0)
        return ones * math.log(1 + math.exp(-1)) + (1 - ones) * math.log(2)
    return math.log(math.e + head.units - 1) - 1 if head.units and head.units > 1 else None


def _arrived(findings: Findings, floor: float | None) -> bool:
    """Whether the run has nearly reached the floor: then it learned what it could."""
    level, error = findings.measured.loss.level()
    known = trivial_loss(findings.program)
    if floor is None or known is None or not math.isfinite(error):
        return False
    return level < floor + NEAR * (known.high - floor)
