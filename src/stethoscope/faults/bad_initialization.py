"""The weights that the run started from stop it."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import CLASSIFIER
from stethoscope.faults._base import (
    BLOW_UP,
    NO_GRADIENT,
    NO_LEARNING,
    POSSIBLE,
    Fault,
    Findings,
    Suspect,
)
from stethoscope.faults._hidden_layers import is_shut
from stethoscope.program import LayerSpec
from stethoscope.types import Change, Fix, Op, Place
from stethoscope.vocabulary import LayerKind


class BadInitialization(Fault):
    """The weights that the run started from stop it."""

    name = "bad-initialization"
    group = "structure"
    shown_by = frozenset({"initialization"})
    effects = NO_LEARNING | NO_GRADIENT | BLOW_UP | frozenset({
        "dead-units", "saturated-activation", "update-ratio-too-large", "update-ratio-too-small",
    })  # fmt: skip
    healthy = CLASSIFIER
    faulty = CLASSIFIER.but(bias=-10.0)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        symptoms = findings.of("initialization")
        for symptom in symptoms:
            spec = findings.program.layer(symptom.place.layer or "")
            if spec is None:
                continue
            fix = _initializer(spec, symptom.place.param or "", symptom.place)
            why = [("Did the weights start at a usual scale?", f"no: {symptom.message}")]
            acting = findings.program.activation_after(spec.path)
            paths = {spec.path} | ({acting[1].path} if acting else set())
            stuck = [
                s
                for s in findings.of("dead-units", "saturated-activation")
                if s.place.layer in paths
            ]
            yield self.suspect(
                [symptom, *stuck],
                confidence=0.9 if stuck else POSSIBLE + 0.1,
                fixes=[fix],
                why=why,
                fatal=bool(stuck) and is_shut(findings),
            )


def _initializer(spec: LayerSpec, param: str, place: Place) -> Fix:
    if len(spec.params.get(param, ())) < 2:
        change = Change(Op.SET, f"layers[{spec.path}].{param}", 0.0, place.source)
        return Fix(f"start {spec.path}/{param} at 0", change)
    he = spec.activation not in ("sigmoid", "tanh", "softmax")
    name = "he_normal" if he and spec.kind is not LayerKind.RECURRENT else "glorot_uniform"
    change = Change(Op.SET, f"layers[{spec.path}].{param}_initializer", name, place.source)
    return Fix(f"initialize {spec.path}/{param} with {name}", change)
