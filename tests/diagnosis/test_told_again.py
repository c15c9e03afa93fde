"""An ERROR that was withdrawn is told again when it returns."""

from __future__ import annotations

import dataclasses

from stethoscope.config import Config
from stethoscope.diagnosis.judge import Judge
from stethoscope.types import Diagnosis, Place, PlaceKind, Severity

ERROR = Diagnosis(
    fault="output-loss-mismatch",
    severity=Severity.ERROR,
    confidence=0.97,
    place=Place(PlaceKind.LAYER, "out", path="layers[out].activation"),
    fixes=(),
    symptoms=(),
    why=(),
    message="It does not fit.",
    first_seen=0,
)


def test_error_that_returns_is_told_again():
    judge, told = Judge(Config()), []
    for severity in ("error", "error", "warning", "error", "note", "note", "error"):
        judge._diagnoses = [dataclasses.replace(ERROR, severity=Severity(severity))]
        judge.severity_changes()
        told.append(len(judge.new_errors()))
    assert told == [1, 0, 0, 1, 0, 0, 1]


def test_error_that_returns_before_it_is_asked_for_is_told_again():
    judge = Judge(Config())
    judge._diagnoses = [ERROR]
    judge.severity_changes()
    assert judge.new_errors() == [ERROR]
    for diagnoses in ([], [ERROR]):
        judge._diagnoses = diagnoses
        judge.severity_changes()
    assert judge.new_errors() == [ERROR]
