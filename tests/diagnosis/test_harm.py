"""Harm: a pure function of the loss so far, its baseline and its noise."""

from __future__ import annotations

import numpy as np
import pytest

from stethoscope.diagnosis.harm import State, judge
from stethoscope.faults._measure import Measurements
from stethoscope.program import (
    ConstantErrors,
    DataSpec,
    LayerSpec,
    LossSpec,
    OptimizerSpec,
    Program,
)
from stethoscope.rules._series import Series
from stethoscope.types import Slot, Stage
from stethoscope.vocabulary import Expects, LayerKind

BASELINE = np.log(10)
NOISE = np.random.default_rng(0).normal(size=2000)


def program(**changes: object) -> Program:
    target = DataSpec(
        shape=(), min=0, max=9, mean=4.5, std=2.9, integer_valued=True, distinct=10,
        class_counts=tuple((float(i), 100) for i in range(10)), rows_seen=1000, complete=True,
    )  # fmt: skip
    loss = LossSpec("sparse_categorical_crossentropy", "CrossEntropyLoss", expects=Expects.LOGITS)
    known = {
        "losses": (loss,),
        "targets": (target,),
        "optimizers": (OptimizerSpec("sgd", "SGD"),),
    }
    return Program("torch", **{**known, **changes})


def measurements(course: np.ndarray, agreement: np.ndarray | None = None, moved: bool = True):
    measured = Measurements()
    for loss in course:
        measured.loss.add(float(loss))
    for value in agreement if agreement is not None else ():
        measured.agreement.add(float(value))
    measured.moved = lambda share: moved
    measured.steps = len(course)
    return measured


def state(course: np.ndarray, **changes: object) -> State:
    return judge(program(**changes), measurements(course)).state


STEPS = np.arange(600)


@pytest.mark.parametrize(
    ("course", "expected"),
    [
        pytest.param(2.3 * np.exp(-STEPS / 200), State.LEARNING, id="falls"),
        pytest.param(
            2.3 * np.exp(-STEPS / 200) + 0.3 * NOISE[:600], State.LEARNING, id="falls-in-noise"
        ),
        pytest.param(BASELINE + 0.02 * NOISE[:600], State.HARMED, id="flat-at-the-baseline"),
        pytest.param(BASELINE + 0.3 * NOISE[:600], State.HARMED, id="flat-in-much-noise"),
        pytest.param(
            np.append(1.1, 12 + 5 * NOISE[:150]), State.HARMED, id="far-above-in-its-own-noise"
        ),
        pytest.param(np.full(600, 7.67), State.HARMED, id="exactly-constant"),
        pytest.param(2.3 + STEPS / 100, State.HARMED, id="rises"),
        pytest.param(
            3.0 - STEPS / 1000 + 0.01 * NOISE[:600], State.UNKNOWN, id="above-and-falling-fast"
        ),
        pytest.param(
            3.5 + 12 * np.exp(-STEPS[:45] / 8) + 0.5 * NOISE[:45],
            State.UNKNOWN,
            id="just-come-down",
        ),
        pytest.param(
            9.0 - STEPS * 1e-5 + 1e-4 * NOISE[:600], State.HARMED, id="above-and-falling-too-slowly"
        ),
        pytest.param(BASELINE + 0.1 * NOISE[:60], State.UNKNOWN, id="flat-but-for-too-short"),
        pytest.param(np.full(60, BASELINE), State.HARMED, id="constant-at-the-baseline"),
        pytest.param(np.full(20, 7.67), State.UNKNOWN, id="too-few-steps"),
        pytest.param(np.full(0, 7.67), State.UNKNOWN, id="no-loss"),
    ],
)
def test_state(course, expected):
    assert state(course) is expected


def test_unbounded_noise_of_a_game_is_no_harm():
    two = (OptimizerSpec("adam", "Adam"), OptimizerSpec("adam", "Adam"))
    losses = (LossSpec("binary_crossentropy", "bce"), LossSpec("binary_crossentropy", "bce"))
    assert state(1 + STEPS / 100, optimizers=two, losses=losses) is State.UNKNOWN
    assert state(1 + STEPS / 100, optimizers=two) is State.HARMED


def test_without_a_baseline_a_fall_learns_and_a_rise_says_nothing():
    unknown = (LossSpec(None, "hand-written"),)
    assert state(1 + STEPS / 100 + 0.01 * NOISE[:600], losses=unknown) is State.UNKNOWN
    assert state(1.0 + STEPS, losses=unknown) is State.HARMED
    weighted = (LossSpec("sparse_categorical_crossentropy", "CrossEntropyLoss", weighted=True),)
    assert state(1 + STEPS / 100 + 0.01 * NOISE[:600], losses=weighted) is State.HARMED
    assert state(7 - STEPS / 100 + 0.01 * NOISE[:600], losses=unknown) is State.LEARNING
    assert state(1 + 0.1 * NOISE[:600], losses=unknown) is State.UNKNOWN


FLAT = BASELINE + 0.3 * NOISE[:600]


@pytest.mark.parametrize(
    ("agreement", "moved", "expected"),
    [
        pytest.param(0.09 + 0.1 * NOISE[:600], True, State.LEARNING, id="faint-but-clear"),
        pytest.param(0.1 * NOISE[:600], True, State.HARMED, id="none"),
        pytest.param(np.zeros(600), True, State.HARMED, id="output-is-constant"),
        pytest.param(0.3 + 0.1 * NOISE[:600], False, State.HARMED, id="luck-of-the-first-weights"),
        pytest.param(0.02 + 0.5 * NOISE[:40], True, State.UNKNOWN, id="would-not-have-been-seen"),
    ],
)
def test_at_the_baseline_the_predictions_decide(agreement, moved, expected):
    assert judge(program(), measurements(FLAT, agreement, moved)).state is expected


def test_far_above_the_baseline_no_agreement_helps():
    measured = measurements(1.5 * FLAT, 0.3 + 0.1 * NOISE[:600])
    assert judge(program(), measured).state is State.HARMED


def real(**facts: object) -> dict[str, object]:
    target = DataSpec(shape=(1,), min=-3, max=3, mean=0, std=1, integer_valued=False,
                      rows_seen=10000, complete=True, **facts)  # fmt: skip
    return {"losses": (LossSpec("mae", "L1Loss", expects=Expects.VALUES),), "targets": (target,)}


def test_a_bound_of_the_baseline_shows_harm_and_no_learning():
    course = 0.8 + 0.01 * NOISE[:600]
    assert state(course, **real()) is State.UNKNOWN
    assert state(course, **real(best_constant=ConstantErrors(1.0, 0.7979))) is State.HARMED
    assert state(0.5 * course, **real(best_constant=ConstantErrors(1.0, 0.7979))) is State.LEARNING
    assert state(1.3 * course, **real()) is State.HARMED


def test_targets_that_grow_with_the_run_have_no_criterion():
    measured = measurements(0.1 + STEPS / 100)
    values = real()
    assert judge(program(**values), measured).state is State.HARMED
    series = measured.targets.setdefault(Slot("", "0", Stage.TARGET), Series())
    for step in range(60):
        series.add(1.0 + step)
    found = judge(program(**values), measured)
    assert (found.state, found.criterion) == (State.UNKNOWN, False)


def test_rows_that_are_weighted_have_no_criterion():
    target = DataSpec(shape=(2,), min=-1, max=1, mean=0, std=1, rows_sum_to_one=False,
                      rows_seen=10000, batches_seen=100)  # fmt: skip
    loss = LossSpec("categorical_crossentropy", "cross_entropy", expects=Expects.LOGITS)
    changes = {"losses": (loss,), "targets": (target,)}
    found = judge(program(**changes), measurements(0.1 * NOISE[:600]))
    assert (found.state, found.criterion) == (State.UNKNOWN, False)


@pytest.mark.parametrize(
    ("weighted", "expected"), [(False, State.HARMED), (True, State.LEARNING)], ids=str
)
def test_likelihood_of_classes_below_0_is_no_learning(weighted, expected):
    loss = LossSpec(
        "nll", "nll_loss", expects=Expects.LOG_PROBABILITIES, reduction="mean", weighted=weighted
    )
    assert state(2.0 - STEPS / 10, losses=(loss,)) is expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [("", State.LEARNING), ("out", State.HARMED)],
    ids=["residual", "prediction"],
)
def test_residual_that_is_trained_towards_0_learns(output, expected):
    zeros = DataSpec(shape=(1,), min=0, max=0, mean=0, std=0, constant=True, rows_seen=10000,
                     complete=True, best_constant=ConstantErrors(0.0, 0.0))  # fmt: skip
    config = {} if output else {"computed": True}
    loss = LossSpec("mae", "l1_loss", output=output or None, config=config)
    layers = (LayerSpec("out", "Linear", LayerKind.DENSE, params={"weight": (8, 1)}),)
    course = np.maximum(0.03, np.exp(-STEPS / 20)) * (1 + 0.05 * NOISE[:600])
    assert state(course, losses=(loss,), targets=(zeros,), layers=layers) is expected
