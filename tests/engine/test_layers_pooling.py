"""Pooling of windows and of everything, against finite differences, Keras and torch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope import engine
from stethoscope.engine.layers._base import Mode
from tests.engine.against_keras import check_against_keras, keras
from tests.engine.differences import check_layer

FIRST = {"data_format": "channels_first"}
SETTINGS = [
    {"pool_size": 2},
    {"pool_size": 2, "strides": 1},
    {"pool_size": 2, "strides": 3},
    {"pool_size": 3, "strides": 2},
    {"pool_size": 3, "strides": 2, "padding": "same"},
    {"pool_size": 4, "strides": 1, "padding": "same"},
    {"pool_size": 2, "padding": "same"},
    {"pool_size": 1, "strides": 2},
]
UNEVEN = {"pool_size": (3, 2), "strides": (1, 2)}
SHAPES = {"1D": (7, 3), "2D": (7, 6, 3)}
KINDS = [f"{kind}Pooling{rank}" for kind in ("Max", "Average") for rank in SHAPES]
CASES = [
    *((kind, chosen) for kind in KINDS for chosen in SETTINGS),
    *((kind, UNEVEN) for kind in KINDS if kind.endswith("2D")),
    *((f"Global{kind}", {"keepdims": keep}) for kind in KINDS for keep in (False, True)),
]
MODE = Mode(training=False, rng=np.random.default_rng())


def name(case):
    return "-".join([case[0], *(f"{k}={v}" for k, v in case[1].items())])


def moved(shape):
    """The channels first."""
    return (shape[-1], *shape[:-1])


@pytest.mark.parametrize("case", CASES, ids=name)
@pytest.mark.parametrize("order", [{}, FIRST], ids=["last", "first"])
def test_derivatives(case, order):
    kind, chosen = case
    shape = SHAPES[kind[-2:]]
    layer = getattr(engine, kind)(**chosen, **order)
    assert layer.unit_axis == (1 if order else -1)
    check_layer(layer, moved(shape) if order else shape, directions=2)


@settings(max_examples=15, deadline=None)
@given(
    kind=st.sampled_from(["MaxPooling1D", "AveragePooling1D"]),
    length=st.integers(1, 9),
    size=st.integers(1, 4),
    stride=st.integers(1, 4),
    batch=st.integers(1, 3),
)
def test_derivatives_of_any_shape(kind, length, size, stride, batch):
    layer = getattr(engine, kind)(size, stride, "same")
    check_layer(layer, (length, 2), batch=batch, directions=1)


@pytest.mark.parametrize("case", CASES, ids=name)
def test_equals_keras_also_where_values_are_equal(case):
    kind, chosen = case
    rng = np.random.default_rng(0)
    shape = (3, *SHAPES[kind[-2:]])
    x = np.concatenate([rng.normal(size=shape), rng.integers(-1, 2, size=shape)])
    layers = [getattr(where, kind)(**chosen) for where in (engine, keras.layers)]
    check_against_keras(*layers, inputs=[x])


@pytest.mark.parametrize("kind", [*KINDS, *(f"Global{kind}" for kind in KINDS)])
def test_channels_first_equals_channels_last(kind):
    layers = [getattr(engine, kind)(**order) for order in ({}, FIRST)]
    shape = SHAPES[kind[-2:]]
    x = np.random.default_rng(1).normal(size=(2, *shape)).astype("f")
    last = layers[0].forward([x], {}, MODE).output
    first = layers[1].forward([np.moveaxis(x, -1, 1)], {}, MODE).output
    assert first.shape[1:] == layers[1].shape([moved(shape)])
    np.testing.assert_allclose(np.moveaxis(first, 1, -1), last, rtol=1e-6)


@pytest.mark.parametrize("kind", ["Max", "Average"])
def test_padding_in_cells_equals_torch(kind):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).normal(size=(2, 3, 8, 7)).astype("f")
    if kind == "Max":
        module = torch.nn.MaxPool2d(3, 2, 1)
    else:
        module = torch.nn.AvgPool2d(3, 2, 1, count_include_pad=False)
    tensor = torch.tensor(x, requires_grad=True)
    expected = module(tensor)
    expected.sum().backward()
    layer = getattr(engine, f"{kind}Pooling2D")(3, 2, 1, "channels_first")
    done = layer.forward([x], {}, MODE)
    np.testing.assert_allclose(done.output, expected.detach(), rtol=1e-5, atol=1e-6)
    (back,), _ = layer.backward(np.ones_like(done.output), done.saved, {})
    np.testing.assert_allclose(back, tensor.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: engine.MaxPooling2D((2, 2, 2)), "pool_size must be"),
        (lambda: engine.MaxPooling2D(2, 0), "strides must be"),
        (lambda: engine.AveragePooling1D(2, padding="causal"), "known are valid, same"),
        (
            lambda: engine.MaxPooling2D(2).shape([(8, 3)]),
            "height, width, channels.; got",
        ),
        (lambda: engine.MaxPooling1D(5).shape([(4, 3)]), r"\(5,\) cells"),
        (lambda: engine.GlobalMaxPooling1D().shape([(3,)]), r"\(batch, steps, channels\); got"),
        (lambda: engine.GlobalMaxPooling1D().shape([(0, 3)]), "at least one cell"),
        (lambda: engine.GlobalMaxPooling1D("last"), "unknown data_format 'last'"),
    ],
    ids=lambda value: None if callable(value) else value[:30],
)
def test_what_does_not_fit_is_told(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("rank", [1, 2])
def test_padded_cells_that_count_are_zeros(rank):
    shape = SHAPES[f"{rank}D"]
    pad = getattr(engine, f"ZeroPadding{rank}D")(1)
    pool, counting = (
        getattr(engine, f"AveragePooling{rank}D")(3, 2, **chosen)
        for chosen in ({}, {"padding": 1, "count_padding": True})
    )
    x = np.random.default_rng(0).normal(size=(2, *shape)).astype(np.float32)
    expected = pool.forward([pad.forward([x], {}, MODE).output], {}, MODE).output
    np.testing.assert_allclose(counting.forward([x], {}, MODE).output, expected, rtol=1e-6)
    check_layer(counting, shape, directions=2)
