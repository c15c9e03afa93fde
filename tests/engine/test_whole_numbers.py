"""Whole numbers as inputs: every layer computes with them as Keras does, in the network's dtype."""

from __future__ import annotations

import os

import numpy as np
import pytest

from stethoscope import engine
from stethoscope.engine import Dense, Embedding, Flatten, Input, Model, Reshape, Sequential
from stethoscope.engine.layers._base import Layer

os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras")

SERIES, IMAGE = (6, 3), (6, 5, 3)
PAIRS = ("Add", "Average", "Concatenate", "Dot", "Maximum", "Minimum", "Multiply", "Subtract")
ARGUMENTS = {
    "Activation": {"activation": "sigmoid"},
    "AlphaDropout": {"rate": 0.5},
    "AveragePooling1D": {"pool_size": 2},
    "AveragePooling2D": {"pool_size": 2},
    "Conv1D": {"filters": 4, "kernel_size": 3},
    "Conv1DTranspose": {"filters": 4, "kernel_size": 3},
    "Conv2D": {"filters": 4, "kernel_size": 3},
    "Conv2DTranspose": {"filters": 4, "kernel_size": 3},
    "Dense": {"units": 4},
    "DepthwiseConv1D": {"kernel_size": 3},
    "DepthwiseConv2D": {"kernel_size": 3},
    "Dot": {"axes": -1},
    "Dropout": {"rate": 0.5},
    "Embedding": {"input_dim": 256, "output_dim": 4},
    "GRU": {"units": 4},
    "GaussianDropout": {"rate": 0.5},
    "GaussianNoise": {"stddev": 0.5},
    "GroupNormalization": {"groups": 3},
    "LSTM": {"units": 4},
    "Permute": {"dims": (2, 1)},
    "Reshape": {"target_shape": (3, 6)},
    "SimpleRNN": {"units": 4},
    "SpatialDropout1D": {"rate": 0.5},
    "SpatialDropout2D": {"rate": 0.5},
}
LAYERS = sorted(
    name
    for name, value in vars(engine).items()
    if isinstance(value, type) and issubclass(value, Layer)
)


def made(library, name):
    layers = library if library is engine else library.layers
    if name == "Bidirectional":
        return layers.Bidirectional(made(library, "LSTM"))
    return getattr(layers, name)(**ARGUMENTS.get(name, {}))


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
@pytest.mark.parametrize("name", LAYERS)
def test_each_layer_reads_them_as_keras_does(name, dtype):
    shape = IMAGE if "2D" in name else SERIES
    rng = np.random.default_rng(0)
    count = 2 if name in PAIRS else 1
    arrays = [rng.integers(0, 256, (4, *shape)).astype(dtype) for _ in range(count)]
    given = arrays if count > 1 else arrays[0]

    symbols = [Input(shape) for _ in range(count)]
    model = Model(symbols, made(engine, name)(symbols))
    tensors = [keras.Input(shape) for _ in range(count)]
    original = keras.Model(tensors, made(keras, name)(tensors if count > 1 else tensors[0]))
    values = list(model.network.weights.values())
    for variable, value in zip(original.weights[: len(values)], values, strict=True):
        variable.assign(value.reshape(variable.shape))

    expected = np.asarray(original.predict(given, verbose=0))
    found = model.predict(given)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    model.compile("sgd", "mse")
    step = model.train_on_batch(given, np.zeros_like(found))
    assert {value.dtype for value in step.done.values[count:]} == {np.dtype("float32")}
    assert {value.dtype for value in model.network.weights.values()} <= {np.dtype("float32")}


@pytest.mark.parametrize("front", [[], [Reshape((2, 2)), Flatten()]], ids=["alone", "reshaped"])
def test_ids_that_float32_does_not_tell_apart(front):
    last = 2**24
    model = Sequential([*front, Embedding(last + 2, 1, embeddings_initializer="zeros")])
    model.build((4,))
    model.network.weights["embedding/embeddings"][last + 1] = 1
    rows = np.full((1, 4), last + 1)
    np.testing.assert_array_equal(model.predict(rows), np.ones((1, 4, 1)))


def test_ids_that_something_else_reads_too_are_numbers():
    ids = Input((3,))
    model = Model(ids, [Dense(2)(ids), Flatten()(Embedding(10, 2)(ids)), ids])
    outputs = model.predict(np.arange(6).reshape(2, 3))
    assert {output.dtype for output in outputs} == {np.dtype("float32")}


def test_inputs_of_the_right_dtype_are_not_copied():
    model = Sequential([Dense(2)], input_shape=(3,))
    rows = np.ones((5, 3), np.float32)
    assert model.network.forward([rows]).values[0] is rows
