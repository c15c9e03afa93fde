"""Two linear maps in a row are one: the network is a linear model."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.faults._base import (
    LIKELY,
    NO_LEARNING,
    POSSIBLE,
    Fault,
    Findings,
    Suspect,
    set_activation,
)
from stethoscope.types import Fix
from stethoscope.vocabulary import AFFINE


class MissingHiddenActivation(Fault):
    """Two linear maps in a row are one: the network is a linear model."""

    name = "missing-hidden-activation"
    group = "structure"
    shown_by = frozenset({"missing-hidden-activation"})
    effects = NO_LEARNING
    healthy = REGRESSOR
    faulty = REGRESSOR.but(activation="linear")

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        symptoms = findings.of("missing-hidden-activation")
        program = findings.program
        affine = [s for s in program.layers if s.kind in AFFINE]
        if not symptoms:
            return
        # One diagnosis, at the first such layer, with a change for each of them.
        specs = [s for s in (program.layer(x.place.layer or "") for x in symptoms) if s is not None]
        if not specs:
            return
        missing = [
            set_activation(spec, "relu", "no activation follows it").change for spec in specs
        ]
        title = f'activation "relu" after {", ".join(spec.path for spec in specs[:4])}'
        fix = Fix(title, missing[0], tuple(missing[1:]))
        all_linear = len(specs) >= len(affine) - 1
        why = [
            ("Is there an activation between the linear layers?", f"no: {symptoms[0].message}"),
            ("Is any hidden layer non-linear?", "no" if all_linear else "yes"),
        ]
        sure = LIKELY if all_linear else POSSIBLE
        yield self.suspect(symptoms, confidence=sure, fixes=[fix], why=why)
