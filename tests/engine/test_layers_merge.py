"""Merging layers: finite differences, Keras, inputs that broadcast, equal values."""

import numpy as np
import pytest

from stethoscope.engine.layers import merge
from tests.engine.against_keras import check_against_keras, keras
from tests.engine.differences import check_layer

ELEMENTWISE = ["Add", "Average", "Multiply", "Maximum", "Minimum"]
SHAPES = {
    "two": [(4,), (4,)],
    "three": [(2, 3), (2, 3), (2, 3)],
    "broadcast": [(2, 1), (1, 3)],
    "ranks": [(2, 3), (3,)],
}
CASES = [(kind, {}, shapes) for kind in ELEMENTWISE for shapes in SHAPES.values()]
CASES += [("Subtract", {}, SHAPES[key]) for key in ("two", "broadcast", "ranks")]
CASES += [
    ("Concatenate", {}, [(2, 3), (2, 1), (2, 2)]),
    ("Concatenate", {"axis": 1}, [(2, 3), (1, 3)]),
    ("Concatenate", {"axis": -2}, [(2, 3), (1, 3)]),
    ("Dot", {"axes": 1}, [(3,), (3,)]),
    ("Dot", {"axes": -1}, [(2, 3), (4, 3)]),
    ("Dot", {"axes": (1, 2)}, [(3, 2), (4, 3)]),
    ("Dot", {"axes": (2, 1)}, [(4, 3), (3, 2, 2)]),
    ("Dot", {"axes": (1, 1)}, [(3,), (3, 2)]),
]
every = pytest.mark.parametrize(
    ("kind", "chosen", "shapes"), CASES, ids=[f"{k}-{c}-{s}" for k, c, s in CASES]
)


@every
def test_gradients_are_those_of_the_function(kind, chosen, shapes):
    check_layer(getattr(merge, kind)(**chosen), *shapes)


@every
def test_equals_keras(kind, chosen, shapes):
    theirs = getattr(keras.layers, kind)(**chosen)
    check_against_keras(getattr(merge, kind)(**chosen), theirs, *shapes)


@pytest.mark.parametrize("kind", ELEMENTWISE)
def test_a_single_input(kind):
    check_layer(getattr(merge, kind)(), (3,))


@pytest.mark.parametrize("kind", ["Maximum", "Minimum"])
def test_equal_values_share_the_derivative_as_with_keras(kind):
    same = np.ones((2, 3))
    theirs = getattr(keras.layers, kind)()
    check_against_keras(getattr(merge, kind)(), theirs, inputs=[same, same, same])


@pytest.mark.parametrize(
    ("layer", "shapes", "message"),
    [
        (merge.Add(), [(3,), (4,)], "Add needs inputs of one shape"),
        (merge.Add(), [], "needs at least one input"),
        (merge.Subtract(), [(3,)], "needs two inputs; got 1"),
        (merge.Concatenate(), [(2, 3), (1, 3)], "differ along axis -1 only"),
        (merge.Concatenate(0), [(3,), (3,)], "which is not the batch axis"),
        (merge.Dot(1), [(3,), (4,)], "of one size"),
        (merge.Dot(1), [(3,)], "needs two inputs; got 1"),
    ],
)
def test_inputs_that_do_not_fit(layer, shapes, message):
    with pytest.raises(ValueError, match=message):
        layer.shape(shapes)
