"""Every fault is the first diagnosis of its faulty example, and its first fix mends that.

The healthy example is left alone, and so is the program that carries the fix.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import stethoscope
from stethoscope.faults import all_faults
from stethoscope.types import Verdict
from tests.faults.changes import accused, applied

FAULTS = {fault.name: fault for fault in all_faults()}
BY_HAND = {"constant-target": "the targets as they were before the cast are not in the example"}
LONGER = 3  # a program that has just been mended may need more steps than it took to see the fault


@pytest.mark.parametrize("fault", FAULTS)
def test_is_the_first_diagnosis_of_its_faulty_example(fault, example_report):
    found = example_report(FAULTS[fault].faulty)
    assert found.diagnoses[0].fault == fault
    assert {s.name for s in found.diagnoses[0].symptoms} & FAULTS[fault].shown_by


@pytest.mark.parametrize("fault", FAULTS)
def test_leaves_its_healthy_example_alone(fault, example_report):
    found = example_report(FAULTS[fault].healthy)
    assert found.verdict is Verdict.HEALTHY, found.reason
    assert found.diagnoses == ()


@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in BY_HAND])
def test_its_first_fix_makes_the_program_learn(fault, example_report):
    example = FAULTS[fault].faulty
    fix = example_report(example).diagnoses[0].fixes[0]
    for change in (fix.change, *fix.also):
        example = applied(example, change)
    mended = example_report(example.but(steps=LONGER * example.steps))
    assert fault not in [d.fault for d in mended.diagnoses]
    assert accused(mended) == []
    assert mended.meta["harm"] == "learning", mended.reason


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_known_by_the_name_that_torch_gives_it(kind, tmp_path):
    torch.manual_seed(0)
    x = torch.randn(64, 4).to(kind)
    y, model = x[:, :1] * 400, nn.Linear(4, 1).to(kind)  # the squared errors are beyond 65,504
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with stethoscope.watch(model, optimizer, quiet=True, trace_dir=str(tmp_path)) as scope:
        for _ in range(150):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    assert ("half-precision-overflow" in accused(scope.report)) == (kind is torch.float16)
