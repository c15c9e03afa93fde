"""What watching costs is measured, and dear probes are taken less often."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch_watching import watched

from stethoscope.data import DataProfile
from stethoscope.torch import probe
from stethoscope.torch.losses import DATA_ELEMENTS, sample


def train(steps: int) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(16, 4), torch.randint(3, (16,))
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


@pytest.fixture
def dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each statistic of an output takes 5 ms more."""
    plain = probe.statistics

    def slow(*args, **kwargs):
        time.sleep(0.005)
        return plain(*args, **kwargs)

    monkeypatch.setattr(probe, "statistics", slow)


def probed(folder: Path, steps: int, **settings: int) -> list[int]:
    rows = watched(lambda: train(steps), folder, **settings).trace.rows()
    return [row.step for row in rows if row.probed and row.step > 20]


@pytest.mark.usefixtures("dear")
def test_a_dear_probe_is_taken_less_often(tmp_path, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    assert probed(tmp_path, 250) == [40, 200]  # ten times 20 is the farthest


@pytest.mark.usefixtures("dear")
@pytest.mark.parametrize("way", ["CI", "probe_every"])
def test_where_runs_are_compared_the_interval_is_fixed(way, tmp_path, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    if way == "CI":
        monkeypatch.setenv("CI", "1")
    settings = {"probe_every": 20} if way == "probe_every" else {}
    assert probed(tmp_path, 90, **settings) == [40, 60, 80]


@pytest.mark.usefixtures("dear")
def test_the_report_says_what_it_cost(tmp_path):
    begun = time.perf_counter()
    found = watched(lambda: train(25), tmp_path)
    total = time.perf_counter() - begun
    told = found.reports[0].overhead["seconds"]
    assert 21 * 3 * 0.005 < told < total


@pytest.mark.parametrize(
    ("shape", "features"),
    [((64, 3, 64, 64), 64), ((5000, 30), 30), ((2, 200_000), None), ((300_000,), None)],
)
def test_facts_of_large_data_are_those_of_a_part(shape, features):
    whole = torch.randn(shape, generator=torch.Generator().manual_seed(0)) + 3
    part = sample(whole)
    assert part.numel() <= 1.25 * DATA_ELEMENTS
    assert features is None or part.shape[-1] == features
    np.testing.assert_allclose([part.mean(), part.std()], [3, 1], atol=0.05)


def test_large_batches_keep_their_shape(tmp_path, monkeypatch):
    sizes = []
    add = DataProfile.add
    monkeypatch.setattr(
        DataProfile,
        "add",
        lambda self, batch, kind=None: sizes.append(batch.size) or add(self, batch, kind),
    )

    def program():
        model = nn.Conv2d(3, 1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.rand(8, 3, 128, 128)
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), x[:, :1]).backward()
            optimizer.step()

    found = watched(program, tmp_path).trace.program
    assert max(sizes) <= 1.25 * DATA_ELEMENTS
    assert found.inputs[0].batch_shape == (8, 3, 128, 128)
    assert found.targets[0].batch_shape == (8, 1, 128, 128)
    assert found.inputs[0].mean == pytest.approx(0.5, abs=0.01)
