"""Transposed convolutions against finite differences, Keras and torch."""

import numpy as np
import pytest

from stethoscope.engine import Conv1DTranspose, Conv2DTranspose
from stethoscope.engine.layers._base import Mode
from tests.engine.against_keras import check_against_keras, keras
from tests.engine.differences import check_layer

FIRST = {"data_format": "channels_first"}
CONV1D = [
    {"kernel_size": size, "strides": step, "padding": padding}
    for size in (1, 2, 3, 4)
    for step in (1, 2, 3)
    for padding in ("valid", "same")
]
CONV1D += [
    {"kernel_size": size, "strides": 3, "padding": padding, "output_padding": more}
    for size in (1, 2, 3, 4)
    for padding in ("valid", "same")
    for more in (0, 1, 2)
]
CONV2D = [
    {},
    {"use_bias": False, "activation": "tanh"},
    {"strides": 2, "padding": "same"},
    {"dilation_rate": 2},
    {"dilation_rate": 2, "padding": "same"},
    {"kernel_size": (2, 3), "strides": (3, 2), "padding": "same", "output_padding": (1, 0)},
]
CELLS = [{"padding": 1}, {"strides": 2, "padding": 1, "output_padding": 1}]  # as in torch
CASES = [
    *((Conv1DTranspose, chosen, (4, 2)) for chosen in CONV1D),
    *((Conv2DTranspose, chosen, (4, 3, 2)) for chosen in CONV2D),
]
MORE = [(Conv2DTranspose, chosen, (4, 3, 2)) for chosen in CELLS]
# Keras compiles each anew: a part of the grid is enough to be sure of its convention.
COMPARED = [
    case
    for case in CASES
    if case[0] is Conv2DTranspose
    or (case[1]["strides"] == 3 and case[1]["padding"] == "same")
    or case[1] == {"kernel_size": 2, "strides": 3, "padding": "valid"}
]
MODE = Mode(training=False, rng=np.random.default_rng())


def name(case):
    kind, chosen, _ = case
    return "-".join([kind.__name__, *(f"{k}={v}" for k, v in chosen.items())])


def moved(shape):
    """The channels first."""
    return (shape[-1], *shape[:-1])


@pytest.mark.parametrize("case", [*CASES, *MORE], ids=name)
def test_derivatives(case):
    kind, chosen, shape = case
    check_layer(kind(**{"filters": 3, "kernel_size": 3, **chosen}), shape, directions=1)


@pytest.mark.parametrize("case", COMPARED, ids=name)
def test_equals_keras(case):
    kind, chosen, shape = case
    chosen = {"filters": 3, "kernel_size": 3, **chosen}
    check_against_keras(kind(**chosen), getattr(keras.layers, kind.__name__)(**chosen), shape)


@pytest.mark.parametrize("case", CASES, ids=name)
def test_length_is_that_of_keras(case):
    kind, chosen, shape = case
    chosen = {"filters": 3, "kernel_size": 3, **chosen}
    expected = getattr(keras.layers, kind.__name__)(**chosen).compute_output_shape((None, *shape))
    assert kind(**chosen).shape([shape]) == tuple(expected[1:])


def test_channels_first():
    layers = [Conv2DTranspose(3, 3, 2, data_format=f) for f in (None, "channels_first")]
    check_layer(layers[1], (2, 4, 3), directions=1)
    assert [layer.unit_axis for layer in layers] == [-1, 1]
    weights = layers[0].build([(4, 3, 2)], np.random.default_rng(0))
    x = np.random.default_rng(1).normal(size=(2, 4, 3, 2))
    last = layers[0].forward([x], weights, MODE).output
    first = layers[1].forward([np.moveaxis(x, -1, 1)], weights, MODE).output
    np.testing.assert_array_equal(np.moveaxis(first, 1, -1), last)


@pytest.mark.parametrize("chosen", CELLS, ids=["padding", "padding and output padding"])
def test_equals_torch(chosen):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    layer = Conv2DTranspose(3, 3, **chosen, **FIRST)
    weights = layer.build([(2, 4, 5)], rng)
    x = rng.normal(size=(2, 2, 4, 5))
    names = {"strides": "stride"}
    expected = torch.nn.functional.conv_transpose2d(
        torch.tensor(x),
        torch.tensor(weights["kernel"].transpose(3, 2, 0, 1).copy()),
        torch.tensor(weights["bias"]),
        **{names.get(n, n): value for n, value in chosen.items()},
    )
    done = layer.forward([x], weights, MODE)
    np.testing.assert_allclose(done.output, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Conv1DTranspose(2, 3, 2, output_padding=2), "less than the strides"),
        (lambda: Conv1DTranspose(2, 3, 2, output_padding=-1), "output_padding must be a non-neg"),
        (lambda: Conv2DTranspose(2, 3, padding="causal"), "known are valid, same"),
        (lambda: Conv1DTranspose(2, 3, padding=2).shape([(2, 1)]), "leaves nothing of lengths"),
        (lambda: Conv2DTranspose(2, 3).shape([(4, 2)]), "height, width, channels.; got"),
    ],
    ids=lambda value: None if callable(value) else value[:30],
)
def test_what_does_not_fit_is_told(make, message):
    with pytest.raises(ValueError, match=message):
        make()
