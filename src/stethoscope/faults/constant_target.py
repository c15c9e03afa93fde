"""All targets are the same, so the input does not matter."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.faults._base import (
    LIKELY,
    Fault,
    Findings,
    Suspect,
)
from stethoscope.types import Change, Fix, Op


class ConstantTarget(Fault):
    """All targets are the same, so the input does not matter."""

    name = "constant-target"
    group = "data"
    shown_by = frozenset({"constant-target"})
    effects = frozenset({"collapsed-output", "unchanged-weight", "metric-not-increasing"})
    healthy = REGRESSOR
    faulty = REGRESSOR.but(target_scale=0.0, target_offset=2.0)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("constant-target"):
            path = symptom.place.path or "data.target[0]"
            fix = Fix(
                "look at how the targets are read, cast or divided: all are the same",
                Change(Op.WRAP, path, "targets as they were before the cast", symptom.place.source),
            )
            yield self.suspect([symptom], confidence=LIKELY, fixes=[fix])
