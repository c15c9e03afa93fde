"""Batch, layer and group normalization: finite differences, Keras, moving statistics."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.engine import Input, Network
from stethoscope.engine.layers.normalization import (
    BatchNormalization,
    GroupNormalization,
    LayerNormalization,
)
from tests.engine.against_keras import check_against_keras, keras
from tests.engine.differences import check_layer

KINDS = {
    "BatchNormalization": BatchNormalization,
    "LayerNormalization": LayerNormalization,
    "GroupNormalization": GroupNormalization,
}
CASES = [
    ("BatchNormalization", {}, (6,)),
    ("BatchNormalization", {}, (2, 3, 4)),
    ("BatchNormalization", {"axis": 1}, (4, 2, 3)),
    ("BatchNormalization", {"axis": -2}, (4, 3)),
    ("BatchNormalization", {"momentum": 0.5, "epsilon": 0.1}, (6,)),
    ("LayerNormalization", {}, (6,)),
    ("LayerNormalization", {"axis": 1}, (3, 4)),
    ("LayerNormalization", {"axis": [-1, 1]}, (3, 4)),
    ("LayerNormalization", {"axis": [1, 3], "epsilon": 0.1}, (3, 2, 4)),
    ("GroupNormalization", {"groups": 2}, (6,)),
    ("GroupNormalization", {"groups": 2}, (2, 3, 4)),
    ("GroupNormalization", {"groups": 2, "axis": 1}, (4, 2, 3)),
    ("GroupNormalization", {"groups": -1}, (3, 4)),
]
CASES += [
    (kind, {**chosen, "center": center, "scale": scale}, shape)
    for kind, chosen, shape in [CASES[1], CASES[6], CASES[10]]
    for center, scale in [(False, True), (True, False), (False, False)]
]
every = pytest.mark.parametrize(
    ("kind", "chosen", "shape"), CASES, ids=[f"{k}-{c}-{s}" for k, c, s in CASES]
)
BATCH = [case for case in CASES if case[0] == "BatchNormalization"]  # the only one with two modes


@every
def test_gradients_are_those_of_the_function(kind, chosen, shape):
    check_layer(KINDS[kind](**chosen), shape)


@every
def test_equals_keras(kind, chosen, shape):
    theirs = getattr(keras.layers, kind)(**chosen)
    check_against_keras(KINDS[kind](**chosen), theirs, shape, batch=5)


@pytest.mark.parametrize(("kind", "chosen", "shape"), BATCH, ids=[f"{c}-{s}" for _, c, s in BATCH])
def test_inference(kind, chosen, shape):
    check_layer(KINDS[kind](**chosen), shape, training=False)
    theirs = getattr(keras.layers, kind)(**chosen)
    check_against_keras(KINDS[kind](**chosen), theirs, shape, training=False, batch=5)


@settings(max_examples=8, deadline=None)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    batch=st.integers(2, 4),
    seed=st.integers(0, 9),
)
def test_any_shape(shape, batch, seed):
    check_layer(BatchNormalization(epsilon=0.1), tuple(shape), batch=batch, seed=seed)
    check_layer(LayerNormalization(epsilon=0.1), tuple(shape), batch=batch, seed=seed)


def test_a_frozen_layer_keeps_and_uses_its_moving_statistics():
    layer = BatchNormalization()
    layer.trainable = False
    x = Input((3,))
    network = Network([x], [layer(x)])
    rows = np.random.default_rng(0).normal(5, 2, (64, 3)).astype(np.float32)
    done = network.forward([rows], training=True)
    np.testing.assert_allclose(done.values[-1], rows / np.sqrt(1 + 1e-3), rtol=1e-5)
    assert (network.weights_of(layer)["moving_mean"] == 0).all()
    assert network.trained == []


def test_many_rows_far_from_0_are_normalized_in_float32():
    x = Input((2,))
    network = Network([x], [BatchNormalization()(x)])
    rows = np.random.default_rng(0).normal(100, 1, (50_000, 2)).astype(np.float32)
    y = network.forward([rows], training=True).values[-1].astype(np.float64)
    np.testing.assert_allclose(y.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(y.std(axis=0), 1, atol=1e-3)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (BatchNormalization(axis=3), r"needs an axis of \('batch', 4, 5\).*got 3"),
        (LayerNormalization(axis=0), "other than the batch axis; got 0"),
        (GroupNormalization(groups=3), "needs channels that divide into 3 groups; got 5"),
    ],
    ids=["beyond", "batch", "groups"],
)
def test_axes_that_do_not_fit(layer, message):
    with pytest.raises(ValueError, match=message):
        layer.shape([(4, 5)])


def test_unknown_settings():
    with pytest.raises(TypeError, match="BatchNormalization has no setting renorm; it has beta_"):
        BatchNormalization(renorm=True)


def test_the_moving_variance_may_be_unbiased():
    layer = BatchNormalization(momentum=0.0, unbiased=True)
    first = Input((3,))
    network = Network([first], [layer(first)])
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    network.forward([x], training=True)
    kept = network.weights_of(layer)["moving_variance"]
    np.testing.assert_allclose(kept, x.var(axis=0, ddof=1), rtol=1e-6)
    check_layer(BatchNormalization(unbiased=True), (3,))
