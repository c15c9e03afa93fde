"""Metrics against Keras, over several batches."""

import os

import numpy as np
import pytest

from stethoscope.engine import Dense, Sequential, metrics

os.environ.setdefault("KERAS_BACKEND", "jax")

NAMES = [
    "binary_accuracy",
    "BinaryAccuracy",
    "binary_crossentropy",
    "categorical_accuracy",
    "categorical_crossentropy",
    "categorical_hinge",
    "cosine_similarity",
    "hinge",
    "kl_divergence",
    "log_cosh_error",
    "LogCoshError",
    "MAE",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_squared_error",
    "mean_squared_logarithmic_error",
    "msle",
    "poisson",
    "precision",
    "recall",
    "root_mean_squared_error",
    "squared_hinge",
    "top_k_categorical_accuracy",
]
OF_IDS = [
    "sparse_categorical_accuracy",
    "sparse_categorical_crossentropy",
    "sparse_top_k_categorical_accuracy",
    "SparseTopKCategoricalAccuracy",
]
NOT_THERE = {
    "AUC",
    "BinaryIoU",
    "ConcordanceCorrelation",
    "F1Score",
    "FBetaScore",
    "FalseNegatives",
    "FalsePositives",
    "IoU",
    "Mean",
    "MeanIoU",
    "MeanMetricWrapper",
    "Metric",
    "OneHotIoU",
    "OneHotMeanIoU",
    "PearsonCorrelation",
    "PrecisionAtRecall",
    "R2Score",
    "RecallAtPrecision",
    "SensitivityAtSpecificity",
    "SpecificityAtSensitivity",
    "Sum",
    "TrueNegatives",
    "TruePositives",
    "deserialize",
    "get",
    "serialize",
}
FUNCTIONS_ONLY = {  # of keras.metrics, which keras.metrics.get does not know by name either
    "binary_focal_crossentropy",
    "categorical_focal_crossentropy",
    "concordance_correlation",
    "huber",
    "log_cosh",
    "pearson_correlation",
}
BATCHES = (5, 5, 3)


def batches(shape, ids=False):
    rng = np.random.default_rng(0)
    for size in BATCHES:
        prediction = rng.uniform(0.01, 1, size=(size, *shape)).astype(np.float32)
        if ids:
            target = rng.integers(0, shape[-1], size=(size, *shape[:-1]))
        else:
            target = rng.integers(0, 2, size=(size, *shape)).astype(np.float32)
        yield target, prediction


def over_batches(name, data):
    """The engine's figure over all batches."""
    metric = metrics.get(name)
    pairs = np.array([metric.totals(*pair) for pair in data])
    return metric.result(*pairs.sum(axis=0).tolist())


def check(name, data, resolved=None):
    keras = pytest.importorskip("keras")
    data = list(data)
    same = keras.metrics.get(resolved or name)
    for target, prediction in data:
        same.update_state(target, prediction)
    assert over_batches(name, data) == pytest.approx(float(same.result()), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("shape", [(7,), (2, 7)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_figure(name, shape):
    check(name, batches(shape))


@pytest.mark.parametrize("shape", [(7,), (2, 7)], ids=str)
@pytest.mark.parametrize("name", OF_IDS)
def test_figure_of_class_ids(name, shape):
    check(name, batches(shape, ids=True))


@pytest.mark.parametrize("name", ["accuracy", "acc"])
@pytest.mark.parametrize(
    ("shape", "ids", "expected"),
    [
        ((1,), False, "binary_accuracy"),
        ((4,), False, "categorical_accuracy"),
        ((4,), True, "sparse_categorical_accuracy"),
        ((3, 4), True, "sparse_categorical_accuracy"),
    ],
    ids=["binary", "categorical", "sparse", "sparse positions"],
)
def test_accuracy_by_the_shapes(name, shape, ids, expected):
    check(name, batches(shape, ids), expected)


def test_accuracy_of_columns():
    ids = [(target[:, None], prediction) for target, prediction in batches((4,), ids=True)]
    check("accuracy", ids, "sparse_categorical_accuracy")
    flat = [(target[:, 0], prediction) for target, prediction in batches((1,))]
    check("accuracy", flat, "binary_accuracy")


def test_broken_predictions():
    target = np.array([0, 1, 9, 2])
    prediction = np.array([[np.nan] * 7, [np.inf] * 7, [0.5] * 7, np.arange(7.0)], np.float32)
    for name in ("sparse_categorical_accuracy", "sparse_top_k_categorical_accuracy"):
        check(name, [(target, prediction)])


def test_history():
    """The names of the figures, and a function of one's own."""

    def largest_error(target, prediction):
        return np.abs(target - prediction[:, 0]).max(axis=-1)

    model = Sequential([Dense(1)], seed=0)
    model.compile("sgd", "mse", metrics=["mae", "RootMeanSquaredError", largest_error])
    x = np.random.default_rng(0).normal(size=(20, 2))
    history = model.fit(x, x.sum(axis=1), batch_size=8, shuffle=False).history
    assert list(history) == ["loss", "mae", "RootMeanSquaredError", "largest_error"]
    figures = model.evaluate(x, x.sum(axis=1))
    assert figures["RootMeanSquaredError"] == pytest.approx(np.sqrt(figures["loss"]), rel=1e-6)


def test_names_are_those_of_keras():
    keras = pytest.importorskip("keras")
    public = {name for name in dir(keras.metrics) if not name.startswith("_")}
    assert public >= NOT_THERE | FUNCTIONS_ONLY
    for name in public - NOT_THERE - FUNCTIONS_ONLY:
        assert metrics.get(name).name == name
    for name in NOT_THERE | FUNCTIONS_ONLY:
        with pytest.raises(ValueError, match="known are acc, accuracy"):
            metrics.get(name)
