"""Every loss against finite differences, and against Keras on JAX."""

import dataclasses
import os
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope import vocabulary
from stethoscope.engine import losses
from tests.engine.differences import STEP, TOLERANCE

os.environ.setdefault("KERAS_BACKEND", "jax")

FORWARD, GRADIENT = 1e-5, 1e-4
NOT_THERE = {
    "CTC",
    "CategoricalGeneralizedCrossEntropy",
    "Circle",
    "Dice",
    "Loss",
    "Tversky",
    "categorical_generalized_cross_entropy",
    "circle",
    "ctc",
    "deserialize",
    "dice",
    "get",
    "serialize",
    "tversky",
}
"""Public names of keras.losses that the engine does not have; asking for one is an error."""


def values(rng, shape):
    return rng.normal(size=shape), rng.normal(size=shape)


def positive(rng, shape):
    return rng.uniform(0.1, 3, size=shape), rng.uniform(0.1, 3, size=shape)


def binary(rng, shape):
    return rng.integers(0, 2, size=shape), rng.uniform(0.01, 0.99, size=shape)


def binary_logits(rng, shape):
    return rng.integers(0, 2, size=shape), 3 * rng.normal(size=shape)


def signs(rng, shape):
    return 2 * rng.integers(0, 2, size=shape) - 1, rng.normal(size=shape)


def distributions(rng, shape, axis=-1):
    """Predictions that do not sum to 1, so that the division by the sum is seen."""
    target = rng.uniform(0.1, 1, size=shape)
    return target / target.sum(axis=axis, keepdims=True), rng.uniform(0.05, 0.3, size=shape)


def one_hot_logits(rng, shape):
    target = np.eye(shape[-1])[rng.integers(0, shape[-1], size=shape[:-1])]
    return target, 3 * rng.normal(size=shape)


def ids(rng, shape):
    return rng.integers(-1, shape[-1] + 1, size=shape[:-1]), rng.uniform(0.05, 0.3, size=shape)


def ids_logits(rng, shape):
    return ids(rng, shape)[0], 3 * rng.normal(size=shape)


@dataclasses.dataclass(frozen=True)
class Case:
    """One combination of arguments.

    Attributes:
        kind: Name of the class, in both.
        data: (rng, shape) -> target, prediction.
        settings: Arguments.
    """

    kind: str
    data: Callable
    settings: dict = dataclasses.field(default_factory=dict)

    def __str__(self):
        told = "-".join(f"{k}={v}" for k, v in self.settings.items())
        return f"{self.kind}-{self.data.__name__}-{told}".rstrip("-")

    def engine(self, **more):
        return getattr(losses, self.kind)(**self.settings, **more)


LOGITS = {"from_logits": True}
SMOOTH = {"label_smoothing": 0.1}
CASES = [
    Case("MeanSquaredError", values),
    Case("MeanAbsoluteError", values),
    Case("MeanAbsolutePercentageError", values),
    Case("MeanSquaredLogarithmicError", positive),
    Case("MeanSquaredLogarithmicError", values),
    Case("Huber", values),
    Case("Huber", values, {"delta": 0.5}),
    Case("LogCosh", values),
    Case("Poisson", positive),
    Case("CosineSimilarity", values),
    Case("CosineSimilarity", values, {"axis": 1}),
    Case("KLDivergence", distributions),
    Case("KLDivergence", values),
    Case("Hinge", signs),
    Case("Hinge", binary_logits),
    Case("Hinge", values),
    Case("SquaredHinge", signs),
    Case("SquaredHinge", binary_logits),
    Case("CategoricalHinge", one_hot_logits),
    Case("CategoricalHinge", distributions),
    Case("BinaryCrossentropy", binary),
    Case("BinaryCrossentropy", binary, SMOOTH),
    Case("BinaryCrossentropy", binary, {"axis": 1}),
    Case("BinaryCrossentropy", binary_logits, LOGITS),
    Case("BinaryCrossentropy", binary_logits, LOGITS | SMOOTH),
    Case("BinaryCrossentropy", values),
    Case("CategoricalCrossentropy", distributions),
    Case("CategoricalCrossentropy", distributions, SMOOTH),
    Case("CategoricalCrossentropy", distributions, {"axis": 1}),
    Case("CategoricalCrossentropy", one_hot_logits, LOGITS),
    Case("CategoricalCrossentropy", one_hot_logits, LOGITS | SMOOTH),
    Case("CategoricalCrossentropy", distributions, LOGITS | {"axis": 1}),
    Case("SparseCategoricalCrossentropy", ids),
    Case("SparseCategoricalCrossentropy", ids_logits, LOGITS),
    Case("SparseCategoricalCrossentropy", ids, {"ignore_class": 1}),
    Case("SparseCategoricalCrossentropy", ids_logits, LOGITS | {"ignore_class": -1}),
    Case("BinaryFocalCrossentropy", binary),
    Case("BinaryFocalCrossentropy", binary, {"gamma": 3.0, "axis": 1}),
    Case("BinaryFocalCrossentropy", binary, SMOOTH),
    Case("BinaryFocalCrossentropy", binary_logits, LOGITS | {"apply_class_balancing": True}),
    Case("CategoricalFocalCrossentropy", distributions),
    Case("CategoricalFocalCrossentropy", distributions, SMOOTH | {"alpha": [0.1, 0.2, 0.3, 0.4]}),
    Case("CategoricalFocalCrossentropy", one_hot_logits, LOGITS | {"gamma": 1.5}),
    Case("CategoricalFocalCrossentropy", distributions, {"axis": 1}),
]
SHAPES = [(3, 4), (2, 3, 4)]


def check_differences(loss, target, prediction, weight=None, seed=0):
    rng = np.random.default_rng(seed)
    value, gradient = loss(target, prediction, weight)
    assert isinstance(value, float)
    assert gradient.shape == prediction.shape
    assert gradient.dtype == np.float64
    for _ in range(3):
        direction = rng.normal(size=prediction.shape)
        up, down = (
            loss(target, prediction + sign * STEP * direction, weight)[0] for sign in (1, -1)
        )
        expected, found = (up - down) / (2 * STEP), (gradient * direction).sum()
        size = np.linalg.norm(gradient) * np.linalg.norm(direction) / np.sqrt(direction.size)
        # differences of a value v are known to within v * 1e-16 / STEP only
        assert abs(expected - found) <= TOLERANCE * max(abs(expected), size) + 2e-10 * abs(value)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_differences(case, shape):
    target, prediction = case.data(np.random.default_rng(1), shape)
    check_differences(case.engine(), target, prediction)


@given(
    lead=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    classes=st.integers(2, 5),
    case=st.sampled_from([c for c in CASES if "alpha" not in c.settings]),
    reduction=st.sampled_from(["sum", "mean", "mean_with_sample_weight"]),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_differences_of_any_shape(lead, classes, case, reduction, weighted, seed):
    rng = np.random.default_rng(seed)
    shape = (*lead, classes)
    target, prediction = case.data(rng, shape)
    weight = rng.uniform(0.5, 2, size=shape[0]) if weighted else None
    if case.settings.get("axis") == 1 and len(shape) == 2:
        weight = None  # as many values as classes
    check_differences(case.engine(reduction=reduction), target, prediction, weight)


def reference(case, target, prediction, weight=None, **more):
    """Value and gradient of Keras."""
    jax, keras = pytest.importorskip("jax"), pytest.importorskip("keras")
    loss = getattr(keras.losses, case.kind)(**case.settings, **more)
    value, gradient = jax.value_and_grad(lambda p: loss(target, p, weight))(prediction)
    return float(value), np.asarray(gradient)


def check_against_keras(case, target, prediction, weight=None, **more):
    prediction = np.asarray(prediction, np.float32)
    with np.errstate(all="ignore"):
        value, gradient = case.engine(**more)(target, prediction, weight)
    expected, expected_gradient = reference(case, target, prediction, weight, **more)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(value, expected, rtol=FORWARD, atol=1e-7)
    finite = expected_gradient[np.isfinite(expected_gradient)]
    scale = np.abs(finite).max() if finite.size else 1.0
    scale = max(scale, 1.0)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=GRADIENT, atol=1e-6 * scale)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_keras(case):
    check_against_keras(case, *case.data(np.random.default_rng(2), SHAPES[-1]))


WEIGHTS = {
    "none": None,
    "of samples": np.array([0.5, 2.0, 0.0], np.float32),
    "column": np.array([[0.5], [2.0], [1.0]], np.float32),
}


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum", "mean_with_sample_weight"])
@pytest.mark.parametrize(
    "case",
    [
        Case("MeanSquaredError", values),
        Case("BinaryCrossentropy", binary),
        Case("CategoricalHinge", one_hot_logits),
        Case("SparseCategoricalCrossentropy", ids, {"ignore_class": 2}),
        Case("CategoricalCrossentropy", one_hot_logits, LOGITS),
    ],
    ids=str,
)
def test_reductions_and_weights(case, reduction, weight):
    data = case.data(np.random.default_rng(3), (3, 4))
    check_against_keras(case, *data, WEIGHTS[weight], reduction=reduction)


def test_weights_of_every_position():
    data = values(np.random.default_rng(3), (3, 2, 4))
    weight = np.random.default_rng(4).uniform(size=(3, 2)).astype(np.float32)
    check_against_keras(Case("MeanSquaredError", values), *data, weight)


@pytest.mark.parametrize(
    ("target", "prediction"),
    [
        ((3,), (3, 1)),
        ((3, 1), (3,)),
        ((3, 1), (3, 2)),
        ((3, 2), (3, 1)),
        ((3, 2), (3, 2, 1)),
        ((3, 2, 1), (3, 2)),
        ((4,), (3, 4)),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "kind", ["MeanSquaredError", "Hinge", "Poisson", "KLDivergence", "CosineSimilarity"]
)
def test_ranks_are_matched_and_shapes_broadcast(kind, target, prediction):
    rng = np.random.default_rng(5)
    check_against_keras(
        Case(kind, values),
        rng.uniform(0.1, 1, size=target).astype(np.float32),
        rng.uniform(0.1, 1, size=prediction),
    )


EPS = np.float32(1e-7)
TOP = np.float32(1) - EPS
EDGES = [
    ("KLDivergence", {}, [[1.0, 0.0, 0.5]], [[1.0, 0.0, EPS]]),
    ("CategoricalCrossentropy", {}, [[1.0, 0.0]], [[1.0, 0.0]]),
    ("CategoricalCrossentropy", {}, [[0.0, 1.0]], [[TOP, EPS]]),
    ("CategoricalCrossentropy", {}, [[1.0, 0.0]], [[0.0, 0.0]]),
    ("CategoricalCrossentropy", LOGITS, [[1.0, 0.0]], [[200.0, -200.0]]),
    ("BinaryCrossentropy", {}, [[1.0, 1.0, 0.0, 0.0]], [[1.0, 0.0, 1.0, 0.0]]),
    ("BinaryCrossentropy", {}, [[1.0, 0.0, 1.0]], [[EPS, TOP, np.nan]]),
    ("BinaryCrossentropy", LOGITS, [[1.0, 0.0, 1.0]], [[-200.0, 200.0, 200.0]]),
    ("Hinge", {}, [[1.0, -1.0]], [[1.0, -1.0]]),
    ("SquaredHinge", {}, [[1.0, -1.0]], [[1.0, -1.0]]),
    ("CategoricalHinge", {}, [[1.0, 0.0, 0.0]], [[0.0, 0.0, 0.0]]),
    ("CategoricalHinge", {}, [[1.0, 0.0, 0.0]], [[1.0, 0.0, -1.0]]),
    ("CosineSimilarity", {}, [[1.0, 0.0]], [[0.0, 0.0]]),
    ("CosineSimilarity", {}, [[0.0, 0.0]], [[1.0, 0.0]]),
    ("CosineSimilarity", {}, [[1.0, 2.0]], [[1e-9, 0.0]]),
    ("MeanSquaredLogarithmicError", {}, [[1.0, 0.0, -3.0]], [[-1.0, 0.0, 2.0]]),
    ("MeanAbsolutePercentageError", {}, [[0.0, 1.0]], [[0.5, 1.0]]),
    ("MeanAbsoluteError", {}, [[1.0, 1.0]], [[1.0, np.nan]]),
    ("Huber", {}, [[0.0, 0.0]], [[1.0, -1.0]]),
    ("Poisson", {}, [[1.0, 1.0]], [[-1.0, 0.0]]),
    ("LogCosh", {}, [[0.0, 0.0]], [[200.0, -200.0]]),
    ("BinaryFocalCrossentropy", {}, [[1.0, 1.0, 0.0]], [[1.0, 0.0, 1.0]]),
    ("SparseCategoricalCrossentropy", {}, [np.nan, 9.0, -9.0, 1.5], [[0.2, 0.8]] * 4),
    ("SparseCategoricalCrossentropy", LOGITS, [0, 1], [[0.2, -np.inf], [0.2, np.inf]]),
    ("SparseCategoricalCrossentropy", {"ignore_class": 0}, [0, 0], [[0.2, 0.8], [0.0, 0.0]]),
]


@pytest.mark.parametrize(
    ("kind", "arguments", "target", "prediction"),
    EDGES,
    ids=[f"{kind}-{prediction}" for kind, _, _, prediction in EDGES],
)
def test_saturated_and_broken_predictions(kind, arguments, target, prediction):
    check_against_keras(Case(kind, values, arguments), np.asarray(target), prediction)


def test_classes_in_another_axis():
    """Keras has no such thing for class ids on JAX: the same as with the classes last."""
    rng = np.random.default_rng(6)
    prediction = rng.uniform(0.1, 0.3, size=(2, 4, 3))
    target = rng.integers(0, 4, size=(2, 3))
    loss, gradient = losses.SparseCategoricalCrossentropy(axis=1)(target, prediction)
    last = np.ascontiguousarray(np.moveaxis(prediction, 1, -1))
    expected, turned = losses.SparseCategoricalCrossentropy()(target, last)
    assert loss == pytest.approx(expected)
    np.testing.assert_allclose(gradient, np.moveaxis(turned, -1, 1))


def test_names_are_those_of_keras():
    keras = pytest.importorskip("keras")
    public = {name for name in dir(keras.losses) if not name.startswith("_")}
    assert public >= NOT_THERE
    aliases = {"bce", "BCE", "kld", "KLD", "mae", "MAE", "mse", "MSE", "mape", "MAPE"}
    for name in public - NOT_THERE | aliases | {"msle", "MSLE"}:
        expected = keras.losses.get(name)
        snake = getattr(expected, "__name__", type(expected).__name__)
        assert type(losses.get(name)) is type(losses.get(snake)), name
    for name in NOT_THERE:
        with pytest.raises(ValueError, match="known are"):
            losses.get(name)


def test_names_are_those_of_the_vocabulary():
    named = {losses.get(name).name for name in losses.__all__ if name not in ("Loss", "get")}
    assert named <= vocabulary.LOSSES.keys()
    assert {losses.get(name).name for name in named} == named


@pytest.mark.parametrize(
    ("kind", "target", "prediction", "message"),
    [
        ("MeanSquaredError", (3, 2), (3, 4), r"targets of shape \(3, 2\).*as many units"),
        ("BinaryCrossentropy", (3, 1), (3, 2), "as many units"),
        ("SparseCategoricalCrossentropy", (3, 4), (3, 4), "one-hot targets use"),
    ],
    ids=["no broadcast", "exact", "one-hot for ids"],
)
def test_shapes_that_do_not_fit(kind, target, prediction, message):
    with pytest.raises(ValueError, match=message):
        losses.get(kind)(np.ones(target), np.ones(prediction))


def test_weights_that_do_not_fit():
    with pytest.raises(ValueError, match="one weight for each sample"):
        losses.MeanSquaredError()(np.ones((3, 2)), np.ones((3, 2)), np.ones(2))


@pytest.mark.parametrize("reduction", ["none", "median", None])
def test_a_loss_is_one_number(reduction):
    with pytest.raises(ValueError, match="one number by sum_over_batch_size"):
        losses.MeanSquaredError(reduction=reduction)
