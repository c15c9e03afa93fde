"""Warnings and tracebacks of a watched run are those of the bare run."""

from __future__ import annotations

import traceback
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch_watching import watched

X = torch.linspace(-1, 1, 40).reshape(10, 4)


def functional(out: Tensor) -> Tensor:
    return F.mse_loss(out, torch.ones(10))


def module(out: Tensor) -> Tensor:
    return nn.MSELoss()(out, torch.ones(10))


def two_lines(out: Tensor) -> Tensor:
    first = F.mse_loss(out, torch.ones(10))
    return first + F.mse_loss(out, torch.ones(10))


def from_c(out: Tensor) -> Tensor:
    return torch.complex(out, out).mul(1).to(torch.float32).mean()


def of_the_axis(out: Tensor) -> Tensor:
    return F.softmax(out).sum()


def places(loss: object, steps: int = 3) -> list[tuple[str, int, str]]:
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    globals().pop("__warningregistry__", None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")  # once a line
        for _ in range(steps):
            optimizer.zero_grad()
            loss(model(X)).backward()  # type: ignore[operator]
            optimizer.step()
    return [(w.filename, w.lineno, str(w.message)) for w in caught]


@pytest.mark.parametrize(
    "loss", [functional, module, two_lines, from_c, of_the_axis], ids=lambda f: f.__name__
)
def test_a_warning_names_the_line_of_the_bare_run(loss: object, tmp_path: Path) -> None:
    torch.set_warn_always(True)  # else what is written in C++ warns once a process
    try:
        bare = places(loss)
        nn.modules.loss.__dict__.pop("__warningregistry__", None)
        seen = watched(lambda: places(loss), tmp_path, probe_every=2).value
    finally:
        torch.set_warn_always(False)
    assert bare
    assert seen == bare


@pytest.mark.parametrize("every", [1, 1000], ids=["probed", "plain"])
def test_an_exception_in_a_torch_call_has_one_frame_of_the_users_line(
    every: int, tmp_path: Path
) -> None:
    def program() -> list[tuple[str, int | None]]:
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(30):
            try:
                F.cross_entropy(model(X), torch.zeros(10 + (step > 25)).long()).backward()
            except ValueError as error:
                return [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
            optimizer.step()
        return []

    frames = watched(program, tmp_path, probe_every=every).value
    own = [f for f in frames if f[0] == __file__]
    assert len(own) == 1
    assert frames[-1][0].endswith("functional.py")
