"""An output that is no probability, under a loss that takes probabilities."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import ONE_HOT
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule
from stethoscope.rules._output import Head, heads
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import ACTIVATIONS, Expects, TargetKind

_DISTRIBUTIONS = (TargetKind.CLASS_IDS, TargetKind.DISTRIBUTION)


class OutputLossMismatch(ProgramRule):
    """The last activation does not give what the loss takes the logarithm of.

    What it detects: a crossentropy over classes that expects probabilities on an output whose
    activation is not softmax and whose range is not within [0, 1]; a log-likelihood loss on an
    output that is no log-probability; a binary crossentropy on an output without activation.

    Why it is bad: the loss clips or takes the logarithm of numbers that are no probabilities:
    gradients vanish where it clips, and become NaN where it divides by their sum.

    How to fix: give the last layer the activation that the loss expects, or tell the loss that it
    gets logits.

    False alarms: outputs that a custom layer normalizes; an unknown activation is not accused.

    References: UMLAUT (CHI'21) "missing softmax"; NeuraLint; DeepDiagnosis (ICSE'22).
    """

    code = "S002"
    name = "output-loss-mismatch"
    kind = SymptomClass.CONTRADICTION
    healthy = ONE_HOT
    faulty = ONE_HOT.but(output_activation="linear")

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a loss."""
        for head in heads(program):
            need = _need(head)
            if need is None or head.activation is None:
                continue
            where = head.layer.path if head.layer else "the output"
            evidence = [
                Evidence(f"activation of {where}", head.activation, need, "!="),
            ]
            yield self.symptom(
                head.place(program),
                evidence,
                f"{head.loss.type} takes {_WORDS[head.loss.expects or Expects.VALUES]}, but the "
                f"last activation is {head.activation}, which gives none.",
            )


_WORDS = {
    Expects.PROBABILITIES: "probabilities",
    Expects.LOG_PROBABILITIES: "log-probabilities",
    Expects.LOGITS: "logits",
    Expects.VALUES: "values",
}


def _need(head: Head) -> str | None:
    """The activation that is missing; None when nothing is wrong or nothing is known."""
    if head.activation not in ACTIVATIONS:
        return None
    facts = ACTIVATIONS[head.activation]
    kind, expects = head.loss.target_kind, head.loss.expects
    if expects is Expects.LOG_PROBABILITIES and kind in _DISTRIBUTIONS:
        given = head.loss.config.get("log_probabilities")
        return None if facts.is_log or given is True else "log_softmax"
    if expects is not Expects.PROBABILITIES:
        return None
    seen = head.loss.prediction
    if kind in _DISTRIBUTIONS:
        normalized = facts.normalizes or (seen is not None and seen.rows_sum_to_one)
        inside = facts.low >= 0 and facts.high <= 1
        return None if normalized or inside else "softmax"
    if kind is TargetKind.BINARY and head.activation == "linear":
        inside = seen is not None and _within(seen.min, seen.max)
        return None if inside else "sigmoid"
    return None


def _within(low: float | None, high: float | None) -> bool:
    return low is not None and high is not None and low >= 0 and high <= 1
