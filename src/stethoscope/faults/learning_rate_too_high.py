"""Each step overshoots: the loss jumps or blows up instead of falling."""

from __future__ import annotations

import math
from collections.abc import Iterable

from stethoscope.example import CLASSIFIER
from stethoscope.faults._base import (
    BLOW_UP,
    GROWTH,
    NO_GRADIENT,
    NO_LEARNING,
    Fault,
    Findings,
    Suspect,
)
from stethoscope.faults._measure import Measurements
from stethoscope.faults._rate import FAR_OFF, lower_rate
from stethoscope.program import Program
from stethoscope.rules._base import optimizer_place
from stethoscope.rules.update_ratio_too_large import UpdateTooLarge
from stethoscope.types import Place, SymptomClass

UNLIKELY = 0.4
BASE = 0.55  # one figure speaks for it
BEARABLE = 0.03  # of its size: ten times what is usual in the steps of a run that learns well
WILD = 0.3  # of its size: after a few such steps nothing is left of a kernel
LEAST_RATE = 1e-9  # no schedule spans more: a rate that far off is not what is wrong


class LearningRateTooHigh(Fault):
    """Each step overshoots: the loss jumps or blows up instead of falling."""

    name = "learning-rate-too-high"
    group = "hyper-parameters"
    shown_by = frozenset({"update-ratio-too-large", *BLOW_UP})
    effects = BLOW_UP | NO_LEARNING | NO_GRADIENT | frozenset({
        "dead-units", "saturated-activation", "update-ratio-too-large",
    })  # fmt: skip
    healthy = CLASSIFIER
    faulty = CLASSIFIER.but(learning_rate=30.0)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        measured, program = findings.measured, findings.program
        too_large = findings.of("update-ratio-too-large")
        blown = [s for s in findings.symptoms if s.name in BLOW_UP]
        first = measured.first_ratio()
        if not program.optimizers or first is None or not (too_large or blown):
            return
        if program.optimizers[0].name == "lbfgs":
            return  # its step is found by a line search
        slot, ratio = first
        early = max(max(r) for r in measured.ratios.values())
        jumps = _jumped(measured)
        if not too_large and early < BEARABLE:
            return  # the steps were small: something else blew up
        symptoms = sorted(too_large + blown, key=lambda s: s.place.step or 0)
        steps_before = min(s.place.step or 0 for s in symptoms)
        sure = BASE
        sure += 0.2 if early > WILD else 0.0
        sure += 0.15 if jumps else 0.0
        grew = jumps or bool(findings.of(*GROWTH))
        if not grew and early < UpdateTooLarge.at_once and measured.nonfinite_step is not None:
            sure = UNLIKELY  # NaN out of the blue, from steps of a bearable size
        large = _input_size(findings)
        by_inputs = ratio / large**2 < UpdateTooLarge.at_once
        if by_inputs and large > 1:
            sure = UNLIKELY
        fix = lower_rate(findings)
        if fix.change.value < LEAST_RATE * measured.rates[0]:
            return  # the activations were beyond all measure before any step
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
                f"{slot.layer}/{slot.param} by {ratio:.2g} of its size, so steps overshoot."
            ),
            confidence=min(sure, 0.95),
            fixes=[fix],
            why=why,
            counter=bool(too_large) and ratio * FAR_OFF > UpdateTooLarge.bound,
            kind=SymptomClass.SUSPICION,
        )


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
    return len(early) > 1 and max(early[1:]) > 2 * max(early[0], 1e-12)


def _place(program: Program, step: int) -> Place:
    place = optimizer_place(program)
    return Place(**{**vars(place), "step": step, "epoch": 0})
