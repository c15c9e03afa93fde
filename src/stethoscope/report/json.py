"""The report as JSON, which other programs read. Absent is null; non-finite is a string."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import stethoscope
from stethoscope.codec import encode
from stethoscope.report.words import paper_code
from stethoscope.types import Change, Diagnosis, Fix, Place, Report, Symptom

SCHEMA = 1


def render(reports: Sequence[Report], *, notes: Sequence[str] = ()) -> str:
    """All runs of a process as one JSON text, ending in a newline.

    Args:
        reports: In the order of their start.
        notes: What could not be watched, in sentences.
    """
    document = {
        "schema": SCHEMA,
        "tool": {"name": "stethoscope", "version": stethoscope.__version__},
        "runs": [_run(report) for report in reports],
        "notes": list(notes),
    }
    return json.dumps(encode(document), indent=2, allow_nan=False) + "\n"


def _run(report: Report) -> dict[str, Any]:
    meta = dict(report.meta)
    return {
        "verdict": report.verdict,
        "reason": report.reason,
        "code": "CM" if report.verdict.value == "healthy" else None,
        "framework": meta.get("framework"),
        "steps": meta.get("steps"),
        "script": meta.get("script"),
        "trace": meta.get("trace"),
        "diagnoses": [_diagnosis(d) for d in report.diagnoses],
        "symptoms": [_symptom(s) for s in report.symptoms],
        "ran": report.ran,
        "skipped": report.skipped,
        "overhead": report.overhead,
        "meta": meta,
    }


def _diagnosis(diagnosis: Diagnosis) -> dict[str, Any]:
    names = tuple(symptom.name for symptom in diagnosis.symptoms)
    return {
        "fault": diagnosis.fault,
        "severity": diagnosis.severity,
        "confidence": diagnosis.confidence,
        "first_seen": diagnosis.first_seen,
        "confirmed": diagnosis.confirmed,
        "message": diagnosis.message,
        "place": _place(diagnosis.place, names),
        "fixes": [_fix(fix) for fix in diagnosis.fixes],
        "symptoms": [_reference(symptom) for symptom in diagnosis.symptoms],
        "why": diagnosis.why,
    }


def _place(place: Place, symptoms: tuple[str, ...] = ()) -> dict[str, Any]:
    source = place.source
    return {
        "kind": place.kind,
        "layer": place.layer,
        "param": place.param,
        "stage": place.stage,
        "code": paper_code(place, symptoms),
        "path": place.path,
        "step": place.step,
        "epoch": place.epoch,
        "batch": place.batch,
        "rows": place.rows,
        "source": encode(source) if source else None,
    }


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "title": fix.title,
        "change": _change(fix.change),
        "also": [_change(change) for change in fix.also],
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "op": change.op,
        "path": change.path,
        "value": change.value,
        "source": encode(change.source) if change.source else None,
    }


def _symptom(symptom: Symptom) -> dict[str, Any]:
    return {
        "rule": symptom.rule,
        "name": symptom.name,
        "class": symptom.kind,
        "place": _place(symptom.place, (symptom.name,)),
        "evidence": list(symptom.evidence),
        "message": symptom.message,
    }


def _reference(symptom: Symptom) -> dict[str, Any]:
    place = symptom.place
    return {
        "rule": symptom.rule,
        "name": symptom.name,
        "layer": place.layer,
        "param": place.param,
        "stage": place.stage,
    }
