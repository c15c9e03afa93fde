"""The fold of everything over a run: rules, harm, faults, verdict. Live and offline alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stethoscope.config import Config
from stethoscope.diagnosis import harm as harms
from stethoscope.diagnosis.rank import rank
from stethoscope.faults import all_faults
from stethoscope.faults._base import Fault, Findings, Suspect
from stethoscope.faults._measure import Measurements
from stethoscope.program import Program
from stethoscope.row import Block, Row, RowKind
from stethoscope.rules import all_rules, is_named
from stethoscope.rules._base import ProgramRule, Rule
from stethoscope.schedule import PROBE_EVERY
from stethoscope.trace import read
from stethoscope.types import (
    Diagnosis,
    Phase,
    Report,
    Severity,
    Stage,
    Symptom,
    Verdict,
)

BLOCK = 64  # rows that are looked at together


class Judge:
    """Takes rows in order; answers at any moment.

    Args:
        config: Which rules to run.
    """

    def __init__(self, config: Config) -> None:
        self._rules = [rule for rule in all_rules() if _selected(rule, config)]
        self._program_rules = {r.code: r for r in self._rules if isinstance(r, ProgramRule)}
        self._scalar_rules = [r for r in self._rules if any(s.is_scalar for s in r.needs)]
        self._states: dict[str, Any] = {}
        self._broken: dict[str, str] = {}
        self._stopped: str | None = None
        self._symptoms: list[Symptom] = []
        self._measured = Measurements()
        self._last: Row | None = None
        self._diagnoses: list[Diagnosis] = []
        self._confirmed: dict[tuple[str, Severity], int] = {}
        self._stale = True
        self._looked = 0
        self._asked: Program | None = None
        self._holds: set[tuple[str, tuple[str, ...]]] = set()
        self._told: set[tuple[str, str | None]] = set()
        self._severities: dict[tuple[str, str | None], Severity] = {}
        self._harm = harms.Harm(harms.State.UNKNOWN, "nothing was seen yet")

    @property
    def failure(self) -> str | None:
        """The error of ours for which the run cannot be called healthy; None without one."""
        return self._stopped or next(iter(self._broken.values()), None)

    def fail(self, reason: str) -> None:
        """No row is taken any more; what was found stands."""
        self._stopped = self._stopped or reason

    def update(self, rows: Sequence[Row]) -> Iterator[tuple[Row, list[Symptom]]]:
        """Takes the next rows; hands out those that may have changed the diagnoses, with symptoms.

        How rows are cut into calls changes nothing of what is found.
        """
        for block in self._blocks(rows):
            rules: Sequence[Rule] | None = self._loud(block) if len(block) > 1 else None
            for row in block:
                if self._stopped is not None:
                    return
                try:
                    found = self._update(row, rules)
                except Exception as error:  # as for rules: an error of ours never ends the training
                    self.fail(f"judging failed at step {row.step}: {type(error).__name__}: {error}")
                    return
                if found or not self._stale:
                    yield row, found

    def _blocks(self, rows: Sequence[Row]) -> Iterator[list[Row]]:
        """Cuts rows into pieces within which only the numbers differ."""
        block: list[Row] = []
        for row in rows:
            if block and (len(block) == BLOCK or not _alike(block[-1], row)):
                yield block
                block = []
            block.append(row)
        if block:
            yield block

    def _loud(self, rows: Sequence[Row]) -> list[Rule]:
        """The rules that have to look at each of these rows; the others have seen them."""
        block, loud = Block(rows), []
        for rule in self._rules:
            try:
                if rule.code in self._states and rule.quiet(self._states[rule.code], block):
                    continue
            except Exception as error:
                self._break(rule, error)
                continue
            loud.append(rule)
        return loud

    def _break(self, part: Rule | Fault, error: Exception) -> None:
        """Leaves out a rule or a fault that failed: it never costs a user the training."""
        key = part.code if isinstance(part, Rule) else part.name
        self._broken[key] = f"{part.name} failed: {type(error).__name__}: {error}"

    def _update(self, row: Row, rules: Sequence[Rule] | None) -> list[Symptom]:
        self._measured.add(row)
        found: list[Symptom] = []
        revised = self._last is None or row.program is not self._last.program
        if rules is None:
            plain = not (row.probed or row.events)
            rules = self._scalar_rules if plain and not revised else self._rules
        for rule in rules:
            if rule.code in self._broken:
                continue
            try:
                if rule.code not in self._states:
                    self._states[rule.code] = rule.start(row.program)
                self._states[rule.code], new = rule.update(self._states[rule.code], row)
            except Exception as error:
                self._break(rule, error)
                continue
            found.extend(new)
        self._symptoms.extend(found)
        self._last = row
        self._stale = True
        due = revised or row.step - self._looked >= PROBE_EVERY
        if found or row.events or (row.probed and due):
            harm, self._looked = harms.judge(row.program, self._measured), row.step
            if found or row.events or revised or not harm.alike(self._harm):
                self._diagnoses = self._diagnose(row, harm, self._confirmed)
                self._stale = False
            self._harm = harm
        return found

    def new_errors(self) -> list[Diagnosis]:
        """The ERRORs confirmed since the last call, and those confirmed again after withdrawal."""
        new = []
        for diagnosis in self._diagnoses:
            key = (diagnosis.fault, diagnosis.place.path)
            if diagnosis.severity is Severity.ERROR and key not in self._told:
                self._told.add(key)
                new.append(diagnosis)
        return new

    def severity_changes(self) -> list[dict[str, Any]]:
        """What became more or less severe since the last call: fault, path, from, to."""
        now = {(d.fault, d.place.path): d.severity for d in self._diagnoses}
        keys = [k for k in {**self._severities, **now} if self._severities.get(k) != now.get(k)]
        changes = [
            {"fault": k[0], "path": k[1], "from": self._severities.get(k), "to": now.get(k)}
            for k in keys
        ]
        self._severities = now
        self._told -= {k for k in keys if now.get(k) is not Severity.ERROR}  # withdrawn: may return
        return changes

    def report(self, meta: Mapping[str, Any], overhead: Mapping[str, float]) -> Report:
        """The report on the rows so far; asking for it in the middle of a run changes nothing."""
        harm, diagnoses = self._harm, self._diagnoses
        try:
            if self._stale and self._last is not None:
                harm = harms.judge(self._last.program, self._measured)
                diagnoses = self._diagnose(self._last, harm, dict(self._confirmed))
        except Exception as error:
            self.fail(f"judging failed: {type(error).__name__}: {error}")
        skipped = self._skipped()
        verdict, reason = self._verdict(harm, diagnoses)
        return Report(
            meta={
                **meta,
                "steps": self._measured.steps,
                "harm": harm.state.value,
                "failure": self.failure,
                "unseen": self._unseen(skipped),
            },
            verdict=verdict,
            reason=reason,
            diagnoses=tuple(diagnoses),
            symptoms=tuple(self._symptoms),
            ran=tuple(rule.code for rule in self._rules if rule.code not in skipped),
            skipped=skipped,
            overhead=overhead,
        )

    def _diagnose(
        self, row: Row, harm: harms.Harm, confirmed: dict[tuple[str, Severity], int]
    ) -> list[Diagnosis]:
        """What can be said after `row`, with the step at which each severity was reached."""
        program = row.program
        standing = self._standing(program)
        findings = Findings(program, standing, self._measured)
        suspects: list[Suspect] = []
        names = {symptom.name for symptom in standing}
        for fault in all_faults():
            if not fault.shown_by & names or fault.name in self._broken:
                continue
            try:
                suspects.extend(fault.consider(findings))
            except Exception as error:
                self._break(fault, error)
        ranked = rank(suspects, standing, harm)
        return [_confirm(diagnosis, row.step, confirmed) for diagnosis in ranked]

    def _standing(self, program: Program) -> tuple[Symptom, ...]:
        """The symptoms that still hold: what was said of the Program is asked of it again.

        The first batch may not be like the others; symptoms stay in the report as they were seen.
        """
        if program is not self._asked:
            self._asked = program
            self._holds = {
                (rule.code, symptom.place.key)
                for code, rule in self._program_rules.items()
                if code not in self._broken
                for symptom in rule.inspect(program)
            }
        asked = self._program_rules
        return tuple(
            s for s in self._symptoms if s.rule not in asked or (s.rule, s.place.key) in self._holds
        )

    def _verdict(self, harm: harms.Harm, diagnoses: list[Diagnosis]) -> tuple[Verdict, str]:
        bad = [d for d in diagnoses if d.severity is not Severity.NOTE]
        if bad:
            return Verdict.FAULTY, bad[0].message
        if self.failure is not None:
            return Verdict.UNDETERMINED, self.failure
        if harm.state is harms.State.LEARNING:
            return Verdict.HEALTHY, harm.reason
        if not harm.criterion:
            return Verdict.HEALTHY, f"nothing was found; {harm.reason}"
        if harm.state is harms.State.HARMED:
            return Verdict.UNDETERMINED, f"{harm.reason}, but no cause was found"
        return Verdict.UNDETERMINED, harm.reason

    def _skipped(self) -> dict[str, str]:
        if self._stopped is not None:
            return {rule.code: self._stopped for rule in self._rules}
        skipped = dict(self._broken)
        unseen = self._last.program.unseen if self._last else {}
        for rule in self._rules:
            for stage in sorted(rule.needs, key=lambda s: s.position):
                if rule.code not in skipped and not self._seen(stage):
                    reason = unseen.get(stage.value, f"no {stage.value} was seen")
                    skipped[rule.code] = reason
        return skipped

    def _unseen(self, skipped: Mapping[str, str]) -> dict[str, str]:
        """What else was not seen than that for which rules were skipped."""
        unseen = self._last.program.unseen if self._last else {}
        return {str(topic): why for topic, why in unseen.items() if why not in skipped.values()}

    def _seen(self, stage: Stage) -> bool:
        if self._last is None:
            return False
        return bool(self._last.slots.of(stage) or self._last.slots.of(stage, Phase.VALIDATION))


def check(path: str | Path, config: Config | None = None) -> Report:
    """Judges a stored trace: the same fold, and so the same report, as while it was written.

    Raises:
        TraceError: the file is not a trace.
    """
    trace = read(path)
    judge = Judge(config or Config())
    for _ in judge.update(list(trace.rows())):
        pass
    if trace.meta.get("failure"):
        judge.fail(str(trace.meta["failure"]))
    program = trace.program
    meta = {
        "script": trace.meta.get("script"),
        "framework": program.framework,
        "framework_version": program.framework_version,
        "backend": program.backend,
        "trace": str(trace.path),
        "trace_problem": None,
        "rank": trace.meta.get("rank", 0),
    }
    return judge.report(meta, trace.meta.get("overhead", {}))


def _alike(last: Row, row: Row) -> bool:
    """Whether a probed row may stand in one block with the one before it."""
    return (
        row.stats is not None
        and last.stats is not None
        and row.stats.shape == last.stats.shape
        and row.program is last.program
        and row.kind is last.kind is RowKind.STEP
        and not (row.events or last.events)
    )


def _confirm(
    diagnosis: Diagnosis, step: int, confirmed: dict[tuple[str, Severity], int]
) -> Diagnosis:
    if diagnosis.severity is Severity.NOTE:
        return diagnosis
    key = (f"{diagnosis.fault} {diagnosis.place.key}", diagnosis.severity)
    return dataclasses.replace(diagnosis, confirmed=confirmed.setdefault(key, step))


def _selected(rule: Rule, config: Config) -> bool:
    def named(names: tuple[str, ...]) -> bool:
        return any(is_named(rule, name) for name in names)

    return (not config.select or named(config.select)) and not named(config.ignore)
