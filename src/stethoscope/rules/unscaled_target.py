"""Real-valued targets are far from 1 in scale."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule, data_place
from stethoscope.rules._baseline import is_class_ids
from stethoscope.rules._output import heads
from stethoscope.rules._scale import rms
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import Expects, TargetKind


class UnscaledTarget(ProgramRule):
    """Real-valued targets are far from 1 in scale.

    What it detects: a squared or absolute error on targets with a root mean square above 10.

    Why it is bad: the first errors are as large as the targets, and the gradient of a squared
    error grows with them: a rate that fits targets near 1 blows up, or the output needs a very
    long time to arrive.

    How to fix: standardize the targets, and scale the predictions back; or take a smaller rate.

    False alarms: an adaptive optimizer often learns anyway: a suspicion.

    References: TheDeepChecker; DeepLocalize benchmark, posts 48934338, 52800582.
    """

    code = "D004"
    name = "unscaled-target"
    kind = SymptomClass.SUSPICION
    healthy = REGRESSOR.but(optimizer="adam", learning_rate=0.01)
    faulty = healthy.but(target_offset=1000.0)

    large = 10.0  # the output of a fresh network is near 1

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a target."""
        for head in heads(program):
            if head.target is None or head.loss.expects is not Expects.VALUES:
                continue
            if head.loss.target_kind is not TargetKind.REAL or is_class_ids(head.target):
                continue
            size = rms(head.target)
            if size is None or size <= self.large:
                continue
            low, high = head.target.min, head.target.max
            evidence = [Evidence("root mean square of the targets", size, self.large, ">")]
            yield self.symptom(
                data_place(program, "target", head.index),
                evidence,
                f"The targets run from {low:.4g} to {high:.4g}; the output of a fresh network is "
                "near 1.",
            )
