"""From suspects to a short list: the smallest set of faults that explains what was seen.

Certain contradictions come first, then what is most likely, then what was seen earliest and most
upstream. A suspect whose every symptom follows from one that is already on the list is an effect
and is left out; so is a fix that edits what a better fix edits already.
"""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.diagnosis.harm import Harm, State
from stethoscope.faults._base import Suspect
from stethoscope.types import Diagnosis, PlaceKind, Severity, Stage, Symptom, SymptomClass

AT_MOST = 5


def rank(suspects: Iterable[Suspect], symptoms: tuple[Symptom, ...], harm: Harm) -> list[Diagnosis]:
    """The diagnoses, best first.

    Args:
        suspects: What the faults proposed.
        symptoms: All symptoms seen.
        harm: Whether the run learns.
    """
    chosen: list[Suspect] = []
    explained: set[str] = set()
    edited: set[str] = set()
    for suspect in sorted(suspects, key=_order):
        shown = {symptom.name for symptom in suspect.symptoms}
        if suspect.kind is not SymptomClass.CONTRADICTION and shown <= explained:
            continue
        if suspect.fixes and suspect.fixes[0].change.path in edited:
            continue
        chosen.append(suspect)
        explained |= suspect.effects
        edited |= {c.path for f in suspect.fixes[:1] for c in (f.change, *f.also)}
    taken: set[int] = set()
    diagnoses = []
    for position, suspect in enumerate(chosen):
        effects = [s for s in symptoms if s.name in suspect.effects and id(s) not in taken]
        own = [s for s in suspect.symptoms if s not in effects]
        taken.update(id(s) for s in effects)
        diagnoses.append(_diagnosis(suspect, (*own, *effects), harm, first=position == 0))
    diagnoses.sort(key=lambda d: d.severity.rank)  # stable: keeps the order within a severity
    return diagnoses[:AT_MOST]


def _order(suspect: Suspect) -> tuple[int, float, int, int]:
    certain = suspect.kind is SymptomClass.CONTRADICTION
    tier = 2 - certain - (certain and suspect.fatal)
    event = suspect.kind is SymptomClass.EVENT and suspect.place.kind is PlaceKind.DATA
    stage = suspect.place.stage or Stage.HYPER
    return (0 if event else tier, -suspect.confidence, suspect.first_seen, stage.position)


def _diagnosis(
    suspect: Suspect, symptoms: tuple[Symptom, ...], harm: Harm, *, first: bool
) -> Diagnosis:
    severity = _severity(suspect, harm, first=first)
    return Diagnosis(
        fault=suspect.fault,
        severity=severity,
        confidence=round(suspect.confidence, 3),
        place=suspect.place,
        fixes=suspect.fixes,
        symptoms=symptoms,
        why=(*suspect.why, ("Does the run learn?", f"{harm.state}: {harm.reason}")),
        message=suspect.message,
        first_seen=suspect.first_seen,
    )


def _severity(suspect: Suspect, harm: Harm, *, first: bool) -> Severity:
    if suspect.fatal:
        return Severity.ERROR
    harmed = harm.state is State.HARMED
    if suspect.kind is SymptomClass.CONTRADICTION:
        return Severity.ERROR if harmed else Severity.WARNING
    if not harmed:
        judged = harm.state is State.UNKNOWN and harm.enough
        return Severity.WARNING if suspect.counter and judged else Severity.NOTE
    return Severity.ERROR if first or suspect.confidence >= 0.5 else Severity.WARNING
