"""What is right about a report: pure functions from a report and a truth to a list of problems."""

from __future__ import annotations

import re
from typing import Any

LOUD = ("error", "warning")


def accepted_lines(program: str, parts: list[str]) -> set[int]:
    """The lines (from 1) of a program that hold one of the parts.

    Raises:
        ValueError: A part is nowhere in the program: the table is out of date.
    """
    lines = program.splitlines()
    for part in parts:
        if not any(part in line for line in lines):
            raise ValueError(f"no line holds {part!r}: correct the table.")
    return {n for n, line in enumerate(lines, 1) if any(part in line for part in parts)}


def faulty(report: dict[str, Any], code: int, case: dict[str, Any], program: str) -> list[str]:
    """Problems of the report on a faulty program: rank 1, place, line, Change, exit code."""
    problems = [] if code in (1, None) else [f"exit code {code}, expected 1"]
    diagnoses = _loud(report)
    if not diagnoses:
        return [*problems, f"silent: {_verdicts(report)}"]
    first = diagnoses[0]
    if first["fault"] not in case["faults"]:
        problems.append(f"rank 1 is {first['fault']}, expected {' or '.join(case['faults'])}")
    near = [d["fault"] for d in diagnoses[: case.get("top", 1)]]
    missing = [fault for fault in case.get("require", []) if fault not in near]
    if missing:
        problems.append(f"not in the top {case['top']}: {', '.join(missing)} (got {near})")
    problems += _place(first, case, program)
    if not any(fix["change"] for fix in first["fixes"]):
        problems.append("no Change")
    return problems


def healthy(report: dict[str, Any], code: int) -> list[str]:
    """Problems of the report on a program without a fault: anything said aloud."""
    problems = [] if code in (0, None) else [f"exit code {code}, expected 0"]
    for diagnosis in _loud(report):
        problems.append(f"false {diagnosis['severity']}: {diagnosis['fault']}")
    if not report["runs"]:
        problems.append("no run was seen")
    if not problems and not all(run["verdict"] == "healthy" for run in report["runs"]):
        problems.append(f"not called healthy: {_verdicts(report)}")
    return problems


def same(live: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Differences between what two reports say (fault, severity, place, Change)."""
    mine, theirs = (_said(report) for report in (live, other))
    return [] if mine == theirs else [f"differs: {mine} against {theirs}"]


def figure(output: str, metric: str) -> float:
    """The last figure that a program printed.

    Raises:
        ValueError: It printed none.
    """
    found = re.findall(metric, output)
    if not found:
        raise ValueError(f"nothing printed matches {metric!r}: {output[-300:]!r}")
    return float(found[-1])


def _place(diagnosis: dict[str, Any], case: dict[str, Any], program: str) -> list[str]:
    place, problems = diagnosis["place"], []
    if place["kind"] not in case["kind"]:
        problems.append(f"place is {place['kind']}, expected {' or '.join(case['kind'])}")
    if "step" in case and place["step"] != case["step"]:
        problems.append(f"step {place['step']}, expected {case['step']}")
    if diagnosis["first_seen"] > case.get("first", 10**9):
        problems.append(f"first seen at step {diagnosis['first_seen']}, expected {case['first']}")
    source = place["source"]
    if source is None:
        # Data has a place of its own: rows, columns, a step. A line is welcome, not demanded.
        if place["kind"] != "data":
            problems.append("no source line")
        return problems
    lines = accepted_lines(program, case["lines"])
    span = range(source["line"], (source.get("end_line") or source["line"]) + 1)
    if not lines.intersection(span):
        problems.append(f"line {source['line']}, expected {sorted(lines)}")
    return problems


def _loud(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [d for run in report["runs"] for d in run["diagnoses"] if d["severity"] in LOUD]


def _verdicts(report: dict[str, Any]) -> str:
    return "; ".join(f"{run['verdict']} ({run.get('reason')})" for run in report["runs"]) or "none"


def _said(report: dict[str, Any]) -> list[tuple[str, ...]]:
    said = []
    for diagnosis in _loud(report):
        place, source = diagnosis["place"], diagnosis["place"]["source"] or {}
        said.append(
            (
                diagnosis["fault"],
                diagnosis["severity"],
                str(place["kind"]),
                str(place["layer"]),
                str(place["step"]),
                str(source.get("line")),
            )
        )
    return said
