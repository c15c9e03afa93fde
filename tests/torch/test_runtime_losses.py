"""What a loss call shows of its targets and of the layer it judges."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch_watching import watched

import stethoscope
from stethoscope.program import Program
from stethoscope.types import Severity

X = torch.linspace(-1, 1, 48).reshape(12, 4)
Y = torch.arange(12) % 3
STEPS = 5  # the last facts are taken at the fifth


def program_of(
    model: nn.Module, loss: Callable[[nn.Module], Tensor], folder: Path, steps: int = STEPS
) -> Program:
    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(steps):
            optimizer.zero_grad()
            loss(model).backward()
            optimizer.step()

    return watched(train, folder).trace.program


# Ignored labels


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize("ignored", [-100, 255, 3, 0])
def test_ignored_labels_are_no_facts_of_the_target(name: str, ignored: int, tmp_path: Path) -> None:
    target = Y.clone() + (ignored == 0)
    target[::4] = ignored
    options = {} if ignored == -100 else {"ignore_index": ignored}
    loss = getattr(F, name)
    model = nn.Sequential(nn.Linear(4, 4), nn.LogSoftmax(dim=1))
    program = program_of(model, lambda m: loss(m(X), target, **options), tmp_path)
    kept = target[target != ignored].numpy()
    values, counts = np.unique(kept, return_counts=True)
    for facts in (program.losses[0].target, program.targets[0]):
        assert facts is not None
        assert facts.class_counts == tuple(
            (float(v), STEPS * int(c)) for v, c in zip(values, counts, strict=True)
        )
        assert (facts.min, facts.max, facts.distinct) == (kept.min(), kept.max(), len(values))
        assert (facts.batch_shape, facts.rows_seen) == ((12,), 12 * STEPS)
    assert program.losses[0].config["ignored_share"] == pytest.approx(0.25)


def test_a_batch_of_ignored_labels_adds_nothing(tmp_path: Path) -> None:
    labels = [torch.full((12, 2), -100), torch.stack([Y, torch.full((12,), -100)], 1)]
    labels += [labels[0]] * 3

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 6)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x).unflatten(1, (3, 2))

    given = iter(labels)
    program = program_of(
        Pair(), lambda m: F.cross_entropy(m(X), next(given), reduction="sum"), tmp_path
    )
    facts = program.targets[0]
    assert facts.class_counts == ((0.0, 4), (1.0, 4), (2.0, 4))
    assert (facts.batches_seen, facts.rows_seen, facts.batch_shape) == (1, 12, (12, 2))
    assert program.losses[0].config["ignored_share"] == pytest.approx(108 / 120)


def test_targets_that_are_all_ignored_have_no_classes(tmp_path: Path) -> None:
    target = torch.full((12,), -100)
    program = program_of(
        nn.Linear(4, 3), lambda m: F.cross_entropy(m(X), target, reduction="sum"), tmp_path
    )
    facts = program.targets[0]
    assert (facts.class_counts, facts.min, facts.batches_seen) == ((), None, 0)
    assert program.losses[0].config["ignored_share"] == 1


# The layer that a loss judges


class Net(nn.Module):
    """A softmax in the way asked for, and what comes behind it."""

    def __init__(self, activate: nn.Module, behind: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.activate = activate
        self.behind = behind

    def forward(self, x: Tensor) -> Tensor:
        return self.behind(self.activate(self.fc(x)))


class Functional(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(x, dim=1)


def same(x: Tensor) -> Tensor:
    return x


SAME: dict[str, Callable[[Tensor], Tensor]] = {
    "itself": same,
    "view": lambda p: p.view(3, 4, 3).flatten(0, 1),
    "cast": lambda p: p.double().float(),
    "rows": lambda p: p[torch.arange(12)],
    "permute": lambda p: p.t().contiguous().transpose(0, 1),
    "joined": lambda p: torch.cat([p[:6], p[6:]]),
    "chunks": lambda p: torch.stack(p.chunk(3)).reshape(12, 3),
}
COMPUTED: dict[str, Callable[[Tensor], Tensor]] = {
    "log": torch.log,
    "log-in-place": lambda p: p.clone().log_(),
    "scaled": lambda p: p * 64,
    "scaled-in-place": lambda p: p.clone().mul_(64),
    "plus": lambda p: p + torch.linspace(0, 1, 3),
    "weighted-sum": lambda p: (p * torch.arange(3.0)).cumsum(1),
    "joined-with-data": lambda p: torch.cat([p[:, :2], X[:, :1]], 1),
    "padded": lambda p: F.pad(p[:, :2], (0, 1)),
    "log-then-view": lambda p: torch.log(p).view(4, 3, 3).flatten(0, 1),
}


@pytest.mark.parametrize("place", ["in-the-model", "in-the-loop"])
@pytest.mark.parametrize("name", [*SAME, *COMPUTED])
def test_the_output_layer_is_the_one_whose_values_the_loss_reads(
    name: str, place: str, tmp_path: Path
) -> None:
    function = SAME.get(name) or COMPUTED[name]
    within = place == "in-the-model"
    model = Net(nn.Softmax(dim=1) if within else Functional(), function if within else same)

    def loss(m: nn.Module) -> Tensor:
        return F.cross_entropy(m(X) if within else function(m(X)), Y)

    program = program_of(model, loss, tmp_path, steps=1)
    spec = program.losses[0]
    if name in COMPUTED and not (within and name.startswith("scaled")):  # a layer of its own
        assert (spec.output, spec.config.get("computed")) == (None, True)
        return
    layer = program.layer(spec.output or "")
    assert layer is not None and "computed" not in spec.config
    assert layer.activation == ("softmax" if name in SAME else "linear")


@pytest.mark.parametrize("place", ["in-the-model", "in-the-loop"])
def test_a_hand_written_loss_on_computed_values_has_no_output_layer(
    place: str, tmp_path: Path
) -> None:
    def expected(p: Tensor) -> Tensor:
        return (p * torch.arange(3.0)).sum(1)

    within = place == "in-the-model"
    model = Net(Functional(), expected if within else same)

    def loss(m: nn.Module) -> Tensor:
        out = m(X) if within else expected(m(X))
        return ((out - Y) ** 2).mean()

    spec = program_of(model, loss, tmp_path, steps=1).losses[0]
    assert (spec.name, spec.output) == ("mse", None)


@pytest.mark.parametrize(
    ("behind", "found"),
    [(torch.log, set()), (same, {"double-activation"})],
    ids=["log-probabilities", "probabilities"],
)
def test_only_a_softmax_that_reaches_crossentropy_is_accused(
    behind: Callable[[Tensor], Tensor], found: set[str], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = Net(Functional(), same)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    with stethoscope.watch(model, quiet=True, trace_dir=str(tmp_path)) as scope:
        for _ in range(40):
            optimizer.zero_grad()
            F.cross_entropy(behind(model(X)), (X[:, 0] > 0).long() * 2).backward()
            optimizer.step()
    told = [d for d in scope.report.diagnoses if d.severity is not Severity.NOTE]
    assert {d.fault for d in told} == found


@pytest.mark.parametrize("first", [0, 1], ids=["ids from 0", "ids from 1"])
def test_labels_that_the_loss_refuses_are_judged(first, tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    features, labels = torch.randn(32, 8), torch.arange(32) % 4 + first
    with (
        pytest.raises(IndexError) if first else contextlib.nullcontext(),
        stethoscope.watch(model, optimizer, quiet=True, trace_dir=str(tmp_path)) as scope,
    ):
        F.cross_entropy(model(features), labels).backward()
        optimizer.step()
    told = [(d.fault, d.first_seen) for d in scope.report.diagnoses]
    assert told == ([("label-encoding", 0)] if first else [])
