"""What a loss call shows of its targets and of the layer it judges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch_watching import watched

from stethoscope.program import Program

X = torch.linspace(-1, 1, 48).reshape(12, 4)
Y = torch.arange(12) % 3
STEPS = 5  # the last facts are taken at the fifth


def program_of(model: nn.Module, loss: Callable[[nn.Module], Tensor], folder: Path) -> Program:
    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(STEPS):
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
