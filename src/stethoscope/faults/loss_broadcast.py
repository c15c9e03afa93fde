"""A loss over all pairs of a batch."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.faults._base import LIKELY, NO_LEARNING, Fault, Findings, Suspect
from stethoscope.rules._base import loss_place
from stethoscope.types import Change, Fix, Op


class LossBroadcast(Fault):
    """Prediction and target broadcast to a table; the best answer is the mean for everyone."""

    name = "loss-broadcast"
    group = "structure"
    shown_by = frozenset({"loss-broadcast"})
    effects = NO_LEARNING | frozenset({"update-ratio-too-small", "unscaled-target"})
    healthy = REGRESSOR.but(loss="broadcast_squares")
    faulty = healthy.but(flat_prediction=True)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        program = findings.program
        # Of a formula that is not recognised, all pairs may be meant (an energy distance).
        unknown = {
            loss_place(program, index).path
            for index, loss in enumerate(program.losses)
            if loss.name is None
        }
        for symptom in findings.of("loss-broadcast"):
            known = symptom.place.path not in unknown
            source = symptom.place.source
            shape = next((e.bound for e in symptom.evidence if e.relation == "!="), "")
            fix = Fix(
                f"give both the same shape: reshape the prediction to {shape}, as the target is",
                Change(Op.SET, f"{symptom.place.path}.prediction_shape", str(shape), source),
            )
            why = [("Do prediction and target have the same shape?", f"no: {symptom.message}")]
            sure = 0.99 if known else LIKELY
            yield self.suspect([symptom], confidence=sure, fixes=[fix], why=why, fatal=known)
