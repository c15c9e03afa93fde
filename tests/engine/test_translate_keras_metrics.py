"""Metrics of a compiled Keras model: the settings they have, and what is refused."""

import re

import numpy as np
import pytest

from stethoscope.engine.translate import TranslationError, translate
from stethoscope.engine.translate.write import definition
from tests.engine.against_keras import keras

K, M = keras.layers, keras.metrics
RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 4)).astype(np.float32)
CLASSES = 10
IDS = RNG.integers(0, CLASSES, 64)
ONE_HOT = np.eye(CLASSES, dtype=np.float32)[IDS]
BITS = (RNG.uniform(size=(64, CLASSES)) > 0.5).astype(np.float32)

SAME = {
    "threshold": (lambda: M.BinaryAccuracy(threshold=0.15), BITS),
    "threshold-of-0": (lambda: M.BinaryAccuracy(threshold=0.0), BITS),
    "precision": (lambda: M.Precision(thresholds=0.12), BITS),
    "precision-of-one": (lambda: M.Precision(thresholds=[0.12], name="exact"), BITS),
    "recall": (lambda: M.Recall(0.12), BITS),
    "top-1": (lambda: M.SparseTopKCategoricalAccuracy(k=1), IDS),
    "top-3": (lambda: M.TopKCategoricalAccuracy(k=3, name="top3"), ONE_HOT),
    "smoothed": (lambda: M.CategoricalCrossentropy(label_smoothing=0.3), ONE_HOT),
    "logits": (lambda: M.SparseCategoricalCrossentropy(from_logits=True), IDS),
    "cosine": (lambda: M.CosineSimilarity(axis=0), BITS),
    "class": (lambda: M.RootMeanSquaredError, BITS),
    "class-with-a-counted-name": (lambda: M.Recall, BITS),
    "class-with-a-name-of-its-own": (lambda: M.LogCoshError, BITS),
    "named": (lambda: M.MeanSquaredError(name="error"), BITS),
    "name": (lambda: "cosine_similarity", BITS),
    "function": (lambda: M.binary_accuracy, BITS),
    "function-of-losses": (lambda: keras.losses.kl_divergence, BITS),
    "accuracy": (lambda: "accuracy", IDS),
}


def network(*metrics, loss="mse", **compiled):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), K.Dense(CLASSES, "softmax")])
    model.compile("sgd", loss, metrics=list(metrics), **compiled)
    return model


@pytest.mark.parametrize("name", SAME)
def test_the_figure_of_keras(name):
    make, target = SAME[name]
    model = network(make(), loss="mse" if target.ndim > 1 else "sparse_categorical_crossentropy")
    expected = model.evaluate(X, target, verbose=0, return_dict=True)
    found = translate(model)
    assert found.evaluate(X, target) == pytest.approx(expected, rel=1e-4)
    parts, arrays = definition(found)
    written = {"np": np, "stored": arrays}
    exec(  # as the head of a written program does
        "from stethoscope.engine import *\n"
        "from stethoscope.engine import losses, metrics, optimizers",
        written,
    )
    exec(parts.text(), written)
    assert written["model"].evaluate(X, target) == pytest.approx(expected, rel=1e-4)


class Accuracy(M.Metric):  # named as one of Keras's
    def update_state(self, *args, **given): ...

    def result(self):
        return 0.0


def mean_squared_error(y, p):  # likewise
    return y - p


REFUSED = {
    "unknown": (
        lambda: M.AUC(name="auc"),
        "metric 'auc' (AUC) cannot be translated: the engine has no such metric.",
    ),
    "unknown-class": (lambda: M.AUC, "metric 'AUC' (AUC) cannot be translated"),
    "unknown-name": (lambda: "AUC", "metric 'AUC' cannot be translated: the engine has no such"),
    "equality": (
        M.Accuracy,
        "metric 'accuracy' (Accuracy) cannot be translated: the engine has no",
    ),
    "one-class": (lambda: M.Precision(class_id=0), "the engine has none with class_id=0."),
    "top-k": (lambda: M.Recall(top_k=2), "the engine has none with top_k=2."),
    "thresholds": (
        lambda: M.Precision(thresholds=[0.2, 0.8], name="p"),
        "metric 'p' (Precision) cannot be translated: the engine has none with thresholds=[0.2,",
    ),
    "ignored": (lambda: M.SparseCategoricalCrossentropy(ignore_class=0), "none with ignore_class"),
    "negative-cosine": (lambda: keras.losses.cosine_similarity, "metric 'cosine_similarity'"),
    "own-class": (Accuracy, "metric 'accuracy' (Accuracy) cannot be translated: it is a class of"),
    "own-function": (
        lambda: mean_squared_error,
        "'mean_squared_error' cannot be translated: it is",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    make, message = REFUSED[name]
    with pytest.raises(TranslationError, match=re.escape(message)):
        translate(network(make()))


def test_weighted_metrics_are_refused():
    with pytest.raises(TranslationError, match="weighted_metrics cannot be translated"):
        translate(network(weighted_metrics=["accuracy"]))


def two_outputs(metrics):
    keras.utils.set_random_seed(0)
    x = keras.Input((4,))
    model = keras.Model(x, [K.Dense(1, name="p")(x), K.Dense(CLASSES, "softmax", name="q")(x)])
    model.compile("sgd", ["mse", "sparse_categorical_crossentropy"], metrics=metrics)
    return model


@pytest.mark.parametrize("metrics", [{"p": ["mae"]}, [["mae"], None]], ids=["dict", "list"])
def test_metrics_of_the_first_of_two_outputs(metrics):
    model = two_outputs(metrics)
    found = translate(model)
    assert list(found.metrics) == ["mae"]
    expected = model.evaluate(X, [X[:, :1], IDS], verbose=0, return_dict=True)
    assert found.evaluate(X, [X[:, :1], IDS])["mae"] == pytest.approx(expected["p_mae"], rel=1e-4)


@pytest.mark.parametrize(
    "metrics", [{"q": ["accuracy"]}, ["mae", "accuracy"]], ids=["dict", "list"]
)
def test_metrics_of_the_second_output_are_refused(metrics):
    with pytest.raises(TranslationError, match="the metrics of output 'q' cannot be translated"):
        translate(two_outputs(metrics))
