"""Regularizers against finite differences, and against Keras on JAX."""

import os

import numpy as np
import pytest

from stethoscope import engine
from stethoscope.engine import regularizers
from tests.engine.differences import STEP, TOLERANCE

os.environ.setdefault("KERAS_BACKEND", "jax")

NOT_THERE = {"Regularizer", "deserialize", "get", "serialize"}
CASES = [
    ("L1", {}),
    ("L1", {"l1": 0.5}),
    ("L2", {}),
    ("L2", {"l2": 0.5}),
    ("L1L2", {}),
    ("L1L2", {"l1": 0.3, "l2": 0.5}),
    ("OrthogonalRegularizer", {}),
    ("OrthogonalRegularizer", {"factor": 0.5, "mode": "columns"}),
]


def told(case):
    return "-".join([case[0], *(f"{k}={v}" for k, v in case[1].items())])


@pytest.mark.parametrize("case", CASES, ids=told)
def test_differences(case):
    rng = np.random.default_rng(0)
    regularizer = getattr(regularizers, case[0])(**case[1])
    weight, direction = rng.normal(size=(2, 4, 3))
    gradient = regularizer.gradient(weight)
    assert gradient.shape == weight.shape
    up, down = (regularizer.value(weight + sign * STEP * direction) for sign in (1, -1))
    expected = (up - down) / (2 * STEP)
    assert (gradient * direction).sum() == pytest.approx(expected, rel=TOLERANCE, abs=1e-9)


WEIGHTS = {
    "random": np.random.default_rng(1).normal(size=(4, 3)),
    "zeros": np.eye(3),
    "a vector of zeros": np.array([[1.0, 2.0], [0.0, 0.0]]),
    "one row": np.array([[1.0, 2.0]]),
}


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("case", CASES, ids=told)
def test_keras(case, weight):
    jax, keras = pytest.importorskip("jax"), pytest.importorskip("keras")
    array = WEIGHTS[weight].astype(np.float32)
    same = getattr(keras.regularizers, case[0])(**case[1])
    expected, expected_gradient = jax.value_and_grad(same)(array)
    found = getattr(regularizers, case[0])(**case[1])
    with np.errstate(all="ignore"):
        value, gradient = found.value(array), found.gradient(array)
    assert gradient.dtype == np.float32
    assert value == pytest.approx(float(expected), rel=1e-5, nan_ok=True)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-7)


def test_names_are_those_of_keras():
    keras = pytest.importorskip("keras")
    public = {name for name in dir(keras.regularizers) if not name.startswith("_")}
    assert public >= NOT_THERE
    for name in public - NOT_THERE:
        same = getattr(keras.regularizers, name)()
        found = regularizers.get(name)
        for setting, value in same.get_config().items():
            assert getattr(found, setting) == pytest.approx(value), (name, setting)
    for name in NOT_THERE:
        with pytest.raises(ValueError, match="known are"):
            regularizers.get(name)
    assert regularizers.get(None) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: regularizers.L1(-1.0),
        lambda: regularizers.L2(float("nan")),
        lambda: regularizers.OrthogonalRegularizer(mode="both"),
        lambda: regularizers.OrthogonalRegularizer().value(np.ones(3)),
    ],
    ids=["negative", "nan", "mode", "rank"],
)
def test_what_cannot_be(make):
    with pytest.raises(ValueError, match="got"):
        make()


PENALIZED = {
    "dense": (lambda **more: engine.Dense(2, **more), (3,), ("kernel", "bias")),
    "conv": (lambda **more: engine.Conv1D(2, 2, **more), (4, 3), ("kernel", "bias")),
    "transposed": (lambda **more: engine.Conv1DTranspose(2, 2, **more), (4, 3), ("kernel", "bias")),
    "depthwise": (lambda **more: engine.DepthwiseConv1D(2, **more), (4, 3), ("depthwise", "bias")),
    "lstm": (lambda **more: engine.LSTM(2, **more), (4, 3), ("kernel", "recurrent", "bias")),
    "gru": (lambda **more: engine.GRU(2, **more), (4, 3), ("kernel", "recurrent", "bias")),
    "normalization": (engine.BatchNormalization, (3,), ("beta", "gamma")),
    "embedding": (lambda **more: engine.Embedding(5, 2, **more), (3,), ("embeddings",)),
    "prelu": (engine.PReLU, (3,), ("alpha",)),
}


@pytest.mark.parametrize("kind", PENALIZED)
def test_each_weight_of_a_layer_is_penalized_by_its_own_setting(kind):
    make, shape, settings = PENALIZED[kind]
    given = {f"{name}_regularizer": regularizers.L2(2.0**i) for i, name in enumerate(settings)}
    layer, x = make(**given), engine.Input(shape)
    network = engine.Network([x], [layer(x)])
    for name in network.trained:
        network.weights[name] = network.weights[name] + 1
    names = {"recurrent": "recurrent_kernel", "depthwise": "kernel"}
    values = network.weights_of(layer)
    expected = sum(2.0**i * (values[names.get(n, n)] ** 2).sum() for i, n in enumerate(settings))
    gradients = {name: np.zeros_like(network.weights[name]) for name in network.trained}
    assert network.penalty(gradients) == pytest.approx(expected, rel=1e-6)
    assert all(gradient.any() for gradient in gradients.values())


def test_regularizer_of_a_bias_that_is_not_there_penalizes_nothing():
    x = engine.Input((3,))
    network = engine.Network([x], [engine.Dense(2, use_bias=False, bias_regularizer="l2")(x)])
    assert network.penalty({}) == 0
