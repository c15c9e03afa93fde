"""Bidirectional: finite differences and Keras."""

import pytest

from stethoscope.engine.layers.bidirectional import Bidirectional
from stethoscope.engine.layers.gru import GRU
from stethoscope.engine.layers.recurrent import LSTM, SimpleRNN
from tests.engine.against_keras import check_against_keras, keras
from tests.engine.differences import check_layer

MODES = ["concat", "sum", "mul", "ave"]


@pytest.mark.parametrize("sequences", [False, True], ids=["last", "sequences"])
@pytest.mark.parametrize("mode", MODES)
def test_merge_modes(mode, sequences):
    ours = SimpleRNN(5, return_sequences=sequences)
    theirs = keras.layers.SimpleRNN(5, return_sequences=sequences, unroll=True)
    check_layer(Bidirectional(ours, mode), (4, 3))
    check_against_keras(Bidirectional(ours, mode), keras.layers.Bidirectional(theirs, mode), (4, 3))


@pytest.mark.parametrize("kind", [LSTM, GRU], ids=["LSTM", "GRU"])
def test_layers(kind):
    theirs = getattr(keras.layers, kind.__name__)(5, unroll=True)
    check_against_keras(Bidirectional(kind(5)), keras.layers.Bidirectional(theirs), (4, 3))


def test_a_backward_layer_of_its_own():
    layer = Bidirectional(LSTM(3), backward_layer=LSTM(3, go_backwards=True, use_bias=False))
    check_layer(layer, (4, 3))


def test_penalties_are_of_both_directions():
    layer = Bidirectional(LSTM(3, kernel_regularizer="l2"))
    assert set(layer.penalties()) == {"forward_kernel", "backward_kernel"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"merge_mode": None}, "merge_mode of concat, sum, mul, ave; got None"),
        ({"backward_layer": LSTM(3)}, "differ in go_backwards"),
        ({"backward_layer": LSTM(4, go_backwards=True)}, "equal in return_sequences and units"),
    ],
    ids=["mode", "direction", "units"],
)
def test_settings_that_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Bidirectional(LSTM(3), **arguments)
