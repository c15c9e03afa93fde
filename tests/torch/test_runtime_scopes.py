"""Several scopes in one process: each watches its own models, with its own settings."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn
from torch_watching import assert_nothing_left

import stethoscope
from stethoscope.config import Config
from stethoscope.monitor import FaultyTrainingError, Session
from stethoscope.torch import install
from stethoscope.torch.watch import _installed
from stethoscope.types import Severity


@pytest.fixture(autouse=True)
def nothing_left(folder, monkeypatch):
    monkeypatch.setenv("STETHOSCOPE_QUIET", "1")
    yield
    assert_nothing_left()
    assert _installed == []


def model_and_optimizer(seed=0):
    torch.manual_seed(seed)
    model = nn.Linear(4, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def train(model, optimizer, steps=5, *, twice=False):
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        x = torch.randn(32, 4, generator=generator)
        output = model(x).softmax(1) if twice else model(x)
        loss = nn.functional.cross_entropy(output, (x.sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def faults(report):
    return [d.fault for d in report.diagnoses if d.severity is not Severity.NOTE]


def test_a_scope_that_was_never_closed_keeps_none_from_watching():
    first, second = model_and_optimizer(), model_and_optimizer(1)
    forgotten = stethoscope.watch(*first)
    train(*first)
    with stethoscope.watch(*second) as scope:
        train(*second, steps=7, twice=True)
    assert scope.report.meta["steps"] == 7
    assert faults(scope.report) == ["double-activation"]
    assert forgotten.report.meta["steps"] == 5
    assert faults(forgotten.report) == []
    forgotten.close()


def test_each_scope_has_its_own_settings():
    first, second = model_and_optimizer(), model_and_optimizer(1)
    with (
        stethoscope.watch(*first) as mild,
        stethoscope.watch(*second, on_error="raise", probe_every=1) as strict,
    ):
        train(*first, twice=True)
        with pytest.raises(FaultyTrainingError, match="double-activation"):
            train(*second, twice=True)
    assert mild.report.meta["steps"] == 5
    assert strict.report.meta["steps"] == 1


def test_the_outer_scope_goes_on_after_the_inner_one():
    first, second = model_and_optimizer(), model_and_optimizer(1)
    with stethoscope.watch(*first) as outer:
        train(*first)
        with stethoscope.watch(*second) as inner:
            train(*first)
            train(*second)
        train(*second)  # nobody asked for this one
        train(*first)
    assert [r.meta["steps"] for r in outer.reports] == [15]
    assert [r.meta["steps"] for r in inner.reports] == [5]


def test_one_of_two_scopes_pauses():
    first, second = model_and_optimizer(), model_and_optimizer(1)
    with stethoscope.watch(*first) as pausing, stethoscope.watch(*second) as other:
        pausing.pause()
        train(*first)
        train(*second)
        pausing.resume()
        train(*first)
    assert [r.meta["steps"] for r in pausing.reports] == [5]
    assert [r.meta["steps"] for r in other.reports] == [5]


def test_a_closed_scope_is_not_gone_on_with():
    first, second = model_and_optimizer(), model_and_optimizer(1)
    with stethoscope.watch(*second):
        reports = []
        for steps in (3, 4):
            with stethoscope.watch(*first) as scope:
                train(*first, steps=steps)
            reports += scope.reports
    assert [r.meta["steps"] for r in reports] == [3, 4]


def test_a_model_that_is_watched_already_is_watched_once(monkeypatch, capsys):
    monkeypatch.delenv("STETHOSCOPE_QUIET")
    first = model_and_optimizer()
    with stethoscope.watch(*first) as outer:
        with stethoscope.watch(*first, on_error="raise") as inner:
            train(*first)
        assert inner.report.meta["steps"] == outer.report.meta["steps"] == 5
        told = capsys.readouterr().err
    assert told == (
        "stethoscope: this model is watched already: the settings of that hold, "
        "not those of this watch().\n"
    )


def test_inside_run_a_scope_shows_its_own_model():
    first, second = model_and_optimizer(), model_and_optimizer(1)
    session = Session(Config(quiet=True), stderr=io.StringIO())
    uninstall = install(session)
    train(*first)
    with stethoscope.watch(*second) as scope:
        train(*second, steps=7)
    assert [r.meta["steps"] for r in scope.reports] == [7]
    assert [r.meta["steps"] for r in session.reports] == [5, 7]
    uninstall()
    session.close()


def test_the_last_of_several_runs_is_the_report():
    first, second = model_and_optimizer(), model_and_optimizer(1)
    with stethoscope.watch([first[0], second[0]]) as scope:
        train(*first)
        train(*second, steps=7)
    assert [r.meta["steps"] for r in scope.reports] == [5, 7]
    assert scope.report.meta["steps"] == 7


def test_an_optimizer_of_another_model_is_told_at_once(monkeypatch, capsys):
    monkeypatch.delenv("STETHOSCOPE_QUIET")
    (model, _), (_, optimizer) = model_and_optimizer(), model_and_optimizer(1)
    with stethoscope.watch(model, optimizer) as scope:
        told = capsys.readouterr().err
        train(model, optimizer)
    assert "the SGD that was given updates no parameter of the model" in told
    assert "updates no parameter of the model" in scope.report.reason


@pytest.mark.parametrize(
    "given", [(None,), (3,), (nn.Linear(1, 1), 3)], ids=["none", "int", "rate"]
)
def test_what_is_no_model_or_optimizer_is_refused_in_words(given):
    with pytest.raises(TypeError, match=r"must be a torch\.\w+\.\w+.*, got (NoneType|int)"):
        stethoscope.watch(*given)
