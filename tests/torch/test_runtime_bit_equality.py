"""Watching changes nothing: final weights, files and evaluation equal those of the bare run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_programs import PROGRAMS
from torch_watching import watched

from stethoscope.types import Severity


@pytest.mark.parametrize("every", [1, 7], ids=["all-probed", "some-probed"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_final_weights_are_bit_identical(name: str, every: int, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    torch.manual_seed(0)
    bare = program()
    torch.manual_seed(0)
    again = program()
    assert all(torch.equal(a, b) for a, b in zip(bare, again, strict=True)), "not deterministic"
    seen = watched(program, tmp_path, probe_every=every)
    assert all(torch.equal(a, b) for a, b in zip(bare, seen.value, strict=True))
    assert len(seen.traces) == 1
    told = [d for d in seen.reports[0].diagnoses if d.severity is not Severity.NOTE]
    assert told == [], "a healthy program"
