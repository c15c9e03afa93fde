"""Every rule accuses its faulty example and leaves its healthy one alone."""

from __future__ import annotations

import pytest

from stethoscope.rules import all_rules
from stethoscope.types import Severity

OUTPUT = {"layers[dense_2].activation"}  # of dense, dense_1 and dense_2
HIDDEN = {"layers[dense]", "layers[dense_1]"}
PLACES = {
    "batch-norm-on-few": {"layers[batch_normalization]", "layers[batch_normalization_1]"},
    "class-loss-on-values": {"loss"},
    "collapsed-output": {"layers[dense_2]"},
    "competing-labels": OUTPUT,
    "constant-target": {"data.target[0]"},
    "dead-units": HIDDEN,
    "double-activation": OUTPUT,
    "high-dropout-rate": {"layers[dropout]", "layers[dropout_1]"},
    "initialization": HIDDEN,
    "label-encoding": {"data.target[0]"},
    "loss-broadcast": {"loss"},
    "loss-diverging": {"loss"},
    "loss-not-decreasing": {"loss"},
    "metric-not-increasing": {"metrics.accuracy"},
    "missing-hidden-activation": {"layers[dense].activation", "layers[dense_1].activation"},
    "nonfinite-input": {"data.input[0]"},
    "nonfinite-loss": {"loss"},
    "nonfinite-metric": {"metrics.mae"},
    "nonfinite-target": {"data.target[0]"},
    "output-loss-mismatch": OUTPUT,
    "output-range": OUTPUT,
    "output-range-touched": OUTPUT,
    "output-width": OUTPUT,
    "saturated-activation": HIDDEN,
    "saturating-stack": {"layers[dense].activation"},
    "single-unit-softmax": OUTPUT,
    "softmax-over-batch": {"layers[softmax].activation"},
    "unscaled-input": {"data.input[0]"},
    "unscaled-target": {"data.target[0]"},
    "update-ratio-too-large": {"optimizer.learning_rate"},
    "update-ratio-too-small": {"optimizer.learning_rate"},
    "value-loss-on-classes": {"loss"},
    "zero-learning-rate": {"optimizer.learning_rate"},
}
"""Where the fault of the example was put. Of the other rules any layer with a stage:
numbers that grow through the whole network are seen where they first pass a bound."""

RULES = pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)


@RULES
def test_accuses_its_faulty_example_at_the_right_place(rule, example_report):
    own = [s for s in example_report(rule.faulty).symptoms if s.name == rule.name]
    assert own
    for place in (symptom.place for symptom in own):
        if rule.name in PLACES:
            assert place.path in PLACES[rule.name]
        else:
            assert place.layer is not None
            assert place.path == f"layers[{place.layer}]"
            assert place.stage is not None


@RULES
def test_names_the_line_of_the_program_that_wrote_it(rule, example_report):
    for symptom in example_report(rule.faulty).symptoms:
        source = symptom.place.source
        if symptom.name == rule.name and not symptom.place.path.startswith("metrics."):
            assert source is not None
            assert source.file == "example.py"
            assert source.text


def test_the_places_are_of_rules():
    assert PLACES.keys() <= {rule.name for rule in all_rules()}


@RULES
def test_leaves_its_healthy_example_alone(rule, example_report):
    healthy = example_report(rule.healthy)
    assert rule.name not in {symptom.name for symptom in healthy.symptoms}
    assert [d.fault for d in healthy.diagnoses if d.severity is not Severity.NOTE] == []
