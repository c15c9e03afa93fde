"""Sigmoid under a crossentropy over classes, softmax under one over independent labels."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import BINARY
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule
from stethoscope.rules._output import heads
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import Expects, TargetKind


class CompetingLabels(ProgramRule):
    """The last activation treats classes as labels, or labels as classes.

    What it detects: sigmoid outputs under a crossentropy over exclusive classes; softmax outputs
    under a binary crossentropy, or under a crossentropy whose target rows hold several ones.

    Why it is bad: with sigmoid the classes do not compete, so the loss can be lowered by raising
    the right output alone or (where it is normalized) only their ratio matters and all may
    saturate; with softmax, labels that are on together cannot both be near 1.

    How to fix: softmax for exclusive classes, sigmoid with binary crossentropy for labels.

    False alarms: Keras 3 renormalizes sigmoid outputs and such models often learn: a suspicion.

    References: DeepLocalize benchmark, posts 45337371, 51930566, 44164749.
    """

    code = "S003"
    name = "competing-labels"
    kind = SymptomClass.SUSPICION
    healthy = BINARY.but(data="labels", outputs=3, output_activation="sigmoid", from_logits=False)
    faulty = healthy.but(output_activation="softmax")

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a loss."""
        for head in heads(program):
            if head.loss.expects is not Expects.PROBABILITIES or not head.units or head.units < 2:
                continue
            kind, target = head.loss.target_kind, head.target
            exclusive = kind in (TargetKind.CLASS_IDS, TargetKind.DISTRIBUTION)
            several = (
                target is not None
                and target.integer_valued
                and target.rows_sum_to_one is False
                and target.max == 1
                and target.shape is not None
                and target.shape[-1:] == (head.units,)
            )
            where = head.layer.path if head.layer else "the output"
            if head.activation in ("sigmoid", "hard_sigmoid") and exclusive and not several:
                need, message = (
                    "softmax",
                    "Sigmoid outputs do not compete, but the loss is over exclusive classes.",
                )
            elif head.activation == "softmax" and several:
                need, message = (
                    "sigmoid",
                    "Softmax makes the outputs sum to 1, but a row may hold several labels.",
                )
            elif head.activation == "softmax" and kind is TargetKind.BINARY:
                need, message = (
                    "sigmoid",
                    "Softmax outputs compete, but binary crossentropy takes each one alone.",
                )
                if target is not None and target.rows_sum_to_one:
                    continue  # exclusive one-hot classes under binary crossentropy do learn
            else:
                continue
            evidence = [Evidence(f"activation of {where}", head.activation, need, "!=")]
            yield self.symptom(head.place(program), evidence, message)
