"""Targets that the program leaves out of its loss accuse nothing, and neither does a late rate."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import stethoscope
from stethoscope.faults._base import Findings
from stethoscope.faults._measure import Measurements
from stethoscope.faults.learning_rate_zero import LearningRateZero
from stethoscope.program import FitSpec, OptimizerSpec, Program
from stethoscope.rules.zero_learning_rate import ZeroRate
from stethoscope.types import Evidence, Place, PlaceKind, Report, Severity

PROJECTION = torch.randn(6, generator=torch.Generator().manual_seed(1))


def accused(report: Report) -> list[str]:
    return [d.fault for d in report.diagnoses if d.severity is not Severity.NOTE]


def train(loss, labels, folder, outputs=1) -> Report:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, outputs))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x = torch.randn(1000, 6)
    y = labels((x @ PROJECTION > 0).float())
    with stethoscope.watch(model, optimizer, quiet=True, trace_dir=folder) as scope:
        for _ in range(150):
            rows = torch.randint(0, 1000, (50,))
            optimizer.zero_grad()
            loss(model(x[rows]).squeeze(1), y[rows]).backward()
            optimizer.step()
    return scope.report


def two_is_unknown(t: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.arange(len(t)) % 5 == 0, torch.tensor(2.0), t)


def masked(p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    each = functional.binary_cross_entropy_with_logits(p, t, reduction="none")
    return (each * (t <= 1) * (t >= 0)).mean() + 0.1 * torch.sigmoid(p).mean()


def distant(p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    each = functional.mse_loss(p.sigmoid(), t, reduction="none")
    return each[t != -999].mean()


LABELS = {
    "two is left out": (masked, two_is_unknown),
    "minus one is left out": (masked, lambda t: 2 * t - 1),
    "a value out of range is left out": (
        distant,
        lambda t: torch.where(torch.arange(len(t)) % 3 == 0, torch.tensor(-999.0), t),
    ),
}


@pytest.mark.parametrize("case", LABELS)
def test_targets_that_are_left_out_accuse_nothing(case, tmp_path):
    loss, labels = LABELS[case]
    assert accused(train(loss, labels, str(tmp_path))) == []


@pytest.mark.parametrize(
    ("labels", "fault"),
    [
        pytest.param(two_is_unknown, "output-width-mismatch", id="three-classes"),
        pytest.param(lambda t: 2 * t - 1, "label-encoding", id="minus-one-and-one"),
    ],
)
def test_the_same_targets_are_an_error_where_all_are_taken(labels, fault, tmp_path):
    report = train(functional.binary_cross_entropy_with_logits, labels, str(tmp_path))
    assert [(d.fault, d.severity) for d in report.diagnoses[:1]] == [(fault, Severity.ERROR)]


def test_rate_that_leaves_0_is_not_accused(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
    severities = []
    with stethoscope.watch(model, optimizer, quiet=True, trace_dir=str(tmp_path)) as scope:
        for step in range(200):
            x = torch.randn(64, 6)
            optimizer.zero_grad()
            functional.mse_loss(model(x), (x @ PROJECTION)[:, None]).backward()
            optimizer.step()
            if step == 15:
                severities = [d.severity for d in scope.report.diagnoses]
                optimizer.param_groups[0]["lr"] = 0.01
    assert severities == [Severity.ERROR]
    assert accused(scope.report) == []


BY_EPOCHS = FitSpec(epochs=5, steps_per_epoch=16)


@pytest.mark.parametrize(
    ("schedule", "fit", "steps", "fatal"),
    [
        pytest.param(None, FitSpec(), 10, True, id="plain-loop"),
        pytest.param("LambdaLR", FitSpec(), 10, False, id="schedule"),
        pytest.param(None, BY_EPOCHS, 16, False, id="first-epoch"),
        pytest.param(None, BY_EPOCHS, 17, True, id="second-epoch"),
        pytest.param(None, FitSpec(epochs=1, steps_per_epoch=16), 10, True, id="only-epoch"),
    ],
)
def test_rate_of_0_is_fatal_where_nothing_will_raise_it(schedule, fit, steps, fatal):
    optimizer = OptimizerSpec("sgd", "SGD", schedule=schedule)
    rule, measured = ZeroRate(), Measurements()
    measured.rate, measured.steps = 0.0, steps
    place = Place(PlaceKind.HYPERPARAMETER, path="optimizer.learning_rate")
    symptom = rule.symptom(place, [Evidence("learning rate", 0.0, 0.0, "=")], "It is 0.")
    program = Program("torch", optimizers=(optimizer,), fit=fit)
    (suspect,) = LearningRateZero().consider(Findings(program, (symptom,), measured))
    assert suspect.fatal is fatal
