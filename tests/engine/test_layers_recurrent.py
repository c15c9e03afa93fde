"""SimpleRNN, LSTM and GRU: finite differences, Keras, and how their settings are read."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.engine import Input, Network
from stethoscope.engine.layers.gru import GRU
from stethoscope.engine.layers.recurrent import LSTM, SimpleRNN
from tests.engine.against_keras import check_against_keras, keras
from tests.engine.differences import check_layer

SHAPE = (4, 3)
KINDS = {"SimpleRNN": SimpleRNN, "LSTM": LSTM, "GRU": GRU}
SETTINGS = [
    {},
    {"use_bias": False},
    {"return_sequences": True},
    {"go_backwards": True},
    {"return_sequences": True, "go_backwards": True},
    {"activation": "relu"},
    {"activation": "softmax"},
    {"activation": None},
    {"activation": "gelu", "return_sequences": True},
]
GATED = [
    {"recurrent_activation": "hard_sigmoid"},
    {"recurrent_activation": "softmax"},
    {"recurrent_activation": None},
]
CASES = [
    *itertools.product(KINDS, SETTINGS),
    *itertools.product(["LSTM", "GRU"], GATED),
    *itertools.product(
        ["GRU"],
        [
            {"reset_after": False},
            {"reset_after": False, "use_bias": False},
            {"reset_after": False, "return_sequences": True, "go_backwards": True},
        ],
    ),
]
every = pytest.mark.parametrize(
    ("kind", "chosen"), CASES, ids=[f"{kind}-{chosen}" for kind, chosen in CASES]
)


@every
def test_gradients_are_those_of_the_function(kind, chosen):
    check_layer(KINDS[kind](3, **chosen), SHAPE)


@every
def test_equals_keras(kind, chosen):
    layer = KINDS[kind](5, **chosen)
    # Unrolled, Keras compiles no loop: the arithmetic is the same, the test takes a tenth.
    unrolled = getattr(keras.layers, kind)(5, unroll=True, **chosen)
    check_against_keras(layer, unrolled, SHAPE)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5, deadline=None)
@given(
    steps=st.integers(1, 5),
    features=st.integers(1, 3),
    units=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_any_shape(kind, steps, features, units, seed):
    check_layer(KINDS[kind](units, return_sequences=True), (steps, features), seed=seed)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_drops_a_feature_at_every_step(kind):
    check_layer(KINDS[kind](3, dropout=0.5), SHAPE)
    x = Input((6, 40))
    layer = KINDS[kind](2, dropout=0.25)
    network = Network([x], [layer(x)], dtype=np.float32)
    ones = np.ones((50, 6, 40), np.float32)
    series = network.forward([ones], training=True).saved[0].series
    assert (series == series[:1]).all()
    np.testing.assert_allclose(np.unique(series), [0, 1 / 0.75], rtol=1e-6)
    assert 0.7 < (series[0] > 0).mean() < 0.8
    assert (network.forward([ones]).saved[0].series == 1).all()


@pytest.mark.parametrize("forget", [True, False], ids=["forget", "no forget"])
def test_the_forget_bias_starts_at_1(forget):
    first = LSTM(3, unit_forget_bias=forget).build([SHAPE], np.random.default_rng(0))
    expected = keras.layers.LSTM(3, unit_forget_bias=forget)
    expected.build((None, *SHAPE))
    np.testing.assert_array_equal(first["bias"], expected.get_weights()[2])


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_that_do_not_fit(kind):
    with pytest.raises(ValueError, match=r"needs inputs of shape \(batch, steps, features\)"):
        KINDS[kind](3).shape([(4,)])
    with pytest.raises(TypeError, match=r"has no setting stateful; it has bias_initializer"):
        KINDS[kind](3, stateful=True)


def test_penalties_are_of_their_weights():
    layer = LSTM(3, kernel_regularizer="l1", recurrent_regularizer="l2")
    assert set(layer.penalties()) == {"kernel", "recurrent_kernel"}
