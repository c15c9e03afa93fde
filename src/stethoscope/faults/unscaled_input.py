"""The inputs are far from the scale that initial weights are made for."""

from __future__ import annotations

import math
from collections.abc import Iterable

from stethoscope.example import CLASSIFIER
from stethoscope.faults._base import (
    BLOW_UP,
    NO_GRADIENT,
    NO_LEARNING,
    Fault,
    Findings,
    Suspect,
)
from stethoscope.faults._scaling import index_of, scaling

_UNITS = frozenset({"dead-units", "saturated-activation"})


class UnscaledInput(Fault):
    """The inputs are far from the scale that initial weights are made for."""

    name = "unscaled-input"
    group = "data"
    shown_by = frozenset({"unscaled-input"})
    effects = BLOW_UP | NO_LEARNING | NO_GRADIENT | _UNITS | frozenset({"update-ratio-too-large"})
    healthy = CLASSIFIER.but(steps=400)
    faulty = healthy.but(input_scale=300.0)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("unscaled-input"):
            index = index_of(symptom.place.path)
            if index >= len(findings.program.inputs):
                continue
            data = findings.program.inputs[index]
            size = math.hypot(data.mean or 0.0, data.std or 0.0)
            fix = scaling(data, f"data.input[{index}]", symptom.place.source)
            why = [
                ("Does a linear or recurrent layer read the inputs as they are?", "yes"),
                ("Are the inputs near 1 in size?", f"no: {size:.4g}"),
            ]
            # The further out, the surer: a factor of ten may be borne, one of a million never.
            sure = min(0.95, 0.6 + 0.1 * math.log10(max(size / 10, 1)))
            yield self.suspect([symptom], confidence=sure, fixes=[fix], why=why)
