"""Some targets lie outside what the last activation can give."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule
from stethoscope.rules._output import heads
from stethoscope.rules._range import is_out_of_range, needed_range
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import ACTIVATIONS


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
    healthy = REGRESSOR.but(target_offset=0.1)
    faulty = healthy.but(output_activation="relu")

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a loss."""
        for head in heads(program):
            facts = ACTIVATIONS.get(head.activation or "")
            needed = needed_range(head)
            if facts is None or needed is None or head.target is None:
                continue
            low, high = needed
            slack = 0.01 * (head.target.std or 0.0)  # rounding at the end of a range is no miss
            outside = low < facts.low - slack or high > facts.high + slack
            if not outside or is_out_of_range(head.target, facts.low, facts.high):
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
