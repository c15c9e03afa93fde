"""Many hidden layers in a row saturate."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import CLASSIFIER
from stethoscope.program import LayerSpec, Program
from stethoscope.rules._base import ProgramRule, activation_place
from stethoscope.rules._chain import LONGEST, saturating_chain
from stethoscope.types import Evidence, Symptom, SymptomClass


class SaturatingStack(ProgramRule):
    """Many hidden layers in a row saturate.

    What it detects: at least 4 sigmoid, or 8 tanh, layers in a row without normalization or a
    shortcut between.

    Why it is bad: the derivative of a sigmoid is at most 1/4: each layer divides the gradient by 4
    or more, so the first layers get almost none.

    How to fix: relu or gelu in the hidden layers, with He initialization; or batch normalization.

    False alarms: gates of recurrent layers are not read. Short stacks learn: a suspicion.

    References: Glorot and Bengio 2010; AUTOTRAINER "vanishing gradient".
    """

    code = "S011"
    name = "saturating-stack"
    kind = SymptomClass.SUSPICION
    healthy = CLASSIFIER.but(hidden=(16,) * 6, steps=320)
    faulty = healthy.but(activation="sigmoid")

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom, at the first layer of the longest chain."""
        best: list[LayerSpec] = []
        for spec in program.layers:
            found = saturating_chain(program, spec)
            if len(found) > len(best):
                best = found
        if not best or best[0].activation is None:
            return
        name = best[0].activation
        if len(best) < LONGEST[name]:
            return
        evidence = [Evidence(f"{name} layers in a row", len(best), LONGEST[name] - 1, ">")]
        yield self.symptom(
            activation_place(program, best[0].path),
            evidence,
            f"{len(best)} {name} layers in a row ({best[0].path} to {best[-1].path}): each "
            "one shrinks the gradient.",
        )
