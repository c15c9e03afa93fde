"""A logarithm or division of 0, a root at 0, an overflowing exponential."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.faults._base import (
    BLOW_UP,
    GROWTH,
    NO_LEARNING,
    POSSIBLE,
    Fault,
    Findings,
    Suspect,
)
from stethoscope.faults._numerics import earliest
from stethoscope.rules.update_ratio_too_large import UpdateTooLarge
from stethoscope.types import Change, Fix, Op
from stethoscope.vocabulary import LayerKind


class InvalidOperation(Fault):
    """A logarithm or division of 0, a root at 0, an overflowing exponential."""

    name = "invalid-operation"
    group = "numerics"
    shown_by = frozenset({"nonfinite-activation", "nonfinite-loss", "nonfinite-gradient"})
    effects = BLOW_UP | NO_LEARNING

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        symptom = earliest(findings)
        if symptom is None or findings.of("nonfinite-input", "nonfinite-target"):
            return
        spec = findings.program.layer(symptom.place.layer or "")
        if spec is not None and spec.kind is LayerKind.RECURRENT:
            return
        small = (
            max((max(r) for r in findings.measured.ratios.values()), default=0.0)
            < UpdateTooLarge.at_once
        )
        grew = findings.of(*GROWTH)
        sure = 0.75 if small and not grew else POSSIBLE - 0.2
        path = symptom.place.path or "loss"
        fix = Fix(
            "keep the argument inside the domain: clamp it, or add a small constant (1e-7)",
            Change(Op.WRAP, path, {"epsilon": 1e-7}, symptom.place.source),
        )
        why = [
            ("Was the data finite?", "yes"),
            ("Were the steps before it of a usual size?", "yes" if small else "no"),
            ("What was not finite first?", symptom.message),
        ]
        yield self.suspect([symptom], confidence=sure, fixes=[fix], why=why)
