"""Embedding: finite differences, Keras, and ids that are not in the table."""

import numpy as np
import pytest

from stethoscope.engine.layers.embedding import Embedding
from tests.engine.against_keras import check_against_keras, keras
from tests.engine.differences import check_layer

IDS = {
    "one id": np.array([[2], [0]]),
    "repeated": np.array([[1, 1, 4], [4, 1, 0]]),
    "grid": np.arange(12).reshape(2, 2, 3) % 5,
    "from the end": np.array([[-1, -5], [0, 2]]),
    "one column": np.array([3, 1, 3]),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_gradients_are_those_of_the_function(ids):
    check_layer(Embedding(5, 3), ids.shape[1:], inputs=[ids])


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_equals_keras(ids):
    check_against_keras(Embedding(5, 3), keras.layers.Embedding(5, 3), inputs=[ids])


@pytest.mark.parametrize("ids", [[[0, 5]], [[-6, 2]]], ids=["above", "below"])
def test_ids_beyond_the_table_are_nan_as_with_keras(ids):
    check_against_keras(Embedding(5, 3), keras.layers.Embedding(5, 3), inputs=[np.array(ids)])


def test_ids_as_floating_point_numbers():
    layer = Embedding(5, 3)
    table = np.arange(15.0).reshape(5, 3)
    done = layer.forward([np.array([[0.0, 2.9]], np.float32)], {"embeddings": table}, None)
    np.testing.assert_array_equal(done.output, table[[[0, 2]]])
    (back,), _ = layer.backward(np.ones((1, 2, 3)), done.saved, {"embeddings": table})
    assert (back == 0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"mask_zero": True}, "no masks; set it to False"), ({"input_dim": 0}, "input_dim=0")],
    ids=["mask", "size"],
)
def test_settings_that_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Embedding(**{"input_dim": 5, "output_dim": 3, **arguments})
