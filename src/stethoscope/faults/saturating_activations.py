"""A stack of sigmoids (or tanhs): each layer takes most of the gradient away."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import Example
from stethoscope.faults._base import (
    LIKELY,
    NO_GRADIENT,
    NO_LEARNING,
    Fault,
    Findings,
    Suspect,
    set_activation,
)
from stethoscope.rules._chain import saturating_chain
from stethoscope.types import Fix


class SaturatingActivations(Fault):
    """A stack of sigmoids (or tanhs): each layer takes most of the gradient away."""

    name = "saturating-activations"
    group = "structure"
    shown_by = frozenset({"saturating-stack"})
    effects = NO_LEARNING | NO_GRADIENT | frozenset({"saturated-activation"})
    healthy = Example(hidden=(16,) * 8, steps=320)
    faulty = healthy.but(activation="sigmoid")

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("saturating-stack"):
            program = findings.program
            first = program.layer(symptom.place.layer or "")
            specs = saturating_chain(program, first) if first is not None else []
            if not specs:
                continue
            name = specs[0].activation or "sigmoid"
            changes = [set_activation(spec, "relu", "").change for spec in specs]
            title = f'activation "{name}" -> "relu" in {specs[0].path} to {specs[-1].path}'
            vanished = findings.of("vanishing-gradient", "unchanged-weight")
            why = [
                (f"How many {name} layers follow each other?", str(len(specs))),
                (
                    "Does the gradient reach the first of them?",
                    f"hardly: {vanished[0].message}" if vanished else "weakly",
                ),
            ]
            yield self.suspect(
                [symptom],
                confidence=0.92 if vanished else LIKELY,
                fixes=[Fix(title, changes[0], tuple(changes[1:]))],
                why=why,
            )
