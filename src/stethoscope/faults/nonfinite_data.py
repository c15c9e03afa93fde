"""NaN or infinity in the data."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.faults._base import BLOW_UP, CERTAIN, NO_LEARNING, Fault, Findings, Suspect
from stethoscope.types import Change, Fix, Op, Symptom


class NonfiniteInput(Fault):
    """An input holds NaN or infinity: one such row makes every weight NaN in one update."""

    name = "nonfinite-input"
    group = "data"
    shown_by = frozenset({"nonfinite-input"})
    effects = BLOW_UP | NO_LEARNING | frozenset({"nonfinite-target"})

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("nonfinite-input"):
            yield _suspect(self, symptom.place.path or "data.input[0]", symptom, "input")


class NonfiniteTarget(Fault):
    """A target holds NaN or infinity: the loss of its sample, and then every weight, is NaN."""

    name = "nonfinite-target"
    group = "data"
    shown_by = frozenset({"nonfinite-target"})
    effects = BLOW_UP | NO_LEARNING

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("nonfinite-target"):
            yield _suspect(self, symptom.place.path or "data.target[0]", symptom, "target")


def _suspect(fault: Fault, path: str, symptom: Symptom, word: str) -> Suspect:
    rows = symptom.place.rows
    which = (
        f"row {', '.join(map(str, rows[:5]))} of batch {symptom.place.batch}" if rows else "them"
    )
    fix = Fix(
        f"drop or fill the non-finite {word} rows ({which})",
        Change(Op.WRAP, path, "drop rows that are not finite", symptom.place.source),
    )
    why = [(f"Is every {word} finite?", f"no: {symptom.message}")]
    return fault.suspect([symptom], confidence=CERTAIN, fixes=[fix], why=why)
