"""Every rule accuses its faulty example and leaves its healthy one alone."""

from __future__ import annotations

import functools

import pytest

from stethoscope.example import Example
from stethoscope.rules import all_rules
from stethoscope.types import Report, Severity
from tests.runner import run


@functools.cache
def report(example: Example, folder: str) -> Report:
    return run(example, trace_dir=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("traces"))


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_accuses_its_faulty_example(rule, folder):
    names = {symptom.name for symptom in report(rule.faulty, folder).symptoms}
    assert rule.name in names


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_leaves_its_healthy_example_alone(rule, folder):
    healthy = report(rule.healthy, folder)
    assert rule.name not in {symptom.name for symptom in healthy.symptoms}
    assert [d.fault for d in healthy.diagnoses if d.severity is not Severity.NOTE] == []
