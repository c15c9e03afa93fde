"""What rests, or was never trained, is no fault: met margins, frozen masks, output activations."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional

import stethoscope
from stethoscope.faults._base import Findings
from stethoscope.faults._hidden_layers import is_shut
from stethoscope.faults._measure import Measurements
from stethoscope.faults.double_activation import DoubleActivation as Doubled
from stethoscope.faults.saturating_activations import SaturatingActivations
from stethoscope.faults.unsuitable_optimizer import UnsuitableOptimizer
from stethoscope.program import LayerSpec, LossSpec, OptimizerSpec, Program
from stethoscope.rules.double_activation import DoubleActivation
from stethoscope.rules.saturating_stack import SaturatingStack
from stethoscope.types import Evidence, Place, PlaceKind, Severity, Symptom, SymptomClass
from stethoscope.vocabulary import Expects, LayerKind


class Masked(nn.Module):
    """Attention to what came before, by a mask of -inf that is kept as a frozen parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(20, 16), nn.Linear(16, 20)
        mask = torch.full((6, 6), float("-inf")).triu(1)
        self.mask = nn.Parameter(mask, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.embed(x)
        return self.out(z + functional.softmax(z @ z.transpose(1, 2) / 4 + self.mask, -1) @ z)


def test_frozen_parameter_of_minus_infinity_is_no_harm(tmp_path):
    torch.manual_seed(0)
    model = Masked()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with stethoscope.watch(model, optimizer, quiet=True, trace_dir=str(tmp_path)) as scope:
        for _ in range(150):
            x = (torch.randint(0, 20, (16, 1)) + torch.arange(7)) % 20
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
            loss.backward()
            optimizer.step()
    assert scope.report.meta["harm"] == "learning"
    assert [d.fault for d in scope.report.diagnoses if d.severity is not Severity.NOTE] == []
    assert "nonfinite-weight" not in {s.name for s in scope.report.symptoms}


def dead(layer: str) -> Symptom:
    place = Place(PlaceKind.LAYER, layer)
    evidence = (Evidence("dead units", 1.0, 0.9, ">"),)
    return Symptom("F003", "dead-units", SymptomClass.SUSPICION, place, evidence, "All rest.")


@pytest.mark.parametrize(
    ("layer", "last", "shut"),
    [
        pytest.param("margin", 0.0, False, id="output-met"),
        pytest.param("margin", 0.9, True, id="output-died"),
        pytest.param("hidden", 0.0, True, id="hidden-died"),
    ],
)
def test_output_that_is_0_because_its_margin_is_met_is_not_shut(layer, last, shut):
    measured = Measurements()
    for step in range(200):
        measured.loss.add(1.0 if step < 100 else last)
    layers = tuple(
        LayerSpec(name, "relu", LayerKind.ACTIVATION, "relu") for name in ("hidden", "margin")
    )
    program = Program("keras", layers=layers, losses=(LossSpec("mae", "mae", output="margin"),))
    collapsed = Symptom("F005", "collapsed-output", SymptomClass.EVENT, Place(PlaceKind.LAYER),
                        (Evidence("spread", 0.0, 0.1, "<"),), "It is constant.")  # fmt: skip
    assert is_shut(Findings(program, (dead(layer), collapsed), measured)) is shut


@pytest.mark.parametrize("hidden", [3, 4])
def test_sigmoid_output_is_no_part_of_the_stack_and_stays(hidden):
    names = [f"dense_{i}" for i in range(hidden + 1)]
    layers = tuple(LayerSpec(n, "Dense", LayerKind.DENSE, "sigmoid") for n in names)
    loss = LossSpec("binary_crossentropy", "binary_crossentropy", output=names[-1])
    edges = tuple(itertools.pairwise(names))
    program = Program("keras", layers=layers, edges=edges, losses=(loss,))
    symptoms = tuple(SaturatingStack().inspect(program))
    assert [s.evidence[0].value for s in symptoms] == ([4] if hidden == 4 else [])
    for suspect in SaturatingActivations().consider(Findings(program, symptoms, Measurements())):
        fix = suspect.fixes[0]
        changed = [change.path for change in (fix.change, *fix.also)]
        assert changed == [f"layers[{name}].activation" for name in names[:-1]]


@pytest.mark.parametrize("inner", ["softmax", "sigmoid", "linear", "log_softmax"])
def test_softmax_after_softmax_is_told_at_the_inner_one(inner):
    layers = (
        LayerSpec("out", "Dense", LayerKind.DENSE, inner, output_shape=(32, 4)),
        LayerSpec("last", "LogSoftmax", LayerKind.ACTIVATION, "log_softmax", output_shape=(32, 4)),
    )
    loss = LossSpec("nll", "nll_loss", expects=Expects.LOG_PROBABILITIES, output="last")
    program = Program("torch", layers=layers, edges=(("out", "last"),), losses=(loss,))
    symptoms = tuple(DoubleActivation().inspect(program))
    told = ["layers[out].activation"] if inner in ("softmax", "sigmoid") else []
    assert [s.place.path for s in symptoms] == told
    suspects = list(Doubled().consider(Findings(program, symptoms, Measurements())))
    assert [s.fixes[0].change.path for s in suspects] == told


@pytest.mark.parametrize("left", [0.0, 0.1])
def test_optimizer_is_not_blamed_where_the_rate_was_lost(left):
    measured = Measurements()
    for _ in range(400):
        measured.loss.add(1.0)
    measured.steps, measured.rate_lost = 400, 10 if not left else None
    place = Place(PlaceKind.LOSS, path="loss")
    evidence = (Evidence("loss", 1.0, 0.9, ">"),)
    flat = Symptom("L003", "loss-not-decreasing", SymptomClass.EVENT, place, evidence, "Flat.")
    program = Program("torch", optimizers=(OptimizerSpec("sgd", "SGD"),))
    suspects = list(UnsuitableOptimizer().consider(Findings(program, (flat,), measured)))
    assert bool(suspects) is bool(left)
