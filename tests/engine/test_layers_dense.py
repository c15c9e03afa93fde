"""Dense, Activation and Add against finite differences."""

import numpy as np
import pytest

from stethoscope.engine import Activation, Add, Dense, Input, Network
from tests.engine.differences import check_layer


@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("use_bias", [True, False], ids=["bias", "no-bias"])
def test_dense(shape, use_bias):
    check_layer(Dense(5, "tanh", use_bias=use_bias), shape)


@pytest.mark.parametrize("name", ["linear", "sigmoid", "softmax", "tanh"])
def test_activation(name):
    check_layer(Activation(name), (2, 5))


def test_whole_numbers_become_the_networks_dtype():
    x = Input((3,))
    network = Network([x], [Dense(2)(x)])
    assert network.forward([np.arange(6).reshape(2, 3)]).values[-1].dtype == np.float32


def test_add():
    check_layer(Add(), (4,), (4,), (4,))


@pytest.mark.parametrize(
    ("layer", "shapes"),
    [(Dense(2), [()]), (Dense(2), [(3,), (3,)]), (Add(), [(3,), (4,)])],
    ids=["no features", "two inputs", "shapes differ"],
)
def test_inputs_that_do_not_fit(layer, shapes):
    with pytest.raises(ValueError, match=r"needs|takes one input"):
        layer.shape(shapes)
