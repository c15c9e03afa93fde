"""Targets that the last activation cannot give."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR, Example
from stethoscope.program import DataSpec, Program
from stethoscope.rules._base import ProgramRule
from stethoscope.rules._output import Head, heads
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import ACTIVATIONS, Expects, TargetKind


def _needed(head: Head) -> tuple[float, float, str] | None:
    """The range that the output must be able to reach, and whose range that is."""
    if head.loss.expects is Expects.VALUES and head.target is not None:
        if head.loss.target_kind is not TargetKind.REAL:
            return None
        if head.target.min is None or head.target.max is None:
            return None
        return head.target.min, head.target.max, "targets"
    return None


def _unreachable(target: DataSpec, low: float, high: float) -> float:
    """A lower bound on the share of targets outside [low, high], from mean, range and spread.

    With the mean itself outside, the share follows from the extreme value: if a share s lies
    outside, the mean of the rest is at most `high`, so s >= (mean - high) / (max - high).
    """
    if target.mean is None or target.min is None or target.max is None:
        return 0.0
    above = (target.mean - high) / (target.max - high) if target.max > high else 0.0
    below = (low - target.mean) / (low - target.min) if target.min < low else 0.0
    return max(above, below, 0.0)


class OutputRange(ProgramRule):
    """Targets lie outside what the last activation can give.

    What it detects: the mean of the targets is outside the closed range of the last activation
    (sigmoid 0..1, tanh -1..1, relu from 0), so most of them cannot be reached; or a binary loss on
    probabilities gets an output that is not kept within 0..1 (relu, tanh).

    Why it is bad: the output saturates at the end of its range and the gradient vanishes; the loss
    stops at the distance between that end and the targets.

    How to fix: no activation for real-valued targets, sigmoid for 0/1 targets, or scale the
    targets into the range.

    False alarms: none where the mean is out of range. Single targets outside are a suspicion of
    another rule.

    References: DeepDiagnosis (ICSE'22) "out of range"; DeepLocalize benchmark, posts 48221692,
    48251943, 44066044.
    """

    code = "S005"
    name = "output-range"
    kind = SymptomClass.CONTRADICTION
    healthy = REGRESSOR
    faulty = Example(
        data="real",
        outputs=1,
        loss="mse",
        from_logits=False,
        learning_rate=0.05,
        output_activation="sigmoid",
        target_scale=20.0,
        target_offset=50.0,
    )

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a loss."""
        for head in heads(program):
            facts = ACTIVATIONS.get(head.activation or "")
            if facts is None or head.activation == "linear":
                continue
            where = head.layer.path if head.layer else "the output"
            needed = _needed(head)
            if needed is not None and head.target is not None:
                low, high, _ = needed
                share = _unreachable(head.target, facts.low, facts.high)
                if share <= 0:
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


class OutputRangeTouched(ProgramRule):
    """Some targets lie outside what the last activation can give.

    What it detects: the smallest or largest target is outside the range of the last activation,
    while their mean is inside.

    Why it is bad: those targets can never be met; their error is a floor of the loss.

    How to fix: as for `output-range`.

    False alarms: outliers and noise around the end of a range are fine: a suspicion.

    References: TheDeepChecker; DeepLocalize benchmark, post 48251943.
    """

    code = "S006"
    name = "output-range-touched"
    kind = SymptomClass.SUSPICION
    healthy = REGRESSOR
    faulty = Example(
        data="real",
        outputs=1,
        loss="mse",
        from_logits=False,
        learning_rate=0.05,
        output_activation="relu",
        target_offset=0.1,
    )

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a loss."""
        for head in heads(program):
            facts = ACTIVATIONS.get(head.activation or "")
            needed = _needed(head)
            if facts is None or needed is None or head.target is None:
                continue
            low, high, _ = needed
            slack = 0.01 * (head.target.std or 0.0)  # rounding at the end of a range is no miss
            outside = low < facts.low - slack or high > facts.high + slack
            if not outside or _unreachable(head.target, facts.low, facts.high) > 0:
                continue
            where = head.layer.path if head.layer else "the output"
            evidence = [
                Evidence(
                    "range of the targets",
                    f"{low:.4g}..{high:.4g}",
                    f"{facts.low:g}..{facts.high:g}",
                    "!=",
                )
            ]
            yield self.symptom(
                head.place(program),
                evidence,
                f"{where} ends in {head.activation}, giving {facts.low:g}..{facts.high:g}, but "
                f"some targets are outside ({low:.4g} to {high:.4g}).",
            )
