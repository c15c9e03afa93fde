"""What the adapters record equals what the engine records: every column, every step.

Statistics within 1e-4 of each other, and within rounding of the tensor where it is nearly 0; shares
and counts equal. A column that only one side has is a difference too, unless it is declared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stethoscope.engine import Dense, Sequential
from stethoscope.types import Stage
from tests.engine import oracle_keras, oracle_torch
from tests.engine.oracle import Declared, differences, trained

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(oracle_keras.BACKEND != "jax", reason="this half is of the JAX backend")
@pytest.mark.parametrize("name", oracle_keras.PROGRAMS)
def test_keras_on_jax(name, tmp_path):
    assert oracle_keras.compare(name, tmp_path) == []


def test_keras_on_torch(tmp_path):
    """All programs in one process: the backend is chosen once."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.oracle_keras", str(tmp_path)],
        env={**os.environ, "KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {name: [] for name in oracle_keras.PROGRAMS}


@pytest.mark.parametrize("name", oracle_torch.PROGRAMS)
def test_pytorch(name, tmp_path):
    assert oracle_torch.compare(name, tmp_path) == []


BATCHES = [(np.full((4, 2), i + 1.0), np.full((4, 1), 0.1 * i)) for i in range(3)]


@pytest.fixture
def trace(tmp_path):
    """Makes the trace of a small training."""

    def make(batches=BATCHES, activation="tanh", name="end", seed=0):
        model = Sequential([Dense(3, activation), Dense(1, name=name)], seed=seed)
        model.compile("sgd", "mse")
        return trained(model, batches, tmp_path / f"{len(list(tmp_path.iterdir()))}")

    return make


def test_equal_trainings_differ_in_nothing(trace):
    assert differences(trace(), trace()) == []


def test_a_number_that_differs_is_told(trace):
    later = [*BATCHES[:2], (BATCHES[2][0] * 1.001, BATCHES[2][1])]
    found = differences(trace(), trace(later))
    assert any(text.startswith("input of 0 mean: 3 of the adapter") for text in found)
    assert all("at step 2, 1 steps differ" in text for text in found)
    stages = {text.split(" of ")[0] for text in found}
    assert stages == {str(s) for s in Stage} - {"target", "metric", "hyper", "weight"}


def test_a_column_of_one_side_is_told_unless_declared(trace):
    found = differences(trace(), trace(activation=None))
    assert "pre_activation of dense: only the adapter has it" in found
    reason = Declared("because", "adapter", Stage.PRE_ACTIVATION, "dense")
    again = differences(trace(), trace(activation=None), declared=[reason])
    assert found[0] not in again
    assert again == found[1:]


def test_what_is_declared_in_vain_is_told(trace):
    reason = Declared("because", "engine", Stage.OUTPUT)
    (text,) = differences(trace(), trace(), declared=[reason])
    assert text.startswith("declared in vain")


def test_names_are_those_of_the_engine(trace):
    other = trace(name="other")
    assert differences(other, trace()) != []
    names = {("other", param): ("end", param) for param in ("", "kernel", "bias")}
    assert differences(other, trace(), names) == []


def test_a_step_too_few_is_told(trace):
    assert "2 steps against 3" in differences(trace(BATCHES[:2]), trace())[0]
