"""The last activation cannot give what the targets are."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.faults._base import (
    CERTAIN,
    POSSIBLE,
    Fault,
    Findings,
    Suspect,
    set_activation,
)
from stethoscope.faults._head import fitting
from stethoscope.faults._output_layer import EFFECTS, claim, head_at
from stethoscope.vocabulary import Expects


class OutputRangeMismatch(Fault):
    """The last activation cannot give what the targets are."""

    name = "output-range-mismatch"
    group = "structure"
    shown_by = frozenset({"output-range", "output-range-touched"})
    effects = EFFECTS | frozenset({"unscaled-target", "saturated-activation"})
    healthy = REGRESSOR.but(learning_rate=0.02, target_offset=3.0)
    faulty = healthy.but(output_activation="sigmoid")

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("output-range", "output-range-touched"):
            head = head_at(findings, symptom)
            if head is None or head.layer is None:
                continue
            fit = fitting(head)
            activation = fit.activation if fit else "linear"
            if head.loss.expects is Expects.VALUES:
                activation = "linear"
            fixes = [set_activation(head.layer, activation, fit.why if fit else "targets are real")]
            sure = CERTAIN if symptom.name == "output-range" else POSSIBLE
            why = [("Can the last activation give the targets?", f"no: {symptom.message}")]
            yield self.suspect(
                [symptom],
                confidence=sure,
                fixes=fixes,
                why=why,
                **claim(head, fatal=symptom.name == "output-range"),
            )
