"""Dropout and noise: finite differences with the draw held fixed, and the distribution."""

import numpy as np
import pytest

from stethoscope.engine import Input, Network
from stethoscope.engine.layers.dropout import (
    AlphaDropout,
    Dropout,
    GaussianDropout,
    GaussianNoise,
    SpatialDropout1D,
    SpatialDropout2D,
)
from tests.engine.differences import check_layer

CASES = {
    "Dropout": (lambda: Dropout(0.3), (40,)),
    "Dropout noise_shape": (lambda: Dropout(0.3, (None, 1, 5)), (4, 5)),
    "Dropout 0": (lambda: Dropout(0), (40,)),
    "Dropout 1": (lambda: Dropout(1), (40,)),
    "SpatialDropout1D": (lambda: SpatialDropout1D(0.3), (4, 5)),
    "SpatialDropout2D": (lambda: SpatialDropout2D(0.3), (2, 3, 5)),
    "SpatialDropout2D first": (lambda: SpatialDropout2D(0.3, "channels_first"), (5, 2, 3)),
    "GaussianNoise": (lambda: GaussianNoise(0.3), (40,)),
    "GaussianDropout": (lambda: GaussianDropout(0.3), (40,)),
    "AlphaDropout": (lambda: AlphaDropout(0.3), (40,)),
}
every = pytest.mark.parametrize(("make", "shape"), CASES.values(), ids=CASES)


def forward(layer, x, training=True):
    symbol = Input(x.shape[1:])
    network = Network([symbol], [layer(symbol)], dtype=x.dtype)
    done = network.forward([x], training=training)
    network.backward(done, [np.ones_like(x)])
    return done.values[-1], done.gradients[0]


@every
def test_gradients_are_those_of_the_function(make, shape):
    check_layer(make(), shape)


@every
def test_nothing_happens_in_inference(make, shape):
    x = np.random.default_rng(0).normal(size=(3, *shape)).astype(np.float32)
    y, gradient = forward(make(), x, training=False)
    np.testing.assert_array_equal(y, x)
    assert (gradient == 1).all()


@every
def test_float32_stays(make, shape):
    y, gradient = forward(make(), np.ones((3, *shape), np.float32))
    assert y.dtype == gradient.dtype == np.float32


def test_dropout_keeps_the_mean():
    y, gradient = forward(Dropout(0.25), np.ones((100, 200), np.float32))
    np.testing.assert_allclose(np.unique(y), [0, 1 / 0.75], rtol=1e-6)
    np.testing.assert_array_equal(y, gradient)
    assert abs(y.mean() - 1) < 0.02


def test_what_is_dropped_is_0_even_where_it_was_infinite():
    x = np.full((10, 10), np.inf, np.float32)
    y, _ = forward(Dropout(0.5), x)
    assert set(np.unique(y)) == {0, np.inf}


@pytest.mark.parametrize(
    ("layer", "shape", "axes"),
    [
        (SpatialDropout1D(0.5), (6, 7), (1,)),
        (SpatialDropout2D(0.5), (4, 5, 6), (1, 2)),
        (SpatialDropout2D(0.5, "channels_first"), (6, 4, 5), (2, 3)),
        (Dropout(0.5, (None, 1, 7)), (6, 7), (1,)),
    ],
    ids=["1D", "2D", "2D first", "noise_shape"],
)
def test_whole_channels_are_dropped(layer, shape, axes):
    y, _ = forward(layer, np.ones((8, *shape), np.float32))
    assert (y.min(axis=axes) == y.max(axis=axes)).all()
    assert set(np.unique(y)) == {0, 2}


@pytest.mark.parametrize(
    "layer", [GaussianNoise(0.5), GaussianDropout(0.2)], ids=["noise", "dropout"]
)
def test_gaussian_spread(layer):
    y, _ = forward(layer, np.ones((100, 200), np.float32))
    assert abs(y.mean() - 1) < 0.02
    assert abs(y.std() - 0.5) < 0.02


def test_alpha_dropout_keeps_mean_and_variance():
    y, _ = forward(AlphaDropout(0.2), np.random.default_rng(0).normal(size=(200, 200)))
    assert abs(y.mean()) < 0.03
    assert abs(y.std() - 1) < 0.03


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dropout(1.5), "Dropout needs a rate between 0 and 1; got 1.5"),
        (lambda: SpatialDropout1D(-1), "SpatialDropout1D needs a rate between 0 and 1; got -1"),
        (lambda: GaussianNoise(2), "GaussianNoise needs a stddev between 0 and 1; got 2"),
        (lambda: GaussianDropout(1), "GaussianDropout needs a rate from 0 to below 1; got 1"),
        (lambda: AlphaDropout(1), "AlphaDropout needs a rate from 0 to below 1; got 1"),
        (lambda: SpatialDropout2D(0.5, "first"), "needs data_format"),
        (lambda: SpatialDropout1D(0.5).shape([(3,)]), "needs inputs of 3 axes"),
        (lambda: SpatialDropout2D(0.5).shape([(3,)]), "needs inputs of 4 axes"),
    ],
)
def test_settings_that_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
