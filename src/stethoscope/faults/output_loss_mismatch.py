"""The loss takes probabilities and the last layer gives none."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import ONE_HOT
from stethoscope.faults._base import (
    CERTAIN,
    POSSIBLE,
    Fault,
    Findings,
    Suspect,
    set_activation,
    set_to,
)
from stethoscope.faults._output_layer import EFFECTS, head_at
from stethoscope.rules._base import loss_path


class OutputLossMismatch(Fault):
    """The loss takes probabilities and the last layer gives none."""

    name = "output-loss-mismatch"
    group = "structure"
    shown_by = frozenset({"output-loss-mismatch", "competing-labels"})
    effects = EFFECTS | frozenset({"output-range-touched"})
    healthy = ONE_HOT
    faulty = ONE_HOT.but(output_activation="linear")

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("output-loss-mismatch", "competing-labels"):
            head = head_at(findings, symptom)
            if head is None or head.layer is None:
                continue
            need = str(next(e.bound for e in symptom.evidence if e.relation == "!="))
            fixes = [set_activation(head.layer, need, f"{head.loss.type} takes it")]
            if head.activation == "linear":
                fixes.append(
                    set_to(
                        loss_path(findings.program, head.index, "from_logits"),
                        True,
                        head.loss.source,
                        f"tell {head.loss.type} that it gets logits",
                    )
                )
            sure = CERTAIN if symptom.name == "output-loss-mismatch" else POSSIBLE
            why = [
                (f"What does {head.loss.type} take?", str(head.loss.expects)),
                ("What does the last activation give?", head.activation or "unknown"),
            ]
            yield self.suspect([symptom], confidence=sure, fixes=fixes, why=why)
