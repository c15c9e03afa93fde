"""Convolutions against finite differences, Keras and, where Keras has no such thing, torch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.engine import Conv1D, Conv2D
from stethoscope.engine.layers import _convolve
from stethoscope.engine.layers._base import Mode
from stethoscope.engine.layers._windows import Windows
from tests.engine.against_keras import check_against_keras, keras
from tests.engine.differences import check_layer

FIRST = {"data_format": "channels_first"}
BOTH = [  # settings of Conv1D and Conv2D alike
    {},
    {"use_bias": False},
    {"strides": 2},
    {"padding": "same"},
    {"padding": "same", "strides": 2},
    {"padding": "same", "strides": 3},
    {"dilation_rate": 2},
    {"dilation_rate": 2, "padding": "same"},
    {"groups": 2},
    {"groups": 4, "strides": 2, "padding": "same"},
    {"activation": "tanh", "padding": "same"},
    {"kernel_size": 1},
    {"kernel_size": 2, "padding": "same"},
    {"kernel_size": 2, "strides": 3},
]
CONV1D = [*BOTH, *({"padding": "causal", **more} for more in ({}, {"strides": 2}))]
CONV1D.append({"padding": "causal", "dilation_rate": 2})
CONV2D = [
    *BOTH,
    {"kernel_size": (3, 2), "strides": (1, 2)},
    {"kernel_size": (2, 3), "dilation_rate": (3, 1), "padding": "same"},
]
NOT_IN_KERAS = [  # what modules of torch need
    {"strides": 2, "dilation_rate": 2},
    {"padding": 1},
    {"padding": 1, "strides": 2},
]
CASES = [
    *((Conv1D, chosen, (9, 4)) for chosen in CONV1D),
    *((Conv2D, chosen, (7, 8, 4)) for chosen in CONV2D),
]
MORE = [(Conv2D, chosen, (7, 8, 4)) for chosen in NOT_IN_KERAS]
# Keras compiles each anew: what both share is compared once.
COMPARED = [case for case in CASES if case[0] is Conv2D or case[1] not in BOTH[1:]]
MODE = Mode(training=False, rng=np.random.default_rng())


def name(case):
    kind, chosen, _ = case
    return "-".join([kind.__name__, *(f"{k}={v}" for k, v in chosen.items())])


def moved(shape):
    """The channels first."""
    return (shape[-1], *shape[:-1])


@pytest.mark.parametrize(
    "case", [*CASES, *((Conv2D, c, (7, 8, 4)) for c in NOT_IN_KERAS)], ids=name
)
@pytest.mark.parametrize("order", [{}, FIRST], ids=["last", "first"])
def test_derivatives(case, order):
    kind, chosen, shape = case
    layer = kind(**{"filters": 8, "kernel_size": 3, **chosen, **order})
    check_layer(layer, moved(shape) if order else shape, directions=2)


@settings(max_examples=15, deadline=None)
@given(
    length=st.integers(1, 9),
    size=st.integers(1, 4),
    stride=st.integers(1, 4),
    dilation=st.integers(1, 3),
    groups=st.integers(1, 3),
    channels=st.integers(1, 2),
    batch=st.integers(1, 4),
    padding=st.sampled_from(["same", "causal"]),
)
def test_derivatives_of_any_shape(length, size, stride, dilation, groups, channels, batch, padding):
    layer = Conv1D(2 * groups, size, stride, padding, dilation_rate=dilation, groups=groups)
    check_layer(layer, (length, channels * groups), batch=batch, directions=1)


@pytest.mark.parametrize("case", COMPARED, ids=name)
def test_equals_keras(case):
    kind, chosen, shape = case
    chosen = {"filters": 8, "kernel_size": 3, **chosen}
    check_against_keras(kind(**chosen), getattr(keras.layers, kind.__name__)(**chosen), shape)


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("kind", ["Conv1D", "Conv2D"])
def test_channels_first_equals_channels_last(kind, padding):
    made = {"Conv1D": Conv1D, "Conv2D": Conv2D}[kind]
    shape = (6, 3) if kind == "Conv1D" else (6, 5, 3)
    layers = [made(4, 3, padding=padding, data_format=f) for f in (None, "channels_first")]
    assert layers[1].shape([moved(shape)]) == moved(layers[0].shape([shape]))
    assert [layer.unit_axis for layer in layers] == [-1, 1]
    weights = layers[0].build([shape], np.random.default_rng(0))
    x = np.random.default_rng(1).normal(size=(2, *shape))
    last = layers[0].forward([x], weights, MODE).output
    first = layers[1].forward([np.moveaxis(x, -1, 1)], weights, MODE).output
    np.testing.assert_array_equal(np.moveaxis(first, 1, -1), last)


@pytest.mark.parametrize(
    "chosen",
    [*NOT_IN_KERAS, {"groups": 2, "padding": (2, 1)}],
    ids=["strides and dilation", "padding", "padding and strides", "groups"],
)
def test_equals_torch(chosen):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    layer = Conv2D(6, 3, **chosen, **FIRST)
    weights = layer.build([(4, 9, 8)], rng)
    weights = {n: (w + 0.1 * rng.normal(size=w.shape)).astype("f") for n, w in weights.items()}
    names = {"strides": "stride", "dilation_rate": "dilation"}
    tensors = [
        torch.tensor(rng.normal(size=(2, 4, 9, 8)).astype("f"), requires_grad=True),
        torch.tensor(weights["kernel"].transpose(3, 2, 0, 1).copy(), requires_grad=True),
        torch.tensor(weights["bias"], requires_grad=True),
    ]
    expected = torch.nn.functional.conv2d(
        *tensors, **{names.get(n, n): value for n, value in chosen.items()}
    )
    cotangent = rng.normal(size=expected.shape).astype("f")
    expected.backward(torch.tensor(cotangent))
    done = layer.forward([tensors[0].detach().numpy()], weights, MODE)
    np.testing.assert_allclose(done.output, expected.detach(), rtol=1e-5, atol=1e-5)
    (back,), found = layer.backward(cotangent, done.saved, weights)
    np.testing.assert_allclose(back, tensors[0].grad, rtol=1e-4, atol=1e-4)
    kernel = found["kernel"].transpose(3, 2, 0, 1)
    np.testing.assert_allclose(kernel, tensors[1].grad, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["bias"], tensors[2].grad, rtol=1e-4, atol=1e-4)


def test_a_batch_cut_into_blocks_equals_the_whole(monkeypatch):
    rng = np.random.default_rng(0)
    placed = Windows((3,), (1,), (1,)).place((6,))
    x, kernel, gradient = (rng.normal(size=s) for s in [(5, 6, 2), (3, 2, 4), (5, 4, 4)])

    def everything():
        return (
            _convolve.convolve(x, kernel, placed),
            _convolve.kernel_gradient(x, gradient, placed, kernel.shape),
            _convolve.input_gradient(gradient, kernel, placed, (6,)),
        )

    whole = everything()
    monkeypatch.setattr(_convolve, "ROWS", 50)  # two samples of 4 windows of 6 values
    monkeypatch.setattr(_convolve, "PRODUCT", 1)
    for part, expected in zip(everything(), whole, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-12)


def test_an_empty_batch_has_a_gradient_of_zero():
    placed = Windows((3,), (1,), (1,)).place((6,))
    found = _convolve.kernel_gradient(np.ones((0, 6, 2)), np.ones((0, 4, 4)), placed, (3, 2, 4))
    assert found.shape == (3, 2, 4)
    assert not found.any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Conv2D(5, 3, groups=2), "multiple of groups; got 5 filters in 2 groups"),
        (lambda: Conv2D(4, (3, 3, 3)), r"kernel_size must be .* or 2 of them; got \(3, 3, 3\)"),
        (lambda: Conv2D(4, 0), "kernel_size must be a positive"),
        (lambda: Conv2D(4, 3, strides=0), "strides must be a positive"),
        (lambda: Conv2D(0, 3), "filters must be a positive"),
        (lambda: Conv2D(4, 3, padding="causal"), "unknown padding 'causal'; known are valid, same"),
        (lambda: Conv1D(4, 3, padding=(1, 2)), "padding must be a number of cells"),
        (lambda: Conv1D(4, 3, padding=-1), "padding must be a number of cells"),
        (lambda: Conv1D(4, 3, data_format="NHWC"), "unknown data_format 'NHWC'"),
        (
            lambda: Conv2D(4, 3).shape([(8, 8)]),
            "height, width, channels.; got",
        ),
        (lambda: Conv1D(4, 3, **FIRST).shape([(8,)]), r"\(batch, channels, steps\); got"),
        (lambda: Conv2D(4, 3, groups=2).shape([(8, 8, 3)]), "2 equal groups; got 3"),
        (lambda: Conv2D(4, 9).shape([(8, 8, 3)]), r"\(9, 9\) cells.* lengths \(8, 8\)"),
        (lambda: Conv1D(4, 3).shape([(8, 2), (8, 2)]), "takes one input; got 2"),
    ],
    ids=lambda value: None if callable(value) else value[:30],
)
def test_what_does_not_fit_is_told(make, message):
    with pytest.raises(ValueError, match=message):
        make()
