"""A logarithm or division of 0, a root at 0, an overflowing exponential."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from stethoscope.example import Example
from stethoscope.faults._base import (
    BLOW_UP,
    GROWTH,
    NO_LEARNING,
    POSSIBLE,
    Fault,
    Findings,
    Suspect,
)
from stethoscope.faults._numerics import earliest
from stethoscope.program import Program
from stethoscope.rules._base import loss_place
from stethoscope.rules.update_ratio_too_large import UpdateTooLarge
from stethoscope.types import Change, Fix, Op, Place, Stage, Symptom
from stethoscope.vocabulary import LayerKind


class InvalidOperation(Fault):
    """A logarithm or division of 0, a root at 0, an overflowing exponential.

    Why it is bad: the value or its derivative is not finite, and one update carries that into every
    weight. A root at 0 is 0, but its derivative is infinite: the loss looks fine for one more step.

    How to fix: keep the argument inside the domain (clamp it, or add 1e-7), or use the framework's
    own loss, which computes from logits and needs no logarithm of a probability.
    """

    name = "invalid-operation"
    group = "numerics"
    shown_by = frozenset({"nonfinite-activation", "nonfinite-loss", "nonfinite-gradient"})
    effects = BLOW_UP | NO_LEARNING
    healthy = Example(
        data="binary",
        outputs=1,
        output_activation="relu",
        loss="root_of_squares",
        epsilon=1e-7,
        learning_rate=0.05,
    )
    faulty = healthy.but(epsilon=0.0)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        symptom = earliest(findings)
        if symptom is None or findings.of("nonfinite-input", "nonfinite-target"):
            return
        spec = findings.program.layer(symptom.place.layer or "")
        if spec is not None and spec.kind is LayerKind.RECURRENT:
            return
        small = (
            max((max(r) for r in findings.measured.ratios.values()), default=0.0)
            < UpdateTooLarge.at_once
        )
        grew = findings.of(*GROWTH)
        sure = 0.75 if small and not grew else POSSIBLE - 0.2
        place, message = _place(findings.program, symptom)
        fix = Fix(
            "keep the argument inside the domain: clamp it, or add a small constant (1e-7)",
            Change(Op.WRAP, place.path or "loss", {"epsilon": 1e-7}, place.source),
        )
        why = [
            ("Was the data finite?", "yes"),
            ("Were the steps before it of a usual size?", "yes" if small else "no"),
            ("What was not finite first?", message),
        ]
        yield self.suspect(
            [symptom], place=place, message=message, confidence=sure, fixes=[fix], why=why
        )


def _place(program: Program, symptom: Symptom) -> tuple[Place, str]:
    """Where the operation is, and what to say: the loss, if its derivative is what is infinite."""
    place = symptom.place
    fed = [i for i, loss in enumerate(program.losses) if loss.output == place.layer]
    if place.stage is not Stage.OUTPUT_GRAD or not place.layer or not fed:
        return place, symptom.message
    at = loss_place(program, fed[0])
    place = dataclasses.replace(
        place, kind=at.kind, layer=None, stage=at.stage, path=at.path, source=at.source
    )
    return place, f"The loss is finite, but its derivative is not: {symptom.message}"
