"""What an adapter cannot see reaches the user, with its reason."""

import numpy as np
import pytest

from stethoscope.config import Config
from stethoscope.diagnosis.judge import Judge
from stethoscope.program import Program
from stethoscope.report.terminal import render
from stethoscope.rules import all_rules
from stethoscope.trace import Row, RowKind, Slots
from stethoscope.types import Stage

REASON = "the frobnicator hides it"


def report(unseen):
    judge = Judge(Config())
    program = Program("torch", unseen=unseen)
    list(judge.update([Row(0, 0, 0, 0, RowKind.STEP, program, Slots(), np.array([]))]))
    return judge.report({}, {})


@pytest.mark.parametrize("stage", list(Stage))
def test_a_stage_that_is_not_seen_is_why_its_rules_are_skipped(stage):
    skipped = report({stage: REASON}).skipped
    reading = {r.code for r in all_rules() if stage in r.needs}
    told = {code for code, reason in skipped.items() if reason == REASON}
    assert {r.code for r in all_rules() if r.needs == {stage}} <= told <= reading
    assert reading <= skipped.keys()


def test_what_no_rule_was_skipped_for_is_told_under_the_report():
    unseen = {"layer out": REASON, Stage.LOSS: "no loss function was called"}
    found = report(unseen)
    assert found.meta["unseen"] == {"layer out": REASON}
    assert REASON in render([found], color=False, verbose=True, width=100)
    assert REASON not in render([found], color=False, verbose=False, width=100)
