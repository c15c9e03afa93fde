"""Optimizers that change while the run goes on: steps are counted on, and each is listed once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch_watching import watched

from stethoscope.trace import Trace

X = torch.linspace(-1, 1, 40).reshape(10, 4)
Y = torch.arange(10) % 3
HALF = 4


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def train(model: nn.Module, optimizers: Iterator[torch.optim.Optimizer]) -> None:
    for optimizer in optimizers:
        model.zero_grad()
        F.cross_entropy(model(X), Y).backward()
        optimizer.step()


def sgd(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=0.1)


def group_added(model: nn.Sequential) -> Iterator[torch.optim.Optimizer]:
    optimizer = sgd(model[2])
    for step in range(2 * HALF):
        if step == HALF:
            optimizer.add_param_group({"params": model[0].parameters()})
        yield optimizer


def made_anew(model: nn.Sequential) -> Iterator[torch.optim.Optimizer]:
    for _ in range(2 * HALF):
        yield sgd(model)


def second_phase(model: nn.Sequential) -> Iterator[torch.optim.Optimizer]:
    first = sgd(model)
    yield from [first] * HALF
    second = torch.optim.Adam(model.parameters())
    yield from [second] * HALF
    del first  # it lived until here


def head_then_all(model: nn.Sequential) -> Iterator[torch.optim.Optimizer]:
    yield from [sgd(model[2])] * HALF
    yield from [torch.optim.Adam(model.parameters())] * HALF


@pytest.mark.parametrize(
    ("schedule", "listed"),
    [
        (group_added, ["sgd"]),
        (made_anew, ["sgd"]),
        (second_phase, ["adam"]),
        (head_then_all, ["adam"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_steps_are_counted_on(schedule: object, listed: list[str], tmp_path: Path) -> None:
    model = net()
    trace: Trace = watched(lambda: train(model, schedule(model)), tmp_path).trace  # type: ignore[operator]
    assert [row.step for row in trace.rows()] == list(range(2 * HALF))
    assert [spec.name for spec in trace.program.optimizers] == listed
    assert len(trace.program.optimizers[0].params) == 4


def test_two_optimizers_that_take_turns_on_the_same_weights_are_both_listed(
    tmp_path: Path,
) -> None:
    model = net()

    def turns() -> Iterator[torch.optim.Optimizer]:
        pair = sgd(model), torch.optim.Adam(model.parameters())
        for _ in range(HALF):
            yield from pair

    trace = watched(lambda: train(model, turns()), tmp_path).trace
    assert [spec.name for spec in trace.program.optimizers] == ["sgd", "adam"]
    revisions = [row.program.optimizers for row in trace.rows()]
    assert sum(a != b for a, b in itertools.pairwise(revisions)) == 2


def test_an_optimizer_that_is_gone_stays_listed_with_its_weights(tmp_path: Path) -> None:
    model = net()

    def parts() -> Iterator[torch.optim.Optimizer]:
        yield from [sgd(model[0])] * HALF
        yield from [torch.optim.Adam(model[2].parameters())] * HALF

    trace = watched(lambda: train(model, parts()), tmp_path).trace
    assert [spec.name for spec in trace.program.optimizers] == ["sgd", "adam"]
    assert [row.step for row in trace.rows()] == [*range(HALF), *range(HALF)]
