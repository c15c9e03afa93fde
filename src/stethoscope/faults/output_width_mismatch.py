"""The output has too few units for the classes."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import CLASSIFIER
from stethoscope.faults._base import (
    CERTAIN,
    Fault,
    Findings,
    Suspect,
)
from stethoscope.faults._head import fitting
from stethoscope.faults._output_layer import EFFECTS, claim, head_at, widen


class OutputWidthMismatch(Fault):
    """The output has too few units for the classes."""

    name = "output-width-mismatch"
    group = "structure"
    shown_by = frozenset({"output-width"})
    effects = EFFECTS
    healthy = CLASSIFIER
    faulty = CLASSIFIER.but(outputs=1, loss="binary_crossentropy")

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("output-width"):
            head = head_at(findings, symptom)
            fit = fitting(head) if head else None
            if head is None or fit is None or fit.units is None:
                continue
            why = [("Is there a unit for each class?", f"no: {symptom.message}")]
            yield self.suspect(
                [symptom],
                confidence=CERTAIN,
                fixes=[widen(findings, head, fit)],
                why=why,
                **claim(head),
            )
