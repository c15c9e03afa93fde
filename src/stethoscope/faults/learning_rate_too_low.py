"""The weights hardly move."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import CLASSIFIER
from stethoscope.faults._base import (
    NO_LEARNING,
    Fault,
    Findings,
    Suspect,
    set_to,
)
from stethoscope.faults._rate import FAR_OFF, GOOD_RATIO, LEAST_CUT, stable_rate, two_digits


class LearningRateTooLow(Fault):
    """The weights hardly move."""

    name = "learning-rate-too-low"
    group = "hyper-parameters"
    shown_by = frozenset({"update-ratio-too-small"})
    effects = NO_LEARNING
    healthy = CLASSIFIER
    faulty = CLASSIFIER.but(learning_rate=1e-6)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        measured = findings.measured
        for symptom in findings.of("update-ratio-too-small"):
            first = measured.first_ratio()
            if not findings.program.optimizers or first is None:
                continue
            if findings.of("vanishing-gradient"):
                continue  # small steps are then the effect of small gradients
            if first[1] * _excess(findings) > float(symptom.evidence[0].bound):
                continue  # against weights of a usual size the steps would be usual too
            if measured.rates[1] > 1.01 * measured.rates[0]:
                continue  # a warm-up: the rate is still on its way
            rate = two_digits(stable_rate(findings))
            if rate < LEAST_CUT * measured.rates[0]:
                continue  # the first steps were of a usual size: what is small came later
            spec = findings.program.optimizers[0]
            fix = set_to(
                "optimizer.learning_rate",
                rate,
                spec.rate_source or spec.source,
                f"learning_rate {measured.rates[0]:.4g} -> {rate:g} (a step then moves the kernels "
                f"by about {GOOD_RATIO:g} of their size)",
            )
            why = [("How far does one step move a kernel?", f"{first[1]:.2g} of its size")]
            far_off = first[1] < FAR_OFF * float(symptom.evidence[0].bound)
            yield self.suspect([symptom], confidence=0.8, fixes=[fix], why=why, counter=far_off)


def _excess(findings: Findings) -> float:
    """How many times larger than usual the largest initial weights are; 1 where none was told."""
    told = [s.evidence[0] for s in findings.of("initialization")]
    return max([float(e.value) for e in told if e.relation == ">"], default=1.0)
