"""A learning rate that is too high, too low or 0."""

from __future__ import annotations

import math
from collections.abc import Iterable

from stethoscope.faults._base import (
    BLOW_UP,
    NO_GRADIENT,
    NO_LEARNING,
    Fault,
    Findings,
    Suspect,
    set_to,
)
from stethoscope.faults._measure import Measurements
from stethoscope.program import Program
from stethoscope.rules._base import optimizer_place
from stethoscope.types import Fix, Place, SymptomClass

GOOD_RATIO = 1e-2  # first steps of runs that learn well: swept over rates, the best ones are here
FAR_OFF = 0.1  # beyond the bound of the rule by a factor of ten: a figure against the rate
TOO_LARGE = 0.1  # as in the rule `update-ratio-too-large`
LEAST_CUT = 3.0  # a rate that blew up is at least this factor too high


class LearningRateTooHigh(Fault):
    """Each step overshoots: the loss jumps or blows up instead of falling."""

    name = "learning-rate-too-high"
    group = "hyper-parameters"
    shown_by = frozenset({"update-ratio-too-large", *BLOW_UP})
    effects = BLOW_UP | NO_LEARNING | NO_GRADIENT | frozenset({
        "dead-units", "saturated-activation", "update-ratio-too-large",
    })  # fmt: skip

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        measured, program = findings.measured, findings.program
        too_large = findings.of("update-ratio-too-large")
        blown = [s for s in findings.symptoms if s.name in BLOW_UP]
        first = measured.first_ratio()
        if not program.optimizers or first is None or not (too_large or blown):
            return
        slot, ratio = first
        early = max(max(r) for r in measured.ratios.values())
        jumps = _jumped(measured)
        if not too_large and early < 0.03:
            return  # the steps were small: something else blew up
        symptoms = sorted(too_large + blown, key=lambda s: s.place.step or 0)
        steps_before = min(s.place.step or 0 for s in symptoms)
        sure = 0.55
        sure += 0.2 if early > 0.3 else 0.0
        sure += 0.15 if jumps else 0.0
        large = _input_size(findings)
        by_inputs = ratio / large**2 < TOO_LARGE
        if by_inputs and large > 1:
            sure = 0.4
        why = [
            (
                "How far does one step move a kernel?",
                f"{ratio:.2g} of its size ({slot.layer}/{slot.param}); 0.001 to 0.01 is usual",
            ),
            ("Did the loss jump?", "yes" if jumps else "no"),
            (
                "Would it be that far with inputs near 1?",
                f"{'no' if by_inputs else 'yes'}: they are {large:.3g} in size",
            ),
        ]
        place = _place(program, max(steps_before, 0))
        yield self.suspect(
            symptoms,
            place=place,
            message=(
                f"With a learning rate of {measured.rates[0]:.4g} one step moves "
                f"{slot.layer}/{slot.param} by {early:.2g} of its size, so steps overshoot."
            ),
            confidence=min(sure, 0.95),
            fixes=[lower_rate(findings)],
            why=why,
            counter=bool(too_large) and ratio * FAR_OFF > TOO_LARGE,
            kind=SymptomClass.SUSPICION,
        )


class LearningRateTooLow(Fault):
    """The weights hardly move."""

    name = "learning-rate-too-low"
    group = "hyper-parameters"
    shown_by = frozenset({"update-ratio-too-small"})
    effects = NO_LEARNING

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        measured = findings.measured
        for symptom in findings.of("update-ratio-too-small"):
            first = measured.first_ratio()
            if not findings.program.optimizers or first is None:
                continue
            if findings.of("vanishing-gradient"):
                continue  # small steps are then the effect of small gradients
            rate = _round(stable_rate(findings))
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


class LearningRateZero(Fault):
    """The learning rate is 0."""

    name = "learning-rate-zero"
    group = "hyper-parameters"
    shown_by = frozenset({"zero-learning-rate"})
    effects = NO_LEARNING | NO_GRADIENT

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("zero-learning-rate"):
            spec = findings.program.optimizers[0] if findings.program.optimizers else None
            adaptive = spec is not None and spec.name.startswith(("adam", "nadam", "rmsprop"))
            rate = 1e-3 if adaptive else 1e-2
            fix = set_to(
                "optimizer.learning_rate",
                rate,
                symptom.place.source,
                f"learning_rate 0 -> {rate:g}, and look at what the schedule gives here",
            )
            yield self.suspect([symptom], confidence=0.99, fixes=[fix], fatal=True)


def lower_rate(findings: Findings) -> Fix:
    """A rate with which the steps are of a usual size, from the run's own first steps."""
    spec = findings.program.optimizers[0]
    now = findings.measured.rates[0]
    rate = _round(min(stable_rate(findings), now / LEAST_CUT))
    return set_to(
        "optimizer.learning_rate",
        rate,
        spec.rate_source or spec.source,
        f"learning_rate {now:.4g} -> {rate:g} (from the size of the first steps)",
    )


def stable_rate(findings: Findings) -> float:
    """The learning rate that brings the first step of the fastest kernel to `GOOD_RATIO`.

    The first gradient does not depend on the rate, so the ratio is exactly proportional to it.
    Where the targets are large, the weights have to grow until the output is as large, each of
    the n kernels by the n-th root; the step is held against the weight that it leads to.
    """
    first = findings.measured.first_ratio()
    if first is None or not first[1] > 0:
        return findings.measured.rates[0] / LEAST_CUT
    growth = 1.0
    targets = findings.program.targets
    if findings.of("unscaled-target") and len(targets) == 1:
        size = math.hypot(targets[0].mean or 0.0, targets[0].std or 0.0)
        growth = max(size, 1.0) ** (1 / len(findings.measured.ratios))
    return findings.measured.rates[0] * GOOD_RATIO * growth / first[1]


def _input_size(findings: Findings) -> float:
    """Size of the largest unscaled input; 1 when none was told.

    A gradient grows with the inputs twice: through the layer that reads them, and through the
    error that the larger outputs make.
    """
    sizes = [1.0]
    if findings.of("unscaled-input"):
        sizes += [math.hypot(d.mean or 0.0, d.std or 0.0) for d in findings.program.inputs]
    return max(sizes)


def _jumped(measured: Measurements) -> bool:
    early = measured.loss.early
    if measured.nonfinite_step is not None:
        return True
    return len(early) > 1 and max(early[1:]) > 2 * max(early[0], 1e-12)


def _place(program: Program, step: int) -> Place:
    place = optimizer_place(program)
    return Place(**{**vars(place), "step": step, "epoch": 0})


def _round(value: float) -> float:
    """Two significant digits: what a person would type."""
    if value == 0 or not math.isfinite(value):
        return value
    return float(f"{value:.1e}")
