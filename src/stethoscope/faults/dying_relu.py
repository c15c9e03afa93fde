"""The ReLU units of a layer are 0 for every sample and get no gradient."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import Example
from stethoscope.faults._base import (
    NO_GRADIENT,
    NO_LEARNING,
    POSSIBLE,
    Fault,
    Findings,
    Suspect,
    set_activation,
)
from stethoscope.faults._hidden_layers import is_shut
from stethoscope.rules.dead_units import DeadUnits
from stethoscope.types import Slot, Stage, Stat


class DyingRelu(Fault):
    """The ReLU units of a layer are 0 for every sample and get no gradient."""

    name = "dying-relu"
    group = "structure"
    shown_by = frozenset({"dead-units"})
    effects = NO_LEARNING | NO_GRADIENT
    healthy = Example(hidden=(16,))
    faulty = healthy.but(bias=-6.0)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        dead = findings.of("dead-units")
        if not dead:
            return
        symptom = min(dead, key=lambda s: (s.place.step or 0, _order(findings, s.place.layer)))
        spec = findings.program.layer(symptom.place.layer or "")
        if spec is None:
            return
        others = [s for s in dead if s is not symptom]
        slot = Slot(spec.path, "", Stage.OUTPUT)
        alive = not findings.measured.first(slot, Stat.DEAD_SHARE) >= DeadUnits.share
        killed = alive and bool(findings.of("update-ratio-too-large"))
        sure = POSSIBLE - 0.2 if killed else POSSIBLE + 0.2
        fix = set_activation(spec, "leaky_relu", "it passes a gradient when negative")
        why = [
            ("Do the units of the layer respond to any sample?", f"no: {symptom.message}"),
            ("Did they at the first step?", "yes" if alive else "no"),
        ]
        yield self.suspect(
            [symptom, *others], confidence=sure, fixes=[fix], why=why, fatal=is_shut(findings)
        )


def _order(findings: Findings, path: str | None) -> int:
    paths = [spec.path for spec in findings.program.layers]
    return paths.index(path) if path in paths else len(paths)
