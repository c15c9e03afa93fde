"""A loss over all pairs of a batch."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.faults._base import NO_LEARNING, Fault, Findings, Suspect
from stethoscope.types import Change, Fix, Op


class LossBroadcast(Fault):
    """Prediction and target broadcast to a table; the best answer is the mean for everyone."""

    name = "loss-broadcast"
    group = "structure"
    shown_by = frozenset({"loss-broadcast"})
    effects = NO_LEARNING | frozenset({"update-ratio-too-small", "unscaled-target"})

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("loss-broadcast"):
            source = symptom.place.source
            shape = next((e.bound for e in symptom.evidence if e.relation == "!="), "")
            fix = Fix(
                f"give both the same shape: reshape the prediction to {shape}, as the target is",
                Change(Op.SET, f"{symptom.place.path}.prediction_shape", str(shape), source),
            )
            why = [("Do prediction and target have the same shape?", f"no: {symptom.message}")]
            yield self.suspect([symptom], confidence=0.99, fixes=[fix], why=why, fatal=True)
