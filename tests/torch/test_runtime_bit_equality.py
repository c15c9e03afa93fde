"""Watching changes nothing: final weights, files and evaluation equal those of the bare run."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch_programs import PROGRAMS
from torch_watching import watched

from stethoscope.types import Severity


@functools.cache
def run_bare(name: str) -> list[Tensor]:
    """What the program gives; the same twice."""
    torch.manual_seed(0)
    bare = PROGRAMS[name]()
    torch.manual_seed(0)
    again = PROGRAMS[name]()
    assert all(torch.equal(a, b) for a, b in zip(bare, again, strict=True)), "not deterministic"
    return bare


@pytest.mark.parametrize("every", [1, 7], ids=["all-probed", "some-probed"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_final_weights_are_bit_identical(name: str, every: int, tmp_path: Path) -> None:
    bare = run_bare(name)
    seen = watched(PROGRAMS[name], tmp_path, probe_every=every)
    assert all(torch.equal(a, b) for a, b in zip(bare, seen.value, strict=True))
    assert len(seen.traces) == 1
    told = [d for d in seen.reports[0].diagnoses if d.severity is not Severity.NOTE]
    assert told == [], "a healthy program"
