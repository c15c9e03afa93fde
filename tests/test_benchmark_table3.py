"""The programs of `make bench-engine` build, translate and train: the benchmark cannot rot."""

import doctest
import math
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from stethoscope.engine.translate import translate

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from table3 import cases, compare, data, page, speed
from table3.build import keras_model

ROWS = 4
# Keras says it of posts whose fault it is.
pytestmark = pytest.mark.filterwarnings("ignore:.*using a softmax over axis:UserWarning")
HAS_FIGURES = [case.name for case in cases.all_cases() if case.paper_library.seconds]


def named(case):
    return case.name


@pytest.mark.parametrize("case", [*cases.all_cases(), speed.CNN], ids=named)
def test_a_program_builds_translates_and_takes_a_step(case):
    keras.utils.set_random_seed(0)
    x, y = data.of(case, ROWS)
    original = keras_model(case, x.shape[1:])
    assert original.count_params() == case.parameters
    model = translate(original)
    expected = original.compute_loss(x=x, y=y, y_pred=original(x))
    assert model.evaluate(x, y)["loss"] == pytest.approx(float(expected), rel=1e-4)
    before = dict(model.network.weights)
    step = model.train_on_batch(x, y)
    assert math.isfinite(step.loss)
    if any(gradient.any() for gradient in step.gradients.values()):
        assert any((model.network.weights[name] != old).any() for name, old in before.items())


def test_the_table_has_the_posts_that_it_promises():
    posts = [case for case in cases.all_cases() if case.name.isdecimal()]
    assert len(posts) == 30
    assert len(HAS_FIGURES) == 20
    assert len(speed.small_cases()) == 26


@pytest.mark.parametrize("case", cases.all_cases(), ids=named)
def test_what_is_cut_is_said(case):
    assert (case.rows is not None) <= (f"{case.rows} of" in case.cut)
    x, _ = data.of(case)
    assert len(x) == (case.rows or len(x))


def test_both_sides_train_on_the_same_batches():
    (case,) = cases.chosen(["50306988"])
    found = compare.compare(case, seeds=[0, 1])
    assert found.difference < 1e-5
    assert found.keras[0].loss != found.keras[1].loss
    assert not found.again


def test_figures_that_differ_are_held_against_keras_itself():
    (case,) = cases.chosen(["34673164"])
    outcome = compare.Outcome
    same = compare.Comparison(case, [outcome(1.0, 0.5)], [outcome(1.0, 0.5)], [])
    assert same.remark == ""
    apart = compare.Comparison(
        case, [outcome(1.0, 0.5)], [outcome(1.1, 0.5)], [outcome(0.9, 0.5)], same
    )
    assert apart.remark == "dropout masks differ; without dropout 0e+00"
    wrong = compare.Comparison(case, [outcome(1.0, 0.5)], [outcome(2.0, 0.5)], [outcome(1.0, 0.5)])
    assert wrong.remark == "not explained"


def test_a_nan_on_one_side_only_is_the_largest_difference():
    (case,) = cases.chosen(["31556268"])
    nan = compare.Outcome(math.nan, None)
    assert math.isinf(compare.Comparison(case, [nan], [compare.Outcome(1.0, None)], []).difference)
    assert compare.Comparison(case, [nan], [nan], []).remark == "both end in NaN"


def test_speed_is_measured():
    (case,) = cases.chosen(["44066044"])
    found = speed.measure(case, rounds=1)
    assert found.steps == 5
    assert min(found.keras_ms, found.bare, found.watched, found.wall, found.control) > 0
    assert found.bare < found.watched
    assert len(speed.row(found).split("|")) == len(speed.HEAD.splitlines()[0].split("|"))


def test_a_table_takes_its_place_in_the_page():
    for section in ("figures", "speed"):
        assert "| 1 |" in page.written(page.PAGE.read_text(), section, "| 1 |")
    with pytest.raises(ValueError, match="expected one section"):
        page.written("nothing", "speed", "| 1 |")


def test_regularizers_are_translated_by_their_name():
    for regularizer in ("L1", "L2", "L1L2", "OrthogonalRegularizer"):
        layer = keras.layers.Dense(
            2, kernel_regularizer=getattr(keras.regularizers, regularizer)(0.25)
        )
        original = keras.Sequential([keras.Input((3,)), layer])
        original.compile("sgd", "mse")
        model = translate(original)
        x = np.ones((1, 3), np.float32)
        penalty = float(sum(original.losses))
        step = model.train_on_batch(x, original.predict(x, verbose=0))
        assert step.loss == pytest.approx(penalty, rel=1e-4)


@pytest.mark.parametrize("module", [cases, page], ids=lambda module: module.__name__)
def test_the_examples_in_docstrings_are_right(module):
    assert doctest.testmod(module).failed == 0
