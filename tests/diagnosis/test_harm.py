"""Harm: a pure function of the loss so far, its baseline and its noise."""

from __future__ import annotations

import numpy as np
import pytest

from stethoscope.diagnosis.harm import State, judge
from stethoscope.faults._measure import Measurements
from stethoscope.program import DataSpec, LossSpec, OptimizerSpec, Program
from stethoscope.vocabulary import Expects

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


def state(course: np.ndarray, **changes: object) -> State:
    measured = Measurements()
    for loss in course:
        measured.loss.add(float(loss))
    measured.steps = len(course)
    return judge(program(**changes), measured).state


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
