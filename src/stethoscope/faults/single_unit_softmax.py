"""Softmax over one unit is constant."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import BINARY
from stethoscope.faults._base import (
    Fault,
    Findings,
    Suspect,
    set_activation,
)
from stethoscope.faults._head import fitting
from stethoscope.faults._output_layer import EFFECTS, widen
from stethoscope.rules._output import Head, heads


class SingleUnitSoftmax(Fault):
    """Softmax over one unit is constant."""

    name = "single-unit-softmax"
    group = "structure"
    shown_by = frozenset({"single-unit-softmax"})
    effects = EFFECTS | frozenset({"output-range", "output-range-touched", "saturated-activation"})
    healthy = BINARY.but(output_activation="sigmoid", from_logits=False)
    faulty = healthy.but(output_activation="softmax")

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("single-unit-softmax"):
            spec = findings.program.layer(symptom.place.layer or "")
            if spec is None:
                continue
            head = _head_of(findings, spec.path)
            fit = fitting(head) if head else None
            activation = fit.activation if fit and fit.activation != "softmax" else "sigmoid"
            words = fit.why if fit else "one unit"
            if fit is None or fit.units in (None, 1):
                fixes = [set_activation(spec, activation, words)]
            else:
                fixes = [widen(findings, head, fit)] if head else []
            why = [("How many units does softmax run over?", "1"), ("What are the targets?", words)]
            yield self.suspect([symptom], confidence=0.99, fixes=fixes, why=why, fatal=True)


def _head_of(findings: Findings, layer: str) -> Head | None:
    return next(
        (h for h in heads(findings.program) if h.layer is not None and h.layer.path == layer), None
    )
