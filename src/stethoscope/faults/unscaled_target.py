"""The targets are far from what a fresh network gives, so the first errors are huge."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.faults._base import (
    BLOW_UP,
    LIKELY,
    NO_LEARNING,
    Fault,
    Findings,
    Suspect,
)
from stethoscope.faults._scaling import index_of, scaling


class UnscaledTarget(Fault):
    """The targets are far from what a fresh network gives, so the first errors are huge."""

    name = "unscaled-target"
    group = "data"
    shown_by = frozenset({"unscaled-target"})
    effects = BLOW_UP | NO_LEARNING | frozenset({"dead-units", "update-ratio-too-large"})
    healthy = REGRESSOR.but(optimizer="adam", learning_rate=0.01, steps=320)
    faulty = healthy.but(target_offset=1000.0)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("unscaled-target"):
            index = index_of(symptom.place.path)
            targets = findings.program.targets
            if index >= len(targets):
                continue
            fix = scaling(targets[index], f"data.target[{index}]", symptom.place.source)
            why = [("Are the targets near 1 in size?", f"no: {symptom.evidence[0].value:.4g}")]
            yield self.suspect([symptom], confidence=LIKELY - 0.2, fixes=[fix], why=why)
