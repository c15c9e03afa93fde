"""Programs that look faulty to one rule or another and are not: none may be accused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

import stethoscope
from stethoscope.types import Report, Severity

Batch = tuple[torch.Tensor, torch.Tensor]
PROJECTION = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))


def mlp(outputs: int, *ending: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, outputs), *ending)


def classes(rows: int = 64) -> Batch:
    x = torch.randn(rows, 8)
    return x, (x @ PROJECTION).argmax(1)


def values() -> Batch:
    x = torch.randn(64, 8)
    return x, torch.tanh(x[:, :1]) + 0.5 * x[:, 1:2]


def ignored() -> Batch:
    x, y = classes()
    y[::4] = 3
    return x, y


def mostly_ignored() -> Batch:
    x, y = classes(256)
    y[torch.rand(256) < 0.9] = -100
    return x, y


def one_sample() -> Batch:
    x, y = classes(1)
    return x[0], y[0]


def one_position() -> Batch:
    x, y = classes()
    return x[:, None], y


def weighted_rows() -> Batch:
    x, y = classes()
    return x, functional.one_hot(y, 3) * (1 + 3 * torch.rand(64, 1))


def large_values() -> Batch:
    x, y = values()
    return x, 3000 + 800 * y


def raw_pixels() -> Batch:
    x, y = classes()
    return (x.clamp(-3, 3) + 3) * 40, y


class Attention(nn.Module):
    """Softmax over one position, inside."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.score, self.out = nn.Linear(8, 16), nn.Linear(16, 1), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(x).relu()
        weight = functional.softmax(self.score(hidden).squeeze(-1), dim=1)
        return self.out((weight.unsqueeze(-1) * hidden).sum(1))


class Residual(nn.Module):
    """A branch that starts at 0."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.branch, self.out = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 3)
        nn.init.zeros_(self.branch.weight)
        nn.init.zeros_(self.branch.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).relu()
        return self.out(x + self.branch(x))


def zero_head() -> nn.Module:
    model = mlp(3)
    nn.init.zeros_(model[-1].weight)
    return model


def pairwise(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (prediction.unsqueeze(-1) - target.unsqueeze(1)).abs().mean()


CrossEntropy = nn.CrossEntropyLoss
PROGRAMS: dict[
    str, tuple[Callable[[], nn.Module], Callable[..., torch.Tensor], Callable[[], Batch]]
]
PROGRAMS = {
    "ignored id beyond the classes": (lambda: mlp(3), CrossEntropy(ignore_index=3), ignored),
    "nearly all labels ignored": (lambda: mlp(3), CrossEntropy(), mostly_ignored),
    "one sample without a batch axis": (lambda: mlp(3), functional.cross_entropy, one_sample),
    "attention over one position": (Attention, functional.cross_entropy, one_position),
    "branch that starts at 0": (Residual, functional.cross_entropy, classes),
    "head that starts at 0": (zero_head, functional.cross_entropy, classes),
    "label smoothing": (lambda: mlp(3), CrossEntropy(label_smoothing=0.1), classes),
    "class weights": (lambda: mlp(3), CrossEntropy(weight=torch.tensor([1.0, 5, 1])), classes),
    "weighted one-hot rows": (lambda: mlp(3), functional.cross_entropy, weighted_rows),
    "log_softmax and nll": (lambda: mlp(3, nn.LogSoftmax(1)), functional.nll_loss, classes),
    "pairwise loss": (lambda: mlp(5), pairwise, values),
    "targets in the thousands": (lambda: mlp(1), functional.mse_loss, large_values),
    "softplus output": (
        lambda: mlp(1, nn.Softplus()),
        functional.mse_loss,
        lambda: (lambda x, y: (x, y.abs()))(*values()),
    ),
    "raw pixels, batch-normed": (
        lambda: nn.Sequential(nn.BatchNorm1d(8), mlp(3)),
        functional.cross_entropy,
        raw_pixels,
    ),
    "huber": (lambda: mlp(1), nn.HuberLoss(), values),
    "squared error on one-hot rows": (
        lambda: mlp(3, nn.Softmax(1)),
        lambda p, y: functional.mse_loss(p, functional.one_hot(y, 3).float()),
        classes,
    ),
}


def train(model: nn.Module, loss: Callable[..., torch.Tensor], batch: Callable[[], Batch],
          optimizer: torch.optim.Optimizer, folder: str) -> Report:  # fmt: skip
    with stethoscope.watch(model, optimizer, quiet=True, trace_dir=folder) as scope:
        for _ in range(150):
            x, y = batch()
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
    return scope.report


def accused(report: Report) -> list[str]:
    return [d.fault for d in report.diagnoses if d.severity is not Severity.NOTE]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", PROGRAMS)
def test_is_not_accused(name, seed, tmp_path):
    torch.manual_seed(seed)
    make, loss, batch = PROGRAMS[name]
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    assert accused(train(model, loss, batch, optimizer, str(tmp_path))) == []


def test_group_that_rests_at_a_rate_of_0_is_not_accused(tmp_path):
    torch.manual_seed(0)
    model = mlp(3)
    groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2].parameters()}]
    optimizer = torch.optim.Adam(groups, lr=1e-2)
    report = train(model, functional.cross_entropy, classes, optimizer, str(tmp_path))
    assert accused(report) == []
    assert report.meta["harm"] == "learning"
