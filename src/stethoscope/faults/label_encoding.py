"""The labels mean something else to the loss than to the user."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import BINARY
from stethoscope.faults._base import BLOW_UP, CERTAIN, NO_LEARNING, Fault, Findings, Suspect
from stethoscope.faults._output_layer import claim
from stethoscope.program import DataSpec
from stethoscope.rules._output import heads
from stethoscope.types import Change, Fix, Op, SourceRef


class LabelEncoding(Fault):
    """The labels mean something else to the loss than to the user."""

    name = "label-encoding"
    group = "data"
    shown_by = frozenset({"label-encoding"})
    effects = NO_LEARNING | BLOW_UP | frozenset({"output-width", "unscaled-target"})
    healthy = BINARY
    faulty = BINARY.but(target_scale=255.0)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("label-encoding"):
            path = symptom.place.path or "data.target[0]"
            index = int(path.rpartition("[")[2].rstrip("]") or 0)
            targets = findings.program.targets
            if index >= len(targets):
                continue
            told = claim(next((h for h in heads(findings.program) if h.index == index), None))
            fix = _repair(targets[index], path, symptom.place.source)
            why = [("Can the loss read these labels?", f"no: {symptom.message}")]
            yield self.suspect([symptom], confidence=CERTAIN, fixes=[fix], why=why, **told)


def _repair(target: DataSpec, path: str, source: SourceRef | None) -> Fix:
    low, high = target.min or 0.0, target.max or 0.0
    if target.integer_valued is False and target.distinct and target.distinct > 1:
        # Fractions with a common step are ids that were divided: the step is what was divided by.
        factor = round((target.distinct - 1) / (high - low), 6) if high > low else 1.0
        title = f"do not scale the labels: multiply by {factor:g} and round to whole ids from 0"
        return Fix(title, Change(Op.SCALE, path, factor, source))
    if low == 1:
        title = "subtract 1 from the labels, so that ids count from 0"
        return Fix(title, Change(Op.WRAP, path, {"subtract": 1}, source))
    if target.distinct == 2:
        title = f"map the labels {low:g} and {high:g} to 0 and 1"
        return Fix(title, Change(Op.WRAP, path, {"map": {f"{low:g}": 0, f"{high:g}": 1}}, source))
    return Fix("encode the labels as whole ids from 0", Change(Op.WRAP, path, "ids from 0", source))
