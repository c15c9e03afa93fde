"""Every fault is the first diagnosis of its faulty example, and its first fix mends that.

The healthy example is left alone, and so is the program that carries the fix.
"""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

import stethoscope
from stethoscope.engine.examples import run
from stethoscope.example import Example
from stethoscope.faults import all_faults
from stethoscope.types import Change, Report, Severity, Verdict

FAULTS = {fault.name: fault for fault in all_faults()}
BY_HAND = {"constant-target": "the targets as they were before the cast are not in the example"}
LOGITS = {"mse": False, "sparse_categorical_crossentropy": True}  # what a loss for these takes
LONGER = 3  # a program that has just been mended may need more steps than it took to see the fault


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("traces"))
    return functools.cache(lambda example: run(example, trace_dir=folder, quiet=True))


def accused(report: Report) -> list[str]:
    return [d.fault for d in report.diagnoses if d.severity is not Severity.NOTE]


def applied(example: Example, change: Change) -> Example:
    """The example with the change made by hand."""
    path, value, field = change.path, change.value, change.path.rpartition(".")[2]
    if path in ("optimizer.learning_rate", "fit.batch_size"):
        return example.but(**{"batch" if field == "batch_size" else field: value})
    if path == "optimizer.name":
        return example.but(optimizer=value, learning_rate=0.001)  # as the fix says
    if path == "loss.name":
        return example.but(loss=value, from_logits=LOGITS[value])
    if path == "loss.prediction_shape":
        return example.but(flat_prediction=False)
    if path == "loss":
        return example.but(**value)
    if path == "fit.precision":
        return example.but(dtype="float32")  # NumPy has no bfloat16; both end at 3e38
    if field == "recurrent_initializer":
        return example.but(recurrent_gain=1.0)
    if field in ("bias", "rate", "axis", "units"):
        names = {"rate": "dropout", "axis": "softmax_axis", "units": "outputs"}
        return example.but(**{names.get(field, field): value})
    if field == "activation":
        kind = value or "linear"
        if path == f"layers[dense_{len(example.hidden)}].activation":
            return example.but(output_activation=kind, from_logits=kind == "linear")
        return example.but(activation=kind)
    role = "input" if path == "data.input[0]" else "target"
    if value == "drop rows that are not finite":
        return example.but(nan_input_at=None, inf_target_at=None)
    if "standardize" in value:
        columns = value["standardize"].values()
        size = sum(c["std"] for c in columns) / len(columns)
        middle = sum(c["mean"] for c in columns) / len(columns)
        if role == "input":  # the classes lie around 0, each column on a scale like the others'
            middle = 0.0
    else:
        middle, size = 0.0, max(map(float, value["map"]))
    scale, offset = (getattr(example, f"{role}_{name}") for name in ("scale", "offset"))
    return example.but(
        **{f"{role}_scale": scale / size, f"{role}_offset": (offset - middle) / size}
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_is_the_first_diagnosis_of_its_faulty_example(fault, report):
    found = report(FAULTS[fault].faulty)
    assert found.diagnoses[0].fault == fault
    assert {s.name for s in found.diagnoses[0].symptoms} & FAULTS[fault].shown_by


@pytest.mark.parametrize("fault", FAULTS)
def test_leaves_its_healthy_example_alone(fault, report):
    found = report(FAULTS[fault].healthy)
    assert found.verdict is Verdict.HEALTHY, found.reason
    assert found.diagnoses == ()


@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in BY_HAND])
def test_its_first_fix_makes_the_program_learn(fault, report):
    example = FAULTS[fault].faulty
    fix = report(example).diagnoses[0].fixes[0]
    for change in (fix.change, *fix.also):
        example = applied(example, change)
    mended = report(example.but(steps=LONGER * example.steps))
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
