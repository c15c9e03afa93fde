"""Ranking: causes before effects, contradictions first, never two edits of one thing."""

from __future__ import annotations

import pytest

from stethoscope.diagnosis.harm import Harm, State
from stethoscope.diagnosis.rank import AT_MOST, rank
from stethoscope.faults._base import Suspect
from stethoscope.types import (
    Change,
    Evidence,
    Fix,
    Op,
    Place,
    PlaceKind,
    Severity,
    Stage,
    Symptom,
    SymptomClass,
)

CONTRADICTION, SUSPICION = SymptomClass.CONTRADICTION, SymptomClass.SUSPICION
HARMED = Harm(State.HARMED, "flat")
LEARNING = Harm(State.LEARNING, "falls")
UNKNOWN = Harm(State.UNKNOWN, "flat so far")


def symptom(name: str, step: int = 0) -> Symptom:
    place = Place(PlaceKind.LAYER, layer=name, stage=Stage.OUTPUT, step=step)
    return Symptom("X001", name, SUSPICION, place, (Evidence("x", 1, 0, ">"),), name)


def suspect(name: str, shown: str, *, kind=SUSPICION, confidence=0.8, effects=(), path=None,
            fatal=False, counter=False, step=0) -> Suspect:  # fmt: skip
    seen = symptom(shown, step)
    fix = Fix("mend", Change(Op.SET, path or f"layers[{name}].x", 1))
    return Suspect(name, seen.place, name, confidence, kind, (seen,), frozenset(effects), (fix,),
                   (), fatal, counter)  # fmt: skip


def names(suspects, harm=HARMED, symptoms=()):
    return [d.fault for d in rank(suspects, tuple(symptoms), harm)]


def test_an_effect_is_left_out_when_its_cause_is_there():
    rate = suspect("rate", "large-updates", confidence=0.9, effects=["dead-units"])
    dead = suspect("dead", "dead-units", confidence=0.7, step=9)
    assert names([dead, rate]) == ["rate"]
    assert names([dead]) == ["dead"]


def test_a_contradiction_comes_before_a_likelier_suspicion_and_is_no_effect():
    certain = suspect("shape", "shape-mismatch", kind=CONTRADICTION, confidence=0.7)
    rate = suspect("rate", "large-updates", confidence=0.9, effects=["shape-mismatch"])
    assert names([rate, certain]) == ["shape", "rate"]


def test_earlier_comes_first_among_equals():
    late, early = suspect("late", "a", step=20), suspect("early", "b", step=3)
    assert names([late, early]) == ["early", "late"]


def test_two_fixes_never_edit_the_same_thing():
    first = suspect("first", "a", confidence=0.9, path="optimizer.learning_rate")
    second = suspect("second", "b", path="optimizer.learning_rate")
    assert names([second, first]) == ["first"]


def test_the_list_is_short():
    assert len(names([suspect(str(i), str(i)) for i in range(20)])) == AT_MOST


@pytest.mark.parametrize(
    ("made", "harm", "severity"),
    [
        (suspect("s", "a"), HARMED, Severity.ERROR),
        (suspect("s", "a"), LEARNING, Severity.NOTE),
        (suspect("s", "a"), UNKNOWN, Severity.NOTE),
        (suspect("s", "a", counter=True), UNKNOWN, Severity.WARNING),
        (suspect("s", "a", counter=True), LEARNING, Severity.NOTE),
        (suspect("s", "a", kind=CONTRADICTION), LEARNING, Severity.WARNING),
        (suspect("s", "a", kind=CONTRADICTION), HARMED, Severity.ERROR),
        (suspect("s", "a", kind=CONTRADICTION, fatal=True), UNKNOWN, Severity.ERROR),
    ],
    ids=lambda value: (
        value.state if isinstance(value, Harm) else str(getattr(value, "kind", value))
    ),
)
def test_severity_follows_harm(made, harm, severity):
    assert rank([made], made.symptoms, harm)[0].severity is severity


def test_every_symptom_is_explained_once():
    seen = (symptom("flat-loss"), symptom("a"), symptom("b"))
    one = suspect("one", "a", confidence=0.9, effects=["flat-loss"])
    two = suspect("two", "b", effects=["flat-loss"])
    first, second = rank([one, two], seen, HARMED)
    assert [s.name for s in first.symptoms] == ["a", "flat-loss"]
    assert [s.name for s in second.symptoms] == ["b"]
