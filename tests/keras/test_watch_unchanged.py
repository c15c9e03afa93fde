"""A watched Keras run ends bit-identical to the bare one, on every backend, and leaves nothing."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("programs.py")
PROGRAMS = (
    "dense",
    "every_layer",
    "several_ends",
    "dataset",
    "generator",
    "subclassed",
    "weighted",
    "scheduled",
    "with_callbacks",
)
LAYERS = (
    "Embedding",
    "Conv1D",
    "Conv2D",
    "MaxPooling1D",
    "MaxPooling2D",
    "AveragePooling2D",
    "GlobalAveragePooling1D",
    "SimpleRNN",
    "LSTM",
    "GRU",
    "Bidirectional",
    "MultiHeadAttention",
    "LayerNormalization",
    "BatchNormalization",
    "GroupNormalization",
    "TimeDistributed",
    "Dense",
    "ReLU",
    "Concatenate",
    "Flatten",
    "Dropout",
)
ON = {
    "jax": tuple(name for name in PROGRAMS if name not in ("dataset", "generator")),
    "torch": PROGRAMS,
    "tensorflow": ("dense", "generator"),
}
CASES = [(backend, name) for backend, names in ON.items() for name in names]


@functools.cache
def compared(backend):
    environment = {
        **os.environ,
        "KERAS_BACKEND": backend,
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *ON[backend]], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(900)  # a whole backend is compared in one process
@pytest.mark.parametrize(("backend", "name"), CASES, ids=["-".join(case) for case in CASES])
def test_watched_run_equals_bare_run(backend, name):
    found = compared(backend)[name]
    assert found["weights"] == []
    assert found["history"]
    assert found["random"]
    assert found["saved"]  # the model and a checkpoint, in the middle of the run, loaded again
    assert found["left"] == []
    assert found["notes"] == []
    # Both kinds of step were compared; on JAX a ragged batch is left to the next step.
    assert found["probed"] > 10
    assert found["plain"] > 3


@pytest.mark.timeout(900)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_every_usual_layer_is_recorded_in_a_fit(backend, layer):
    assert compared(backend)["every_layer"]["recorded"][layer]
