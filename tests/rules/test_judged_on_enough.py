"""Rules on data that accuse by what the bulk of it is, not by a first batch or single elements."""

from __future__ import annotations

import numpy as np
import pytest

from stethoscope.data import DataProfile
from stethoscope.faults._scaling import scaling
from stethoscope.program import DataSpec, LossSpec, Program
from stethoscope.row import Row, RowKind, Slots
from stethoscope.rules.class_loss_on_values import ClassLossOnValues
from stethoscope.rules.label_encoding import LabelEncoding
from stethoscope.rules.metric_not_increasing import MetricNotIncreasing
from stethoscope.types import Op, Slot, Stage
from stethoscope.vocabulary import Expects

RNG = np.random.default_rng(0)
PIXELS = RNG.uniform(size=(640, 64))


def facts(values: np.ndarray, batches: int = 20, complete: bool = False) -> DataSpec:
    profile = DataProfile()
    for batch in np.array_split(values, batches):
        profile.add(batch)
    return profile.spec(complete)


def program(loss: str, target: DataSpec) -> Program:
    spec = LossSpec(loss, loss, expects=Expects.LOGITS)
    return Program("torch", losses=(spec,), targets=(target,))


def one_pixel() -> np.ndarray:
    values = PIXELS.copy()
    values[0, 0] = 1.02
    return values


@pytest.mark.parametrize(
    ("values", "batches", "accused"),
    [
        pytest.param(one_pixel(), 20, False, id="one pixel of 1.02"),
        pytest.param(1.06 * PIXELS - 0.03, 20, False, id="interpolated"),
        pytest.param(RNG.normal(size=(640, 1)), 20, True, id="standardized values"),
        pytest.param(RNG.normal(size=(32, 1)), 1, False, id="one batch of them"),
        pytest.param(5 * RNG.normal(size=(32, 1)) + 3, 1, True, id="one batch far outside"),
    ],
)
def test_class_loss_on_values(values, batches, accused):
    found = list(
        ClassLossOnValues().inspect(program("binary_crossentropy", facts(values, batches)))
    )
    assert bool(found) is accused


SIGNS = RNG.choice([-1.0, 1.0], (640, 1))
REWARDED = np.eye(2)[RNG.integers(0, 2, 640)] * -1.0


@pytest.mark.parametrize(
    ("loss", "values", "batches", "complete", "accused"),
    [
        ("binary_crossentropy", SIGNS, 20, False, True),
        ("binary_crossentropy", SIGNS[:32], 1, False, False),
        ("binary_crossentropy", SIGNS[:32], 1, True, True),
        ("categorical_crossentropy", REWARDED, 20, False, False),
    ],
    ids=["signs", "one batch of signs", "all of a small data set", "one-hot rows times a return"],
)
def test_label_encoding(loss, values, batches, complete, accused):
    found = list(LabelEncoding().inspect(program(loss, facts(values, batches, complete))))
    assert bool(found) is accused
    assert "-0" not in "".join(symptom.message for symptom in found)


def test_zero_has_no_sign():
    assert str(facts(np.array([-1.0, -0.0])).max) == "0.0"


def spread(columns: int) -> np.ndarray:
    values = RNG.normal(size=(500, columns))
    values[:, 7] *= 1e5
    return values


@pytest.mark.parametrize("columns", [8, 100])
def test_column_of_another_scale_is_standardized_alone(columns):
    change = scaling(facts(spread(columns)), "data.input[0]", None).change
    assert change.op is Op.WRAP
    assert list(change.value["standardize"]) == ["7"]
    assert change.value["standardize"]["7"]["std"] == pytest.approx(1e5, rel=0.2)


def test_columns_of_one_scale_share_one_mean_and_are_no_pixels():
    values = RNG.poisson(30, size=(500, 80)).astype(float)
    change = scaling(facts(values), "data.input[0]", None).change
    found = change.value["standardize"]
    assert (found["mean"], found["std"]) == pytest.approx((30, 30**0.5), rel=0.05)


PIXELS = RNG.integers(0, 256, (64, 8, 8))


@pytest.mark.parametrize("values", [PIXELS, PIXELS[..., None] * 0.99], ids=["grey", "resized"])
def test_pixels_are_divided(values):
    change = scaling(facts(values), "data.input[0]", None).change
    assert (change.op, change.value) == (Op.SCALE, 1 / 255)


@pytest.mark.parametrize(
    "values",
    [RNG.uniform(30, 70, (64, 12, 1)), RNG.uniform(0, 200, (64, 12, 5)), PIXELS[:, :, :1]],
    ids=["window", "several series", "whole numbers"],
)
def test_windows_of_a_series_are_no_pixels(values):
    assert scaling(facts(values), "data.input[0]", None).change.op is Op.WRAP


@pytest.mark.parametrize(("share", "accused"), [(0.7, True), (0.99, False)])
def test_accuracy_is_held_only_against_what_it_could_pass(share, accused):
    ids = (np.arange(1000) >= 1000 * share).astype(int)
    known = program("sparse_categorical_crossentropy", facts(ids))
    rule, slots = MetricNotIncreasing(), Slots()
    number = slots.add(Slot("", "accuracy", Stage.METRIC))
    state, found = rule.start(known), []
    for step in range(100):
        scalars = np.full(number + 1, share - 0.002)
        row = Row(step, step, 0, step, RowKind.STEP, known, slots, scalars)
        state, new = rule.update(state, row)
        found += new
    assert bool(found) is accused
