"""The loss applies softmax (or sigmoid) itself, to what already went through it."""

from __future__ import annotations

from collections.abc import Iterable

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
from stethoscope.types import Change, Fix, Op


class DoubleActivation(Fault):
    """The loss applies softmax (or sigmoid) itself, to what already went through it."""

    name = "double-activation"
    group = "structure"
    shown_by = frozenset({"double-activation"})
    effects = NO_LEARNING | NO_GRADIENT

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("double-activation"):
            head = head_at(findings, symptom)
            if head is None:
                continue
            if head.layer is not None:
                fixes = [set_activation(head.layer, "linear", f"{head.loss.type} takes logits")]
            else:
                change = Change(
                    Op.REMOVE,
                    loss_path(findings.program, head.index, "input.activation"),
                    None,
                    symptom.place.source,
                )
                fixes = [Fix("remove the softmax before the loss", change)]
            why = [
                (f"What does {head.loss.type} take?", "logits"),
                ("What is it given?", f"the output of {head.activation or 'a softmax'}"),
            ]
            yield self.suspect([symptom], confidence=CERTAIN, fixes=fixes, why=why, fatal=True)
