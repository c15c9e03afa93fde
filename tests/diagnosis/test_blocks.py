"""Rows that are judged together say what they say one by one."""

import dataclasses

import numpy as np
import pytest

from stethoscope.config import Config
from stethoscope.diagnosis.judge import Judge
from stethoscope.engine.examples import run
from stethoscope.row import Block
from stethoscope.rules import all_rules
from stethoscope.trace import read
from stethoscope.types import Verdict

RULES = [rule for rule in all_rules() if rule.needs]
NEVER_QUIET = {"loss-diverging", "loss-not-decreasing", "metric-not-increasing"}
BY_EVENT = {"nonfinite-loss", "nonfinite-metric"}


def judged(rows, size):
    judge, changed = Judge(Config()), []
    for start in range(0, len(rows), size):
        for row, symptoms in judge.update(rows[start : start + size]):
            told = [(d.fault, d.place, d.severity, d.confirmed) for d in judge._diagnoses]
            changed.append((row.order, symptoms, told))
    return changed, judge.report({}, {})


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_cuts_between_rows_change_nothing(rule, tmp_path):
    example = dataclasses.replace(rule.faulty, steps=90)
    report = run(example, probe_every=1, trace_dir=tmp_path)
    rows = list(read(report.meta["trace"]).rows())
    one_by_one = judged(rows, 1)
    assert any(symptoms for _, symptoms, _ in one_by_one[0])
    for size in (7, 64, 1000):
        changed, said = judged(rows, size)
        assert said == one_by_one[1]
        assert sorted(changed, key=lambda one: one[0]) == one_by_one[0]


def test_rule_that_has_nothing_to_say_is_not_asked_at_each_row(tmp_path):
    report = run(dataclasses.replace(RULES[0].healthy, steps=90), probe_every=1, trace_dir=tmp_path)
    rows = list(read(report.meta["trace"]).rows())
    judge = Judge(Config())
    list(judge.update(rows[:40]))
    loud = {rule.name for rule in judge._loud(rows[40:56])}
    assert loud <= NEVER_QUIET


def test_rule_that_fails_at_a_block_is_named(tmp_path, monkeypatch):
    report = run(dataclasses.replace(RULES[0].healthy, steps=90), probe_every=1, trace_dir=tmp_path)
    rows = list(read(report.meta["trace"]).rows())

    def failing(self, state, block):
        raise KeyError("ours")

    monkeypatch.setattr(type(RULES[0]), "quiet", failing)
    _, said = judged(rows, 16)
    why = f"{RULES[0].name} failed: KeyError: 'ours'"
    assert said.skipped[RULES[0].code] == why
    assert said.verdict is Verdict.UNDETERMINED
    assert said.reason == why


def recorded(example, folder):
    report = run(dataclasses.replace(example, steps=40), probe_every=1, trace_dir=folder)
    return [row for row in read(report.meta["trace"]).rows() if row.probed]


def mixed(healthy, faulty, seed):
    """Rows of a healthy run, with more or less of a faulty one between them."""
    rng, rows = np.random.default_rng(seed), [(healthy, faulty)[seed % 2][0]]
    share = seed / 19
    for order in range(1, 60):
        source = faulty if rng.random() < share else healthy
        row = source[order % len(source)]
        rows.append(dataclasses.replace(row, order=order, step=order, events=()))
    common = {"program": faulty[0].program, "slots": faulty[0].slots}
    return [dataclasses.replace(row, **common) for row in rows]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_quiet_block_is_one_of_which_nothing_is_told(rule, tmp_path):
    healthy, faulty = recorded(rule.healthy, tmp_path / "a"), recorded(rule.faulty, tmp_path / "b")
    if healthy[0].stats.shape != faulty[0].stats.shape:  # other layers
        healthy = recorded(dataclasses.replace(rule.faulty, activation="relu"), tmp_path / "c")
    passed = found = 0
    for seed in range(20):
        rows = mixed(healthy, faulty, seed)
        state, told = rule.start(rows[0].program), []
        for row in rows:
            state, new = rule.update(state, row)
            told.extend(new)
        together, seen = rule.start(rows[0].program), []
        for start in range(0, len(rows), 1 + seed % 4):
            block = rows[start : start + 1 + seed % 4]
            if rule.quiet(together, Block(block)):
                passed += 1
                continue
            for row in block:
                together, new = rule.update(together, row)
                seen.extend(new)
        assert seen == told
        found += len(told)
    assert found or rule.name in BY_EVENT | NEVER_QUIET
    assert passed or rule.name in NEVER_QUIET
