"""Every activation of Keras: derivative, value and derivative at kinks, and no overflow."""

import inspect
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.engine import activations
from stethoscope.engine.activations.gaussian import cumulative
from tests.engine.against_keras import jax, keras

OTHERS = {"get", "serialize", "deserialize"}  # public names of keras.activations that are none
CASES = [
    *[(name, {}) for name in sorted(set(activations.__all__) - {"Activation", "get", "threshold"})],
    ("relu", {"negative_slope": 0.1}),
    ("relu", {"max_value": 3.0}),
    ("relu", {"max_value": 6.0}),
    ("relu", {"threshold": 1.0}),
    ("relu", {"negative_slope": 0.1, "max_value": 3.0}),
    ("relu", {"negative_slope": 0.1, "max_value": 6.0}),
    ("relu", {"negative_slope": 0.1, "threshold": 1.0}),
    ("relu", {"max_value": 3.0, "threshold": 1.0}),
    ("relu", {"negative_slope": 0.1, "max_value": 3.0, "threshold": 1.0}),
    ("leaky_relu", {"negative_slope": 0.5}),
    ("leaky_relu", {"negative_slope": 1.5}),
    ("elu", {"alpha": 0.5}),
    ("celu", {"alpha": 0.5}),
    ("gelu", {"approximate": True}),
    ("squareplus", {"b": 2}),
    ("hard_shrink", {"threshold": 1.0}),
    ("soft_shrink", {"threshold": 1.0}),
    ("threshold", {"threshold": 0.5, "default_value": -2.0}),
    ("softmax", {"axis": 1}),
    ("log_softmax", {"axis": 1}),
    ("sparsemax", {"axis": 1}),
    ("glu", {"axis": 1}),
]
KINKS = np.array([-6, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 6])
STEP = 1e-6
every = pytest.mark.parametrize(
    ("name", "chosen"), CASES, ids=[f"{n}-{g}" if g else n for n, g in CASES]
)


@every
@settings(max_examples=6, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 3)), seed=st.integers(0, 9)
)
def test_derivative_is_that_of_the_function(name, chosen, shape, seed):
    rng = np.random.default_rng(seed)
    x = 2 * rng.normal(size=(shape[0], 2 * shape[1], 2 * shape[2]))  # glu halves an axis
    x[np.abs(x[..., None] - KINKS).min(axis=-1) < 1e-3] += 0.01
    function = getattr(activations, name)(**chosen)
    y = function.forward(x)
    cotangent, direction = rng.normal(size=y.shape), rng.normal(size=x.shape)
    found = function.backward(cotangent, x, y)
    assert found.dtype == y.dtype == np.float64
    ends = [function.forward(x + sign * STEP * direction) for sign in (1, -1)]
    expected = (cotangent * (ends[0] - ends[1])).sum() / (2 * STEP)
    size = np.linalg.norm(found) * np.linalg.norm(direction) / math.sqrt(x.size)
    assert abs((found * direction).sum() - expected) <= 1e-6 * max(abs(expected), size, 1e-2)


@every
def test_equals_keras_also_at_kinks(name, chosen):
    rng = np.random.default_rng(0)
    drawn = 3 * rng.normal(size=(4, 22))
    drawn[1] = np.concatenate([KINKS, -KINKS])
    x = drawn.astype(np.float32)
    original = x.copy()
    function = getattr(activations, name)(**chosen)
    expected, back = jax.vjp(lambda v: getattr(keras.activations, name)(v, **chosen), x)
    cotangent = rng.normal(size=expected.shape).astype(np.float32)
    y = function.forward(x)
    found = function.backward(cotangent, x, y)
    assert y.dtype == found.dtype == np.float32
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found, back(cotangent)[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(x, original)


def test_no_activation_of_keras_is_missing():
    public = {name for name in dir(keras.activations) if not name.startswith("_")} - OTHERS
    assert public == set(activations.__all__) - {"Activation", "get"}


def test_defaults_are_those_of_keras():
    for name in sorted(set(activations.__all__) - {"Activation", "get"}):
        ours = inspect.signature(getattr(activations, name)).parameters
        theirs = inspect.signature(getattr(keras.activations, name)).parameters
        assert {n: p.default for n, p in ours.items()} == {
            n: p.default for n, p in list(theirs.items())[1:]
        }, name


UNBOUNDED = {"exponential"}  # its overflow is its own


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("size", [100.0, 1e4])
def test_far_values_neither_overflow_nor_warn(dtype, size):
    x = np.array([[-size, size, 0.0, -1.0]], dtype=dtype)
    for name, chosen in CASES:
        if name in UNBOUNDED or chosen.get("axis") == 1:
            continue
        function = getattr(activations, name)(**chosen)
        y = function.forward(x)
        back = function.backward(np.ones_like(y), x, y)
        assert np.isfinite(y).all(), name
        assert np.isfinite(back).all(), name


def test_normal_distribution_equals_the_error_function():
    x = np.linspace(-30, 30, 2001)
    expected = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x])
    np.testing.assert_allclose(cumulative(x), expected, rtol=1e-12, atol=1e-15)
    single = cumulative(x.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=2e-7)


def test_get():
    assert activations.get(None).name == "linear"
    assert activations.get("swish").name == "silu"
    relu = activations.relu()
    assert activations.get(relu) is relu
    with pytest.raises(ValueError, match="unknown activation 'rellu'; known are celu"):
        activations.get("rellu")
    with pytest.raises(ValueError, match=r"threshold\(threshold=\.\.\., default_value=\.\.\.\)"):
        activations.get("threshold")


def test_glu_says_which_size_it_needs():
    with pytest.raises(ValueError, match=r"must be even; got shape \(2, 3\)"):
        activations.glu().forward(np.ones((2, 3)))
