"""NaN or infinity in the data."""

from __future__ import annotations

from stethoscope.faults._base import CERTAIN, Fault, Suspect
from stethoscope.types import Change, Fix, Op, Symptom


def data_suspect(fault: Fault, path: str, symptom: Symptom, word: str) -> Suspect:
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
