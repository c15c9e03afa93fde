"""A recurrent layer multiplies its state or gradient at every position."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.faults._base import BLOW_UP, NO_LEARNING, Fault, Findings, Suspect
from stethoscope.types import Change, Fix, Op
from stethoscope.vocabulary import LayerKind


class ExplodingRecurrence(Fault):
    """A recurrent layer multiplies its state or gradient at every position."""

    name = "exploding-recurrence"
    group = "numerics"
    shown_by = frozenset({
        "nonfinite-activation", "nonfinite-gradient", "exploding-gradient", "exploding-activation",
    })  # fmt: skip
    effects = BLOW_UP | NO_LEARNING | frozenset({"update-ratio-too-large"})

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        symptoms = [s for s in findings.symptoms if s.name in self.shown_by]
        recurrent = {s.path for s in findings.program.layers if s.kind is LayerKind.RECURRENT}
        hit = [s for s in symptoms if s.place.layer in recurrent]
        if not hit or not findings.program.optimizers:
            return
        source = findings.program.optimizers[0].source
        change = Change(Op.SET, "optimizer.clipnorm", 1.0, source)
        fix = Fix("clip the gradient norm to 1.0", change)
        why = [("Is the layer recurrent?", "yes"), ("What grew?", hit[0].message)]
        yield self.suspect(hit, confidence=0.7, fixes=[fix], why=why)
