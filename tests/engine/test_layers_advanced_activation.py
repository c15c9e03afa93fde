"""Activations as layers: finite differences, Keras, and what the program is told."""

import numpy as np
import pytest

from stethoscope.engine import Activation, Dense, Input, Network
from stethoscope.engine.describe import applied
from stethoscope.engine.layers.advanced_activation import ELU, LeakyReLU, PReLU, ReLU, Softmax
from tests.engine.against_keras import check_against_keras, keras
from tests.engine.differences import check_layer

KINDS = {"ReLU": ReLU, "LeakyReLU": LeakyReLU, "ELU": ELU, "Softmax": Softmax, "PReLU": PReLU}
CASES = [
    ("ReLU", {}, "relu"),
    ("ReLU", {"max_value": 1.0}, "relu"),
    ("ReLU", {"max_value": 6}, "relu6"),
    ("ReLU", {"negative_slope": 0.1, "threshold": 0.5, "max_value": 1.5}, "relu"),
    ("LeakyReLU", {}, "leaky_relu"),
    ("LeakyReLU", {"negative_slope": 0.1}, "leaky_relu"),
    ("ELU", {}, "elu"),
    ("ELU", {"alpha": 0.5}, "elu"),
    ("Softmax", {}, "softmax"),
    ("Softmax", {"axis": 1}, "softmax"),
    ("PReLU", {}, "prelu"),
    ("PReLU", {"shared_axes": [1]}, "prelu"),
    ("PReLU", {"shared_axes": [1, 2]}, "prelu"),
]
every = pytest.mark.parametrize(
    ("kind", "chosen", "name"), CASES, ids=[f"{k}-{c}" for k, c, _ in CASES]
)


@every
def test_gradients_are_those_of_the_function(kind, chosen, name):
    check_layer(KINDS[kind](**chosen), (4, 3))


@every
def test_equals_keras(kind, chosen, name):
    check_against_keras(KINDS[kind](**chosen), getattr(keras.layers, kind)(**chosen), (4, 3))


@every
def test_the_program_is_told_which_activation_it_is(kind, chosen, name):
    assert applied(KINDS[kind](**chosen)) == name


def test_prelu_at_0():
    x = np.zeros((2, 3))
    check_against_keras(PReLU(), keras.layers.PReLU(), inputs=[x])


def test_glu_halves_the_axis():
    x = Input((4, 6))
    assert Activation("glu")(x).shape == (4, 3)
    network = Network([x], [Dense(5)(Dense(8, "glu")(x))])
    assert network.nodes[0].shape == (4, 4)
    assert network.forward([np.ones((2, 4, 6), np.float32)]).values[-1].shape == (2, 4, 5)


def test_names_are_those_of_keras():
    x = Input((4, 3))
    for kind, make in KINDS.items():
        layer = make()
        Network([x], [layer(x)])
        keras.backend.clear_session()
        assert layer.name == getattr(keras.layers, kind)().name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ReLU(max_value=-1), "ReLU needs a max_value of at least 0; got -1"),
        (lambda: ReLU(threshold=-1), "ReLU needs a threshold of at least 0; got -1"),
        (lambda: LeakyReLU(-0.1), "LeakyReLU needs a slope of at least 0; got -0.1"),
        (lambda: PReLU(shared_axes=[2]).shape([(3,)]), "needs shared_axes between 1 and 1"),
    ],
)
def test_settings_that_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
