"""Dropout removes most of what it gets."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import CLASSIFIER
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule, layer_place
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import LayerKind


class ExcessiveDropout(ProgramRule):
    """Dropout removes most of what it gets.

    What it detects: a rate above 0.75.

    Why it is bad: more than three of four activations are lost at every step; what is left is
    mostly noise. Often the share to keep was meant.

    How to fix: a rate of 0.2 to 0.5.

    False alarms: dropout on inputs of very wide, redundant models: a suspicion.

    References: UMLAUT (CHI'21); NeuraLint.
    """

    code = "S014"
    name = "high-dropout-rate"
    kind = SymptomClass.SUSPICION
    healthy = CLASSIFIER.but(dropout=0.2, optimizer="adam", learning_rate=0.003, steps=640)
    faulty = healthy.but(dropout=0.95)

    high = 0.75  # Srivastava et al. 2014 use 0.2 to 0.5; UMLAUT's users confused keep and drop

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a layer."""
        for spec in program.layers:
            rate = spec.config.get("rate", spec.config.get("p"))
            if spec.kind is not LayerKind.DROPOUT or not isinstance(rate, (int, float)):
                continue
            if rate > self.high:
                evidence = [Evidence(f"rate of {spec.path}", float(rate), self.high, ">")]
                yield self.symptom(
                    layer_place(program, spec.path),
                    evidence,
                    f"{spec.path} drops {rate:.0%} of what it gets.",
                )
