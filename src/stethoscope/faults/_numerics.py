"""Operations outside their domain, and numbers too large for their type."""

from __future__ import annotations

from stethoscope.faults._base import Findings
from stethoscope.types import Symptom


def earliest(findings: Findings) -> Symptom | None:
    found = findings.of("nonfinite-activation", "nonfinite-loss", "nonfinite-gradient")
    if not found:
        return None
    return min(
        found, key=lambda s: (s.place.step or 0, s.place.stage.position if s.place.stage else 99)
    )
