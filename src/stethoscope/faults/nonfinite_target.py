"""A target holds NaN or infinity: the loss of its sample, and then every weight, is NaN."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.faults._base import BLOW_UP, NO_LEARNING, Fault, Findings, Suspect
from stethoscope.faults._nonfinite_data import data_suspect


class NonfiniteTarget(Fault):
    """A target holds NaN or infinity: the loss of its sample, and then every weight, is NaN."""

    name = "nonfinite-target"
    group = "data"
    shown_by = frozenset({"nonfinite-target"})
    effects = BLOW_UP | NO_LEARNING
    healthy = REGRESSOR
    faulty = REGRESSOR.but(inf_target_at=7)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("nonfinite-target"):
            yield data_suspect(self, symptom.place.path or "data.target[0]", symptom, "target")
