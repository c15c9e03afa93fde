"""What a prediction that ignores the input scores: exact where it may prove learning."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stethoscope.data import DataProfile
from stethoscope.program import DataSpec, LossSpec, Program
from stethoscope.rules._baseline import Baseline, chance, trivial_loss
from stethoscope.vocabulary import Expects

RNG = np.random.default_rng(0)
IMAGES = RNG.uniform(size=(6, 6)) * (RNG.uniform(size=(600, 6, 6)) > 0.5)


def facts(values: np.ndarray, batches: int = 10, complete: bool = False) -> DataSpec:
    profile = DataProfile()
    for batch in np.array_split(values, batches):
        profile.add(batch)
    return profile.spec(complete)


def baseline(name: str, target: DataSpec, units: int | None = None) -> Baseline | None:
    shape = (32, units) if units else None
    loss = LossSpec(name, name, expects=Expects.LOGITS, prediction_shape=shape)
    return trivial_loss(Program("torch", losses=(loss,), targets=(target,)))


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("mse", IMAGES.var(axis=0).mean()),
        ("mae", np.abs(IMAGES - np.median(IMAGES, axis=0)).mean()),
        (
            "binary_crossentropy",
            np.mean([-p * np.log(p) - (1 - p) * np.log(1 - p) for p in IMAGES.mean(axis=0)]),
        ),
    ],
)
def test_baseline_of_whole_data_is_exact_at_every_position(name, score):
    found = baseline(name, facts(IMAGES, complete=True))
    assert (found.low, found.high) == pytest.approx((score, score))
    sampled = baseline(name, facts(IMAGES))
    assert sampled.high == pytest.approx(score)
    assert 0.85 * score < sampled.low < 0.9 * score  # two standard errors of 600 rows


@pytest.mark.parametrize("name", ["mse", "mae"])
def test_bound_shows_no_learning(name):
    profile = DataProfile()
    for length in (3, 5):  # sequences of different lengths
        profile.add(RNG.normal(size=(300, length)))
    assert baseline(name, profile.spec()).low == -math.inf


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("classes", "rows"), [(800, 84), (1000, 672), (10, 5000), (3, 300)])
def test_entropy_of_the_classes_lies_between_its_bounds(classes, rows, seed):
    shares = np.random.default_rng(seed).dirichlet(np.full(classes, 5.0))
    ids = np.random.default_rng(seed).choice(classes, rows, p=shares)
    found = baseline("sparse_categorical_crossentropy", facts(ids, 21), classes)
    entropy = -(shares * np.log(shares)).sum()
    assert found.low <= entropy <= found.high + 0.02 * entropy


def test_rows_that_are_weighted_have_no_baseline():
    rows = np.eye(4)[RNG.integers(0, 4, 600)] * RNG.choice([-1, 1], (600, 1))
    assert baseline("categorical_crossentropy", facts(rows), 4) is None


def test_share_of_the_commonest_class_is_not_told_from_a_few():
    loss = LossSpec("nll", "NLLLoss", prediction_shape=(2, 800))
    ids = RNG.integers(0, 800, 300)
    program = Program("torch", losses=(loss,), targets=(facts(ids, 150),))
    assert chance(program) == 1 / 800
