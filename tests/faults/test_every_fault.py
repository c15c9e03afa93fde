"""Every fault is shown by a program, and its first change makes the program learn.

The programs are the faulty examples of the rules that show the fault, or one written below.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import pytest
import torch
from torch import nn

import stethoscope
from stethoscope.example import Example
from stethoscope.faults import all_faults
from stethoscope.rules import all_rules
from stethoscope.types import Change, Diagnosis, Op, Report
from tests.runner import run

OTHER_FAULTS = 1

NOT_SHOWN = {
    "unsuitable-optimizer": "named only where nothing else explains a flat loss",
}
NOT_APPLIED = {
    "nonfinite-input": "which rows to drop is for the program to say; a run without them is the "
    "healthy example of its rule",
    "nonfinite-target": "as for inputs",
    "constant-target": "the targets as they were before the cast are not in the example",
    "missing-hidden-activation": "the program learns before and after: the fault costs depth",
    "exploding-recurrence": "clipping gradients does not mend a forward pass that overflows",
    **NOT_SHOWN,
}


def program(model, x, y, loss, *, steps=150, rate=0.1, folder):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    with stethoscope.watch(model, optimizer, quiet=True, trace_dir=folder) as scope:
        for _ in range(steps):
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
    return scope.report


def dying_relu(change: Change | None, folder: str) -> Report:
    """All weights are positive and all inputs negative: no unit ever responds."""
    torch.manual_seed(0)
    x = -torch.rand(64, 4) - 0.1
    hidden = nn.ReLU() if change is None else {"leaky_relu": nn.LeakyReLU}[change.value]()
    model = nn.Sequential(nn.Linear(4, 16), hidden, nn.Linear(16, 1))
    with torch.no_grad():
        model[0].weight.abs_()
        model[0].bias.zero_()
    y = 5 * (x[:, :1] - x[:, 1:2])
    return program(model, x, y, nn.functional.mse_loss, rate=0.05, steps=400, folder=folder)


def invalid_operation(change: Change | None, folder: str) -> Report:
    """The root of a distance that is 0 for one row: its gradient is infinite."""
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    x[5] = 0
    y = x[:, :2] * 2
    epsilon = change.value["epsilon"] if change is not None else 0.0

    def distance(p, t):
        return torch.sqrt(((p - t) ** 2).sum(1) + epsilon).mean()

    return program(nn.Linear(4, 2, bias=False), x, y, distance, rate=0.05, folder=folder)


def half_precision(change: Change | None, folder: str) -> Report:
    """The squared errors are beyond 65,504."""
    torch.manual_seed(0)
    kind = torch.float16 if change is None else getattr(torch, change.value)
    x = torch.randn(64, 4).to(kind)
    loss = nn.functional.mse_loss
    return program(nn.Linear(4, 1).to(kind), x, x[:, :1] * 400, loss, rate=0.05, folder=folder)


def exploding_recurrence(change: Change | None, folder: str) -> Report:
    """Each position multiplies the state by 20."""
    assert change is None
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.memory = nn.RNN(2, 16, nonlinearity="relu", batch_first=True)
            self.out = nn.Linear(16, 1)
            with torch.no_grad():
                self.memory.weight_hh_l0.copy_(20 * torch.eye(16))

        def forward(self, x):
            return self.out(self.memory(x)[0][:, -1])

    x = torch.randn(64, 40, 2)
    y = x[:, :, :1].mean(1) * 5
    return program(Model(), x, y, nn.functional.mse_loss, rate=0.001, steps=30, folder=folder)


WRITTEN: dict[str, Callable[[Change | None, str], Report]] = {
    "dying-relu": dying_relu,
    "invalid-operation": invalid_operation,
    "half-precision-overflow": half_precision,
    "exploding-recurrence": exploding_recurrence,
}


@functools.cache
def example_report(example: Example, folder: str) -> Report:
    return run(example, trace_dir=folder)


def named(report: Report, fault: str) -> Diagnosis | None:
    return next((d for d in report.diagnoses if d.fault == fault), None)


@functools.cache
def shown(fault: str, folder: str) -> tuple[Example | None, Diagnosis | None]:
    if fault in WRITTEN:
        return None, named(WRITTEN[fault](None, folder), fault)
    (wanted,) = [f for f in all_faults() if f.name == fault]
    for rule in all_rules():
        if rule.name in wanted.shown_by:
            found = named(example_report(rule.faulty, folder), fault)
            if found is not None:
                return rule.faulty, found
    return None, None


def applied(example: Example, change: Change) -> Example:
    """The example with the change made by hand."""
    path, value, field = change.path, change.value, change.path.rpartition(".")[2]
    if path == "optimizer.learning_rate":
        return dataclasses.replace(example, learning_rate=value, frozen_rate_from=None)
    if path == "loss.name":
        return dataclasses.replace(example, loss=value, from_logits=value != "mse")
    if path == "loss.prediction_shape":
        return dataclasses.replace(example, flat_prediction=False)
    if path == "fit.batch_size":
        return dataclasses.replace(example, batch=value)
    if field == "units":  # with the loss for class ids, as its title says
        loss = "sparse_categorical_crossentropy"
        return dataclasses.replace(example, outputs=value, loss=loss, from_logits=True)
    if field in ("bias", "rate", "axis"):
        name = {"rate": "dropout", "axis": "softmax_axis"}.get(field, field)
        return dataclasses.replace(example, **{name: value})
    if field == "activation":
        kind = "linear" if change.op is Op.REMOVE else value
        number = int(path[len("layers[") :].partition("]")[0])
        hidden = len(example.hidden) * 2 > number and example.activation != "linear"
        name = "activation" if hidden else "output_activation"
        logits = example.from_logits and kind not in ("sigmoid", "softmax")
        return dataclasses.replace(example, **{name: kind}, from_logits=logits)
    if path == "data.input[0]":
        columns = value["standardize"].values()
        size = sum(c["std"] for c in columns) / len(columns)
        middle = sum(c["mean"] for c in columns) / len(columns)
        offset = (example.input_offset - middle) / size
        return dataclasses.replace(
            example, input_scale=example.input_scale / size, input_offset=offset
        )
    if path == "data.target[0]" and "standardize" in value:
        (column,) = value["standardize"].values()
        return dataclasses.replace(
            example,
            target_scale=example.target_scale / column["std"],
            target_offset=(example.target_offset - column["mean"]) / column["std"],
        )
    if path == "data.target[0]" and "map" in value:
        (low, high) = map(float, value["map"])
        return dataclasses.replace(
            example, target_scale=example.target_scale / (high - low), target_offset=-low
        )
    raise AssertionError(f"no way to apply {change}")


FAULTS = [fault.name for fault in all_faults()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("traces"))


def test_the_exceptions_are_faults():
    assert {*NOT_SHOWN, *NOT_APPLIED, *WRITTEN} <= set(FAULTS)


@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in NOT_SHOWN])
def test_is_shown_by_a_program(fault, folder):
    assert shown(fault, folder)[1] is not None


@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in NOT_APPLIED])
def test_its_first_change_makes_the_program_learn(fault, folder):
    example, diagnosis = shown(fault, folder)
    assert diagnosis is not None
    change = diagnosis.fixes[0].change
    if example is None:
        mended = WRITTEN[fault](change, folder)
    else:
        example = dataclasses.replace(example, steps=3 * example.steps)
        for _ in range(1 + OTHER_FAULTS):  # the example may have more than one
            example = applied(example, change)
            mended = run(example, trace_dir=folder)
            if mended.meta["harm"] == "learning" or not mended.diagnoses:
                break
            change = mended.diagnoses[0].fixes[0].change
    found = named(mended, fault)
    assert found is None, found.message
    assert mended.meta["harm"] == "learning", mended.reason
