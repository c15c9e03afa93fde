"""Depthwise convolutions against finite differences, Keras and grouped convolutions."""

import numpy as np
import pytest

from stethoscope.engine import Conv2D, DepthwiseConv1D, DepthwiseConv2D
from stethoscope.engine.layers import depthwise
from stethoscope.engine.layers._base import Mode
from tests.engine.against_keras import check_against_keras, keras
from tests.engine.differences import check_layer

FIRST = {"data_format": "channels_first"}
CASES = [
    {},
    {"use_bias": False, "activation": "tanh"},
    {"strides": 2},
    {"strides": 2, "padding": "same"},
    {"dilation_rate": 2, "padding": "same"},
    {"depth_multiplier": 3},
    {"depth_multiplier": 2, "padding": "same", "kernel_size": 2},
]
MODE = Mode(training=False, rng=np.random.default_rng())


def name(chosen):
    return "-".join(f"{k}={v}" for k, v in chosen.items()) or "defaults"


@pytest.mark.parametrize("chosen", [*CASES, {"padding": 1, "strides": 2}], ids=name)
@pytest.mark.parametrize("order", [{}, FIRST], ids=["last", "first"])
def test_derivatives(chosen, order):
    chosen = {"kernel_size": 3, **chosen, **order}
    check_layer(DepthwiseConv2D(**chosen), (2, 6, 5) if order else (6, 5, 2))
    check_layer(DepthwiseConv1D(**chosen), (2, 6) if order else (6, 2))


@pytest.mark.parametrize("chosen", CASES, ids=name)
def test_equals_keras(chosen):
    chosen = {"kernel_size": 3, **chosen}
    check_against_keras(
        DepthwiseConv2D(**chosen), keras.layers.DepthwiseConv2D(**chosen), (6, 5, 2)
    )


def test_one_length_equals_keras():
    chosen = {"kernel_size": 3, "depth_multiplier": 2}
    check_against_keras(DepthwiseConv1D(**chosen), keras.layers.DepthwiseConv1D(**chosen), (6, 2))


@pytest.mark.parametrize("order", [{}, FIRST], ids=["last", "first"])
def test_equals_a_convolution_in_groups_also_in_blocks(order, monkeypatch):
    monkeypatch.setattr(depthwise, "BLOCK", 100)  # of 5 samples two at a time
    rng = np.random.default_rng(0)
    shape = (3, 6, 5) if order else (6, 5, 3)
    layers = [DepthwiseConv2D(3, depth_multiplier=2, **order), Conv2D(6, 3, groups=3, **order)]
    assert layers[0].shape([shape]) == layers[1].shape([shape])
    kernel, bias = rng.normal(size=(3, 3, 3, 2)), rng.normal(size=6)
    weights = [{"kernel": k, "bias": bias} for k in (kernel, kernel.reshape(3, 3, 1, 6))]
    x = rng.normal(size=(5, *shape))
    done = [layer.forward([x], w, MODE) for layer, w in zip(layers, weights, strict=True)]
    np.testing.assert_allclose(done[0].output, done[1].output, rtol=1e-12, atol=1e-12)
    gradient = rng.normal(size=done[0].output.shape)
    ((own,), found), ((other,), expected) = [
        layer.backward(gradient, made.saved, w)
        for layer, made, w in zip(layers, done, weights, strict=True)
    ]
    np.testing.assert_allclose(own, other, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["kernel"].reshape(3, 3, 1, 6), expected["kernel"], rtol=1e-10)
    np.testing.assert_allclose(found["bias"], expected["bias"], rtol=1e-12)


def test_what_does_not_fit_is_told():
    with pytest.raises(ValueError, match="depth_multiplier must be a positive"):
        DepthwiseConv2D(3, depth_multiplier=0)
    with pytest.raises(ValueError, match=r"got .batch, 6, 2"):
        DepthwiseConv2D(3).shape([(6, 2)])
