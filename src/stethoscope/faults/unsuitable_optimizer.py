"""Nothing else explains it: the steps are of a usual size and the loss does not fall."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import BINARY
from stethoscope.faults._base import NO_LEARNING, Fault, Findings, Suspect, set_to
from stethoscope.rules._base import optimizer_place

LEAST_STEPS = 300  # a last resort: only when there was time for everything else to show


_PLAIN = ("sgd", "adagrad", "adadelta", "rprop", "asgd")


class UnsuitableOptimizer(Fault):
    """Nothing else explains it: the steps are of a usual size and the loss does not fall.

    Why it is bad: a plain optimizer takes steps in proportion to the gradient, so it stalls where
    the gradient is small in some directions and large in others; an adaptive one does not.

    How to fix: Adam or RMSprop with a rate near 0.001.
    """

    name = "unsuitable-optimizer"
    group = "hyper-parameters"
    shown_by = frozenset({"loss-not-decreasing"})
    effects = NO_LEARNING
    healthy = BINARY.but(data="parity", optimizer="adam", learning_rate=0.001, steps=400)
    faulty = healthy.but(optimizer="sgd", learning_rate=0.003)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        symptoms = findings.of("loss-not-decreasing")
        if not symptoms or not findings.program.optimizers:
            return
        spec = findings.program.optimizers[0]
        if spec.name not in _PLAIN or findings.measured.loss.count < LEAST_STEPS:
            return
        lost = findings.measured.rate_lost
        if lost is not None and lost < findings.measured.steps / 2:
            return  # a schedule took the rate away: no optimizer moves without one
        place = optimizer_place(findings.program, "name")
        fix = set_to(
            "optimizer.name", "adam", spec.source, f"{spec.type} -> Adam, learning_rate 0.001"
        )
        why = [("Does the optimizer adapt its steps to each weight?", f"no: {spec.type}")]
        yield self.suspect(
            symptoms,
            place=place,
            confidence=0.3,
            fixes=[fix],
            why=why,
            message=f"{spec.type} does not lower the loss, and nothing else was found.",
        )
