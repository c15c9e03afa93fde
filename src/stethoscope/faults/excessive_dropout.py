"""Dropout takes away nearly everything."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import Example
from stethoscope.faults._base import (
    NO_LEARNING,
    POSSIBLE,
    Fault,
    Findings,
    Suspect,
)
from stethoscope.types import Change, Fix, Op


class ExcessiveDropout(Fault):
    """Dropout takes away nearly everything."""

    name = "excessive-dropout"
    group = "structure"
    shown_by = frozenset({"high-dropout-rate"})
    effects = NO_LEARNING
    healthy = Example(dropout=0.2, optimizer="adam", learning_rate=0.003, steps=640)
    faulty = healthy.but(dropout=0.95)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("high-dropout-rate"):
            rate = float(symptom.evidence[0].value)
            path = f"layers[{symptom.place.layer}].rate"
            value = round(1 - rate, 4) if rate > 0.5 else 0.5
            fix = Fix(
                f"dropout rate {rate:g} -> {value:g} (if {rate:g} was the share to keep)",
                Change(Op.SET, path, value, symptom.place.source),
            )
            yield self.suspect([symptom], confidence=POSSIBLE + 0.1, fixes=[fix])
