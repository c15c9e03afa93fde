"""The learning rate is 0."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import CLASSIFIER
from stethoscope.faults._base import (
    NO_GRADIENT,
    NO_LEARNING,
    Fault,
    Findings,
    Suspect,
    set_to,
)


class LearningRateZero(Fault):
    """The learning rate is 0.

    False alarms: a schedule by epochs may give 0 for the whole first one: what is told of the rate
    is withdrawn when the rate leaves 0, and is no ERROR for its own sake where it may yet do so.
    """

    name = "learning-rate-zero"
    group = "hyper-parameters"
    shown_by = frozenset({"zero-learning-rate"})
    effects = NO_LEARNING | NO_GRADIENT
    healthy = CLASSIFIER
    faulty = CLASSIFIER.but(learning_rate=0.0)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        if findings.measured.rate > 0:
            return
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
            yield self.suspect(
                [symptom], confidence=0.99, fixes=[fix], fatal=not _may_rise(findings)
            )


def _may_rise(findings: Findings) -> bool:
    """Whether the rate is driven by a schedule, or the first of several epochs is not over."""
    program = findings.program
    if any(spec.schedule for spec in program.optimizers):
        return True
    epochs, length = program.fit.epochs, program.fit.steps_per_epoch
    return (epochs or 1) > 1 and length is not None and findings.measured.steps <= length
