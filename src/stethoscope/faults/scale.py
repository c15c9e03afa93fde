"""Inputs or targets on a scale that the network cannot handle."""

from __future__ import annotations

import math
from collections.abc import Iterable

from stethoscope.faults._base import (
    BLOW_UP,
    LIKELY,
    NO_GRADIENT,
    NO_LEARNING,
    Fault,
    Findings,
    Suspect,
)
from stethoscope.program import DataSpec
from stethoscope.types import Change, Fix, Op, SourceRef

_UNITS = frozenset({"dead-units", "saturated-activation"})


class UnscaledInput(Fault):
    """The inputs are far from the scale that initial weights are made for."""

    name = "unscaled-input"
    group = "data"
    shown_by = frozenset({"unscaled-input"})
    effects = BLOW_UP | NO_LEARNING | NO_GRADIENT | _UNITS | frozenset({"update-ratio-too-large"})

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("unscaled-input"):
            index = _index(symptom.place.path)
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


class UnscaledTarget(Fault):
    """The targets are far from what a fresh network gives, so the first errors are huge."""

    name = "unscaled-target"
    group = "data"
    shown_by = frozenset({"unscaled-target"})
    effects = BLOW_UP | NO_LEARNING | frozenset({"dead-units", "update-ratio-too-large"})

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("unscaled-target"):
            index = _index(symptom.place.path)
            targets = findings.program.targets
            if index >= len(targets):
                continue
            fix = scaling(targets[index], f"data.target[{index}]", symptom.place.source)
            why = [("Are the targets near 1 in size?", f"no: {symptom.evidence[0].value:.4g}")]
            yield self.suspect([symptom], confidence=LIKELY - 0.2, fixes=[fix], why=why)


class ConstantTarget(Fault):
    """All targets are the same, so the input does not matter."""

    name = "constant-target"
    group = "data"
    shown_by = frozenset({"constant-target"})
    effects = frozenset({"collapsed-output", "unchanged-weight", "metric-not-increasing"})

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("constant-target"):
            path = symptom.place.path or "data.target[0]"
            fix = Fix(
                "look at how the targets are read, cast or divided: all are the same",
                Change(Op.WRAP, path, "targets as they were before the cast", symptom.place.source),
            )
            yield self.suspect([symptom], confidence=LIKELY, fixes=[fix])


def scaling(data: DataSpec, path: str, source: SourceRef | None) -> Fix:
    """A fix that brings data to a mean near 0 and a standard deviation near 1.

    Pixels (whole numbers or not, from 0 to at most 255) are divided by 255; columns that are on
    scales of their own are standardized, each with its measured mean and deviation.
    """
    low, high = data.min or 0.0, data.max or 0.0
    image = data.shape is not None and (len(data.shape) >= 2 or data.shape[-1:] > (64,))
    if image and low >= 0 and 16 < high <= 255:
        return Fix(f"divide {path} by 255", Change(Op.SCALE, path, 1 / 255, source))
    if data.columns and len(data.columns) <= 64:
        columns = {
            str(i): {"mean": c.mean, "std": c.std}
            for i, c in enumerate(data.columns)
            if c.std > 0 and (math.hypot(c.mean, c.std) > 3 or c.std < 0.1)
        }
        names = ", ".join(list(columns)[:6]) + (", ..." if len(columns) > 6 else "")
        return Fix(
            f"standardize {path}: subtract mean and divide by standard deviation in columns "
            f"{names}",
            Change(Op.WRAP, path, {"standardize": columns}, source),
        )
    mean, std = data.mean or 0.0, data.std or 1.0
    return Fix(
        f"standardize {path}: subtract {mean:.4g}, divide by {std:.4g}",
        Change(Op.WRAP, path, {"standardize": {"mean": mean, "std": std}}, source),
    )


def _index(path: str | None) -> int:
    digits = (path or "").rpartition("[")[2].rstrip("]")
    return int(digits) if digits.isdigit() else 0
