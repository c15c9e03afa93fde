"""When something is not finite: what is named, and that looking changed nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch_watching import watched

from stethoscope.trace import Trace

STEP = 37


class Overflow(nn.Module):
    """Finite until it is told otherwise; draws random numbers, as a dropout does."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = False

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(x, 0.2)
        return torch.log(x - x.max() - 1) if self.broken else x


class Root(torch.autograd.Function):
    """Finite forward, NaN backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * float("nan")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.middle = Overflow()
        self.last = nn.Linear(8, 3)
        self.backward_fault = False
        self.scale = 1.0

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.middle(self.norm(self.first(x)))
        if self.backward_fault:
            hidden = Root.apply(hidden)
        return self.last(hidden)


def break_input(model: Net, x: Tensor, y: Tensor) -> None:
    x[5, 2] = float("nan")


def break_parameter(model: Net, x: Tensor, y: Tensor) -> None:
    with torch.no_grad():
        model.last.weight[1, 1] = float("inf")


def break_buffer(model: Net, x: Tensor, y: Tensor) -> None:
    model.norm.running_mean[0] = float("nan")
    model.norm.eval()


def break_forward(model: Net, x: Tensor, y: Tensor) -> None:
    model.middle.broken = True


def break_loss(model: Net, x: Tensor, y: Tensor) -> None:
    model.scale = 0.0


def break_backward(model: Net, x: Tensor, y: Tensor) -> None:
    model.backward_fault = True


EXPECTED: dict[Callable[[Net, Tensor, Tensor], None], dict[str, Any]] = {
    break_input: {"stage": "input", "param": "0", "rows": [5], "what": "nan"},
    break_parameter: {"stage": "weight", "layer": "last", "param": "weight", "what": "inf"},
    break_buffer: {"stage": "weight", "layer": "norm", "param": "running_mean", "what": "nan"},
    break_forward: {"stage": "output", "layer": "middle", "what": "nan"},
    break_loss: {"stage": "loss", "what": "inf"},
    break_backward: {"stage": "weight_grad", "layer": "norm", "param": "bias", "what": "nan"},
}


def train(breaking: Callable[[Net, Tensor, Tensor], None], steps: int = 45) -> list[Tensor]:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
        if step == STEP:
            breaking(model, x, y)
        optimizer.zero_grad()
        (F.cross_entropy(model(x), y) / model.scale).backward()
        optimizer.step()
    return [value.clone() for value in model.state_dict().values()]


def first_event(trace: Trace) -> tuple[int, dict[str, Any]]:
    # The scan's finding carries `what`; a plain non-finite loss carries `value`.
    return next((s, dict(e.payload)) for s, e in trace.events if "what" in e.payload)


@pytest.mark.parametrize("every", [1, 1000], ids=["all-probed", "plain-step"])
@pytest.mark.parametrize("breaking", EXPECTED, ids=lambda f: f.__name__)
def test_the_first_nonfinite_thing_is_named(
    breaking: Callable[[Net, Tensor, Tensor], None], every: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    bare = train(breaking)
    seen = watched(lambda: train(breaking), tmp_path, probe_every=every)
    step, payload = first_event(seen.trace)
    assert step == STEP
    expected = EXPECTED[breaking]
    assert {key: payload[key] for key in expected} == expected
    same = [
        torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(bare, seen.value, strict=True)
    ]
    assert all(same), "looking for the NaN changed the run"


def test_finite_gradients_whose_squares_overflow_are_no_event(tmp_path: Path) -> None:
    def program() -> None:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-30)
        for _ in range(30):
            optimizer.zero_grad()
            (model(torch.ones(4, 2)) * 1e25).sum().backward()
            optimizer.step()

    trace = watched(program, tmp_path).trace
    assert not [e for _, e in trace.events if e.kind == "nonfinite"]


def test_at_most_three_scans(tmp_path: Path) -> None:
    trace = watched(lambda: train(break_parameter, 60), tmp_path).trace
    assert len({s for s, e in trace.events if "what" in e.payload}) == 3


def test_a_weight_that_is_not_finite_is_listed_once(tmp_path: Path) -> None:
    trace = watched(lambda: train(break_input, 60), tmp_path).trace
    found = [(s, e.payload["stage"]) for s, e in trace.events if "what" in e.payload]
    weights = len(list(Net().parameters()))
    assert [s for s, stage in found if stage == "weight"].count(STEP + 1) >= weights
    assert [s for s, _ in found if s > STEP + 1] == [STEP + 2]
    later = [e for s, e in trace.events if s > STEP + 2 and e.kind == "nonfinite"]
    assert len(later) == 60 - STEP - 3, "one event a step: the loss"


class Divided(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(x))
        masked = hidden.masked_fill(hidden < 0.1, -torch.inf)  # an infinity that is meant
        masked = torch.exp(masked)
        hidden = masked * 0 / (hidden * 0)
        return self.last(hidden)


def test_the_line_of_a_users_forward_that_divides_by_zero_is_named(tmp_path):
    def train():
        model = Divided()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(8, 4)).mean().backward()
            optimizer.step()

    seen = watched(train, tmp_path)
    source = seen.reports[0].diagnoses[0].place.source
    lines, first = inspect.getsourcelines(Divided.forward)
    assert source is not None
    assert lines[source.line - first].strip() == "hidden = masked * 0 / (hidden * 0)"
