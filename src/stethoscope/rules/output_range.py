"""Targets lie outside what the last activation can give."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule
from stethoscope.rules._output import Head, heads
from stethoscope.rules._range import LEAST_SHARE, is_out_of_range, needed_range, unreachable_share
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import ACTIVATIONS, Expects, TargetKind


class OutputRange(ProgramRule):
    """Targets lie outside what the last activation can give.

    What it detects: at least a tenth of the targets, by their mean and range, are outside the range
    of the last activation (sigmoid 0..1, tanh -1..1, relu from 0); or a binary loss on
    probabilities gets an output that is not kept within 0..1 (relu, tanh).

    Why it is bad: the output saturates at the end of its range and the gradient vanishes; the loss
    stops at the distance between that end and the targets.

    How to fix: no activation for real-valued targets, sigmoid for 0/1 targets, or scale the
    targets into the range.

    False alarms: single targets outside are a suspicion of another rule; losses whose prediction is
    no estimate of the target (cosine similarity, Poisson on logarithms) are left out.

    References: DeepDiagnosis (ICSE'22) "out of range"; DeepLocalize benchmark, posts 48221692,
    48251943, 44066044.
    """

    code = "S005"
    name = "output-range"
    kind = SymptomClass.CONTRADICTION
    healthy = REGRESSOR.but(target_scale=2.0, target_offset=3.0)
    faulty = healthy.but(output_activation="sigmoid")

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a loss."""
        for head in heads(program):
            facts = ACTIVATIONS.get(head.activation or "")
            if facts is None or head.activation == "linear":
                continue
            where = head.layer.path if head.layer else "the output"
            needed = needed_range(head)
            if needed is not None and head.target is not None:
                low, high = needed
                if not is_out_of_range(head.target, facts.low, facts.high):
                    continue
                evidence = [
                    Evidence(
                        "mean of the targets",
                        head.target.mean or 0.0,
                        f"{facts.low:g}..{facts.high:g}",
                        "!=",
                    ),
                    Evidence(
                        "range of the targets",
                        f"{low:.4g}..{high:.4g}",
                        f"{facts.low:g}..{facts.high:g}",
                        "!=",
                    ),
                ]
                if head.target.believable:
                    share = unreachable_share(head.target, facts.low, facts.high)
                    what = "share of the targets outside, at least"
                    evidence.append(Evidence(what, share, LEAST_SHARE, ">"))
                message = (
                    f"{where} ends in {head.activation}, giving {facts.low:g}..{facts.high:g}, "
                    f"but the targets run from {low:.4g} to {high:.4g}."
                )
                yield self.symptom(head.place(program), evidence, message)
            elif self._leaves_unit_interval(head):
                evidence = [
                    Evidence(
                        f"range of {head.activation}",
                        f"{facts.low:g}..{facts.high:g}",
                        "0..1",
                        "!=",
                    )
                ]
                yield self.symptom(
                    head.place(program),
                    evidence,
                    f"{head.loss.type} takes probabilities between 0 and 1, but {where} ends in "
                    f"{head.activation}, which gives {facts.low:g}..{facts.high:g}.",
                )

    @staticmethod
    def _leaves_unit_interval(head: Head) -> bool:
        facts = ACTIVATIONS[head.activation or "linear"]
        binary = head.loss.target_kind is TargetKind.BINARY
        probabilities = head.loss.expects is Expects.PROBABILITIES
        return binary and probabilities and (facts.low < 0 or facts.high > 1)
