"""Every rule accuses its faulty example and leaves its healthy one alone."""

from __future__ import annotations

import functools

import pytest

from stethoscope.example import Example
from stethoscope.rules import all_rules
from stethoscope.types import Report, Severity
from tests.runner import run

OUTPUT = {"layers[5].activation"}  # of Linear, ReLU, Linear, ReLU, Linear, activation
PLACES = {
    "batch-norm-on-few": {"layers[1]", "layers[4]"},
    "class-loss-on-values": {"loss"},
    "collapsed-output": {"layers[5]"},
    "competing-labels": OUTPUT,
    "constant-target": {"data.target[0]"},
    "dead-units": {"layers[1]", "layers[3]"},
    "double-activation": OUTPUT,
    "high-dropout-rate": {"layers[2]", "layers[5]"},
    "initialization": {"layers[0]", "layers[2]"},
    "label-encoding": {"data.target[0]"},
    "loss-broadcast": {"loss"},
    "loss-diverging": {"loss"},
    "loss-not-decreasing": {"loss"},
    "metric-not-increasing": {"metrics.accuracy"},
    "missing-hidden-activation": {"layers[0].activation", "layers[1].activation"},
    "nonfinite-input": {"data.input[0]"},
    "nonfinite-loss": {"loss"},
    "nonfinite-metric": {"metrics.r2"},
    "nonfinite-target": {"data.target[0]"},
    "output-loss-mismatch": OUTPUT,
    "output-range": OUTPUT,
    "output-range-touched": OUTPUT,
    "output-width": {"layers[4].activation"},
    "saturated-activation": {"layers[1]", "layers[3]"},
    "saturating-stack": {"layers[1].activation"},
    "single-unit-softmax": OUTPUT,
    "softmax-over-batch": OUTPUT,
    "unscaled-input": {"data.input[0]"},
    "unscaled-target": {"data.target[0]"},
    "update-ratio-too-large": {"optimizer.learning_rate"},
    "update-ratio-too-small": {"optimizer.learning_rate"},
    "value-loss-on-classes": {"loss"},
    "zero-learning-rate": {"optimizer.learning_rate"},
}
"""Where the fault of the example was put. Of the other rules any layer with a stage:
numbers that grow through the whole network are seen where they first pass a bound."""


@functools.cache
def report(example: Example, folder: str) -> Report:
    return run(example, trace_dir=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("traces"))


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_accuses_its_faulty_example_at_the_right_place(rule, folder):
    own = [s for s in report(rule.faulty, folder).symptoms if s.name == rule.name]
    assert own
    for place in (symptom.place for symptom in own):
        if rule.name in PLACES:
            assert place.path in PLACES[rule.name]
        else:
            assert place.layer is not None
            assert place.path == f"layers[{place.layer}]"
            assert place.stage is not None


def test_the_places_are_of_rules():
    assert PLACES.keys() <= {rule.name for rule in all_rules()}


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_leaves_its_healthy_example_alone(rule, folder):
    healthy = report(rule.healthy, folder)
    assert rule.name not in {symptom.name for symptom in healthy.symptoms}
    assert [d.fault for d in healthy.diagnoses if d.severity is not Severity.NOTE] == []
