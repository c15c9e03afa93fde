"""Layers that only move values, against finite differences and Keras."""

import numpy as np
import pytest

from stethoscope import engine
from stethoscope.engine.layers._base import Mode
from tests.engine.against_keras import check_against_keras, keras
from tests.engine.differences import check_layer

CASES = [
    ("Flatten", {}, (2, 3, 4)),
    ("Flatten", {}, (3,)),
    ("Flatten", {}, ()),
    ("Flatten", {"data_format": "channels_first"}, (2, 3, 4)),
    ("Flatten", {"data_format": "channels_first"}, (3,)),
    ("Flatten", {"data_format": "channels_first"}, ()),
    ("Reshape", {"target_shape": (6, 4)}, (2, 3, 4)),
    ("Reshape", {"target_shape": (-1,)}, (2, 3, 4)),
    ("Reshape", {"target_shape": (4, -1, 2)}, (2, 3, 4)),
    ("Reshape", {"target_shape": ()}, (1,)),
    ("Permute", {"dims": (2, 1)}, (3, 4)),
    ("Permute", {"dims": (3, 1, 2)}, (2, 3, 4)),
    ("ZeroPadding1D", {}, (4, 3)),
    ("ZeroPadding1D", {"padding": (2, 0)}, (4, 3)),
    ("ZeroPadding1D", {"padding": 1, "data_format": "channels_first"}, (3, 4)),
    ("ZeroPadding2D", {}, (4, 5, 3)),
    ("ZeroPadding2D", {"padding": (0, 2)}, (4, 5, 3)),
    ("ZeroPadding2D", {"padding": ((1, 0), (2, 3))}, (4, 5, 3)),
    ("ZeroPadding2D", {"padding": 0}, (4, 5, 3)),
    ("ZeroPadding2D", {"padding": (1, 2), "data_format": "channels_first"}, (3, 4, 5)),
    ("UpSampling1D", {}, (4, 3)),
    ("UpSampling1D", {"size": 3}, (4, 3)),
    ("UpSampling2D", {}, (4, 5, 3)),
    ("UpSampling2D", {"size": (1, 3)}, (4, 5, 3)),
    ("UpSampling2D", {"size": (2, 3), "data_format": "channels_first"}, (3, 4, 5)),
]
every = pytest.mark.parametrize(
    ("kind", "chosen", "shape"),
    CASES,
    ids=["-".join([k, *(f"{n}={v}" for n, v in c.items()), str(s)]) for k, c, s in CASES],
)


@every
def test_derivatives(kind, chosen, shape):
    check_layer(getattr(engine, kind)(**chosen), shape)


@every
def test_equals_keras(kind, chosen, shape):
    layers = [getattr(where, kind)(**chosen) for where in (engine, keras.layers)]
    check_against_keras(*layers, shape)


@pytest.mark.parametrize("kind", ["Flatten", "Reshape", "Permute", "ZeroPadding1D"])
def test_integers_stay_integers(kind):
    chosen = {"Reshape": {"target_shape": (-1,)}, "Permute": {"dims": (2, 1)}}.get(kind, {})
    ids = np.arange(12).reshape(2, 3, 2)
    mode = Mode(training=False, rng=np.random.default_rng())
    output = getattr(engine, kind)(**chosen).forward([ids], {}, mode).output
    assert output.dtype == ids.dtype
    assert output.sum() == ids.sum()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: engine.Reshape((-1, -1)), "may have one -1"),
        (lambda: engine.Reshape((-2, 3)), "no other negative length"),
        (lambda: engine.Reshape((5,)).shape([(2, 3)]), r"\(5,\) of the 6 values of \(2, 3\)"),
        (lambda: engine.Reshape((4, -1)).shape([(2, 3)]), r"\(4, -1\) of the 6 values"),
        (lambda: engine.Reshape((0, -1)).shape([(2, 3)]), r"\(0, -1\) of the 6 values"),
        (lambda: engine.Permute((0, 1)), r"each axis from 1 on once; got \(0, 1\)"),
        (
            lambda: engine.Permute((2, 1)).shape([(3,)]),
            "orders 2 axes; got samples of",
        ),
        (lambda: engine.ZeroPadding1D((1, 2, 3)), "padding must be a number of cells"),
        (lambda: engine.ZeroPadding2D(-1), "padding must be a number of cells"),
        (lambda: engine.ZeroPadding2D().shape([(3, 4)]), "height, width, channels"),
        (lambda: engine.UpSampling2D((2, 2, 2)), "size must be"),
    ],
    ids=lambda value: None if callable(value) else value[:30],
)
def test_what_does_not_fit_is_told(make, message):
    with pytest.raises(ValueError, match=message):
        make()
