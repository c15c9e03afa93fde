"""An input holds NaN or infinity: one such row makes every weight NaN in one update."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import CLASSIFIER
from stethoscope.faults._base import BLOW_UP, NO_LEARNING, Fault, Findings, Suspect
from stethoscope.faults._nonfinite_data import data_suspect


class NonfiniteInput(Fault):
    """An input holds NaN or infinity: one such row makes every weight NaN in one update."""

    name = "nonfinite-input"
    group = "data"
    shown_by = frozenset({"nonfinite-input"})
    effects = BLOW_UP | NO_LEARNING | frozenset({"nonfinite-target"})
    healthy = CLASSIFIER
    faulty = CLASSIFIER.but(nan_input_at=7)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("nonfinite-input"):
            yield data_suspect(self, symptom.place.path or "data.input[0]", symptom, "input")
