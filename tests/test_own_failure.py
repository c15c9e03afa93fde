"""An error of ours in the middle of a run: the training goes on, and nothing is called healthy."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from torch import nn

from stethoscope import cli, engine, watch
from stethoscope.config import Config
from stethoscope.diagnosis import judge as judges
from stethoscope.diagnosis.judge import check
from stethoscope.monitor import Session
from stethoscope.program import Program
from stethoscope.rules import all_rules
from stethoscope.types import Report, Severity, Stage, Verdict

BREAKS_AT = 100


def breaking(real, at: int = BREAKS_AT):
    """`real` until its call number `at`."""
    calls = iter(range(at))

    def broken(*args, **kwargs):
        if next(calls, None) is None:
            raise KeyError("ours")
        return real(*args, **kwargs)

    return broken


def with_torch(monkeypatch, folder) -> Report:
    from stethoscope.torch import losses_seen

    monkeypatch.setattr(losses_seen, "backward", breaking(losses_seen.backward))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, quiet=True, trace_dir=str(folder)) as scope:
        for step in range(300):
            x = torch.randn(64, 8)
            y = (x[:, 0] > 0).long()
            if step == 200:
                x[0, 0] = float("nan")  # what nobody sees any more
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return scope.report


def with_the_engine(monkeypatch, folder) -> Report:
    from stethoscope.engine.run import Run

    monkeypatch.setattr(Run, "take", breaking(Run.take))
    rows = np.random.default_rng(0).normal(size=(640, 4))
    model = engine.Sequential([engine.Dense(1)])
    model.compile("sgd", "mse")
    with engine.watch(model, quiet=True, trace_dir=str(folder)) as scope:
        model.fit(rows, rows[:, :1], batch_size=32, epochs=10)
    return scope.report


def assert_is_told(report: Report) -> None:
    assert report.verdict is Verdict.UNDETERMINED
    assert "KeyError: 'ours'" in report.reason
    assert f"from step {BREAKS_AT} on" in report.reason
    assert report.ran == ()
    assert report.skipped == {rule.code: report.reason for rule in all_rules()}


@pytest.mark.parametrize("watched", [with_torch, with_the_engine])
def test_verdict_is_undetermined_and_every_rule_is_skipped(watched, monkeypatch, tmp_path):
    report = watched(monkeypatch, tmp_path)
    assert_is_told(report)
    again = check(report.meta["trace"])
    assert_is_told(again)
    assert again.reason == report.reason


def test_failure_before_the_first_step_is_the_reason(monkeypatch, tmp_path):
    from stethoscope.torch.registry import Registry

    monkeypatch.setattr(Registry, "root_of", breaking(Registry.root_of, at=0))
    model = nn.Linear(2, 1)
    with watch(model, quiet=True, trace_dir=str(tmp_path)) as scope:
        model(torch.ones(1, 2))
    assert scope.report.verdict is Verdict.UNDETERMINED
    assert "KeyError: 'ours'" in scope.report.reason


def train(session: Session, losses: np.ndarray) -> Report:
    monitor = session.open(Program("torch", "2.0"))
    for step, loss in enumerate(losses):
        monitor.recorder.scalar(Stage.LOSS, float(loss))
        monitor.end_step(step)
    return monitor.close()


FALLING = 2 * np.exp(-np.arange(200) / 50)


@pytest.mark.parametrize("part", ["a rule", "harm"])
def test_judging_that_fails_is_told_once_and_is_not_healthy(part, monkeypatch, tmp_path):
    if part == "harm":
        monkeypatch.setattr(judges.harms, "judge", breaking(judges.harms.judge, at=0))
    else:
        rule = next(rule for rule in all_rules() if rule.name == "loss-not-decreasing")
        monkeypatch.setattr(type(rule), "update", breaking(type(rule).update, at=50))
    stderr = io.StringIO()
    session = Session(Config(trace_dir=str(tmp_path)), "train.py", stderr)
    report = train(session, FALLING)
    assert report.verdict is Verdict.UNDETERMINED
    assert "KeyError: 'ours'" in report.reason
    assert stderr.getvalue().count("KeyError: 'ours'") == 1
    assert session.failed


def test_what_was_found_before_stands(tmp_path):
    session = Session(Config(trace_dir=str(tmp_path)), "train.py", io.StringIO())
    monitor = session.open(Program("torch", "2.0"))
    monitor.recorder.scalar(Stage.LOSS, float("nan"))
    monitor.end_step(0)
    found = monitor.report()
    assert found.verdict is Verdict.FAULTY
    monitor.fail("KeyError: 'ours'")
    report = monitor.close()
    assert (report.verdict, report.reason) == (Verdict.FAULTY, found.reason)
    assert [d.severity for d in report.diagnoses] == [Severity.ERROR]
    assert cli._exit_code(session.config, [report], failed=True) == 1


DRIVER = """
from stethoscope import cli
from stethoscope.torch import losses_seen

calls, real = iter(range(50)), losses_seen.backward

def broken(*args):
    if next(calls, None) is None:
        raise KeyError("ours")
    return real(*args)

losses_seen.backward = broken
raise SystemExit(cli.main())
"""
TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100):
    x = torch.randn(16, 4)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()
"""


def test_exit_code_is_that_of_an_error_of_ours(stethoscope, write):
    watched = stethoscope("run", write("train.py", TRAIN), driver=write("driver.py", DRIVER))
    assert watched.returncode == cli.USAGE
    assert "UNDETERMINED" in watched.stderr
    assert "from step 50 on nothing was seen" in " ".join(watched.stderr.split())
    assert stethoscope("check").returncode == cli.USAGE
