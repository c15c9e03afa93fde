"""Softmax over the batch: the outputs of one sample depend on its neighbours."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import ONE_HOT
from stethoscope.faults._base import (
    NO_GRADIENT,
    NO_LEARNING,
    Fault,
    Findings,
    Suspect,
)
from stethoscope.types import Change, Fix, Op


class SoftmaxAxis(Fault):
    """Softmax over the batch: the outputs of one sample depend on its neighbours."""

    name = "softmax-axis"
    group = "structure"
    shown_by = frozenset({"softmax-over-batch"})
    effects = NO_LEARNING | NO_GRADIENT | frozenset({"output-loss-mismatch", "double-activation"})
    healthy = ONE_HOT
    faulty = ONE_HOT.but(softmax_axis=0)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("softmax-over-batch"):
            source = symptom.place.source
            path = f"layers[{symptom.place.layer}].axis"
            fix = Fix("softmax over the last axis (dim=-1)", Change(Op.SET, path, -1, source))
            yield self.suspect([symptom], confidence=0.97, fixes=[fix], fatal=True)
