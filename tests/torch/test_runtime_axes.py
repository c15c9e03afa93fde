"""The axis of a softmax, however it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from test_runtime_recorded import Small, X, Y, fit
from torch import Tensor, nn
from torch_watching import watched


@pytest.mark.parametrize(
    ("activate", "axis"),
    [
        (lambda x: F.softmax(x, dim=-1), 1),
        (lambda x: F.softmax(x, 0), 0),
        (lambda x: torch.softmax(x, -2), 0),
        (lambda x: x.softmax(dim=1), 1),
        (lambda x: F.log_softmax(x, dim=0), 0),
        (lambda x: F.gumbel_softmax(x, 0.5), 1),
        (lambda x: F.gumbel_softmax(x, 0.5, dim=0), 0),
        (nn.Softmax(dim=0), 0),
        (nn.Softmax(dim=-1), 1),
        (nn.LogSoftmax(dim=-2), 0),
        (lambda x: F.leaky_relu(x, 0.2), None),
        (nn.Tanh(), None),
    ],
    ids=[
        *("F.softmax", "F.softmax-0", "torch.softmax", "x.softmax", "F.log_softmax", "gumbel"),
        *("gumbel-0", "Softmax-0", "Softmax", "LogSoftmax", "F.leaky_relu", "Tanh"),
    ],
)
def test_the_axis_of_an_activation_has_one_spelling(
    activate: Any, axis: int | None, tmp_path: Path
) -> None:
    def program() -> None:
        fit(Small(activate), lambda m: F.cross_entropy(m(X), Y), steps=1)

    layers = watched(program, tmp_path).trace.program.layers
    shown = [spec for spec in layers if spec.activation != "linear"]
    assert [spec.config.get("axis") for spec in shown] == [axis]
    assert not any("activation_dim" in spec.config for spec in shown)


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize("activate", [nn.Softmax(), F.softmax], ids=["module", "call"])
def test_an_axis_that_was_not_given_is_the_one_that_torch_takes(
    activate: Any, tmp_path: Path
) -> None:
    class Cube(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 3)
            self.activate = activate

        def forward(self, x: Tensor) -> Tensor:
            return self.activate(self.fc(x.reshape(5, 2, 4)))

    def program() -> None:
        fit(Cube(), lambda m: F.mse_loss(m(X), torch.ones(5, 2, 3)), steps=1)

    layers = watched(program, tmp_path).trace.program.layers
    assert layers[-1].config["axis"] == 0  # of three axes the first
