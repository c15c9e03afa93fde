"""Metrics with Keras's names and definitions.

A metric turns a batch into a pair of numbers; pairs of several batches are added, and the sum gives
the figure of them all, as the logs of Keras show it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from stethoscope.engine import losses
from stethoscope.engine.losses import Loss
from stethoscope.engine.losses._base import same_rank

Array = npt.NDArray[Any]
Values = Callable[[Array, Array], Array]
"""(target, prediction) -> one number for each sample (and position)."""
Totals = tuple[float, float]


def ratio(total: float, count: float) -> float:
    """Gives total / count, and 0 where there is nothing.

    >>> ratio(1.0, 2.0), ratio(0.0, 0.0)
    (0.5, 0.0)
    """
    return total / count if count else 0.0


@dataclasses.dataclass(frozen=True)
class Metric:
    """A figure of one or more batches.

    Attributes:
        name: In the history.
        totals: (target, prediction) -> the pair of numbers of a batch.
        result: The figure of a sum of pairs.

    >>> accuracy = get("accuracy")
    >>> accuracy.totals(np.array([[1.0], [0.0]]), np.array([[0.9], [0.8]]))
    (1.0, 2)
    >>> accuracy(np.array([[1.0], [0.0]]), np.array([[0.9], [0.8]]))
    0.5
    """

    name: str
    totals: Callable[[Array, Array], Totals]
    result: Callable[[float, float], float] = ratio

    def __call__(self, target: Array, prediction: Array) -> float:
        """The figure of one batch."""
        return self.result(*self.totals(target, prediction))


def mean(values: Values, name: str) -> Metric:
    """The mean over all samples of what a function gives for each.

    Args:
        values: (target, prediction) -> array with the samples first.
        name: In the history.
    """

    def totals(target: Array, prediction: Array) -> Totals:
        found = np.asarray(values(target, prediction))
        if not found.ndim:
            return float(found), 1
        samples = len(found)
        return float(found.sum()) * samples / max(found.size, 1), samples

    return Metric(name, totals)


class Running:
    """The figures of all batches so far: the loss, a mean over the samples, and the metrics.

    Args:
        metrics: By name.
    """

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        self._metrics = metrics
        self._loss: Totals = (0.0, 0.0)
        self._totals = dict.fromkeys(metrics, (0.0, 0.0))

    def add(self, loss: float, totals: Mapping[str, Totals], samples: int) -> None:
        """Adds a batch.

        Args:
            loss: Its loss.
            totals: What each metric's `totals` gave for it.
            samples: How many it has.
        """
        self._loss = (self._loss[0] + loss * samples, self._loss[1] + samples)
        for name, (total, count) in totals.items():
            before = self._totals[name]
            self._totals[name] = (before[0] + total, before[1] + count)

    def figures(self) -> dict[str, float]:
        """Name to figure, the loss first."""
        found = {"loss": ratio(*self._loss)}
        for name, metric in self._metrics.items():
            found[name] = metric.result(*self._totals[name])
        return found


def binary_accuracy(target: Array, prediction: Array, threshold: float = 0.5) -> Array:
    """Whether prediction > threshold is the target (0 or 1), element by element."""
    target, prediction = same_rank(target, prediction)
    return np.equal(target, prediction > threshold)


def categorical_accuracy(target: Array, prediction: Array) -> Array:
    """Whether the largest prediction is at the largest target, along the last axis."""
    matches: Array = np.equal(target.argmax(axis=-1), prediction.argmax(axis=-1))
    return matches


def sparse_categorical_accuracy(target: Array, prediction: Array) -> Array:
    """Whether the largest prediction, along the last axis, is that of the class id."""
    matches: Array = np.equal(_ids(target, prediction), prediction.argmax(axis=-1))
    return matches


def accuracy(target: Array, prediction: Array) -> Array:
    """The accuracy that fits the shapes.

    Binary for one output, sparse for targets that are class ids, categorical otherwise.
    """
    if prediction.shape[-1] == 1:
        return binary_accuracy(target, prediction)
    if target.ndim < prediction.ndim or target.shape[-1] == 1:
        return sparse_categorical_accuracy(target, prediction)
    return categorical_accuracy(target, prediction)


def sparse_top_k_categorical_accuracy(target: Array, prediction: Array, k: int = 5) -> Array:
    """Whether fewer than k predictions are larger than that of the class id.

    NaN, and an id without a prediction, count as -infinity.
    """
    ids = _ids(target, prediction).astype(np.intp)[..., None]
    valid = (ids >= 0) & (ids < prediction.shape[-1])
    own = np.take_along_axis(prediction, np.where(valid, ids, 0), axis=-1)
    own = np.where(valid & ~np.isnan(own), own, -np.inf)
    within: Array = (prediction > own).sum(axis=-1) < k
    return within


def top_k_categorical_accuracy(target: Array, prediction: Array, k: int = 5) -> Array:
    """Whether the prediction at the largest target is among the k largest."""
    return sparse_top_k_categorical_accuracy(target.argmax(axis=-1), prediction, k)


def cosine_similarity(target: Array, prediction: Array) -> Array:
    """The cosine of the angle between target and prediction, along the last axis."""
    return -losses.CosineSimilarity().values(target, prediction)


def precision(target: Array, prediction: Array, threshold: float = 0.5) -> Totals:
    """(true positives, predicted positives)."""
    target, prediction = same_rank(target, prediction)
    found = prediction > threshold
    return float((found & (target != 0)).sum()), float(found.sum())


def recall(target: Array, prediction: Array, threshold: float = 0.5) -> Totals:
    """(true positives, positives)."""
    target, prediction = same_rank(target, prediction)
    positives = target != 0
    return float(((prediction > threshold) & positives).sum()), float(positives.sum())


def get(metric: str | Metric | Values) -> Metric:
    """The metric of a name; a function of (target, prediction) is averaged.

    Args:
        metric: A class's name ("MeanSquaredError"), the same in snake case, a short one ("mse",
            "acc"), a metric, or a function.

    Raises:
        ValueError: There is none of this name.
    """
    if isinstance(metric, Metric):
        return metric
    if not isinstance(metric, str):
        return mean(metric, getattr(metric, "__name__", "metric"))
    full = _full(metric)
    if full not in _NAMED:
        known = ", ".join(sorted([*_NAMED, *_SHORT]))
        raise ValueError(f"unknown metric {metric!r}; known are {known}.")
    return dataclasses.replace(_NAMED[full](), name=metric)


def _ids(target: Array, prediction: Array) -> Array:
    """Class ids, without a last axis of size 1."""
    return target[..., 0] if target.ndim == prediction.ndim else target


def _of_loss(kind: type[Loss], result: Callable[[float, float], float] = ratio) -> Metric:
    return dataclasses.replace(mean(kind().values, kind.name), result=result)


def _root(total: float, count: float) -> float:
    return math.sqrt(ratio(total, count))


_NAMED: dict[str, Callable[[], Metric]] = {
    "accuracy": partial(mean, accuracy, "accuracy"),
    "binary_accuracy": partial(mean, binary_accuracy, "binary_accuracy"),
    "binary_crossentropy": partial(_of_loss, losses.BinaryCrossentropy),
    "categorical_accuracy": partial(mean, categorical_accuracy, "categorical_accuracy"),
    "categorical_crossentropy": partial(_of_loss, losses.CategoricalCrossentropy),
    "categorical_hinge": partial(_of_loss, losses.CategoricalHinge),
    "cosine_similarity": partial(mean, cosine_similarity, "cosine_similarity"),
    "hinge": partial(_of_loss, losses.Hinge),
    "kl_divergence": partial(_of_loss, losses.KLDivergence),
    "log_cosh_error": partial(_of_loss, losses.LogCosh),
    "mean_absolute_error": partial(_of_loss, losses.MeanAbsoluteError),
    "mean_absolute_percentage_error": partial(_of_loss, losses.MeanAbsolutePercentageError),
    "mean_squared_error": partial(_of_loss, losses.MeanSquaredError),
    "mean_squared_logarithmic_error": partial(_of_loss, losses.MeanSquaredLogarithmicError),
    "poisson": partial(_of_loss, losses.Poisson),
    "precision": partial(Metric, "precision", precision),
    "recall": partial(Metric, "recall", recall),
    "root_mean_squared_error": partial(_of_loss, losses.MeanSquaredError, _root),
    "sparse_categorical_accuracy": partial(mean, sparse_categorical_accuracy, "accuracy"),
    "sparse_categorical_crossentropy": partial(_of_loss, losses.SparseCategoricalCrossentropy),
    "sparse_top_k_categorical_accuracy": partial(mean, sparse_top_k_categorical_accuracy, "top_k"),
    "squared_hinge": partial(_of_loss, losses.SquaredHinge),
    "top_k_categorical_accuracy": partial(mean, top_k_categorical_accuracy, "top_k"),
}
_SHORT = {
    "acc": "accuracy",
    "bce": "binary_crossentropy",
    "mae": "mean_absolute_error",
    "mape": "mean_absolute_percentage_error",
    "mse": "mean_squared_error",
    "msle": "mean_squared_logarithmic_error",
}


def _full(name: str) -> str:
    """The name in snake case that a class's or a short name stands for."""
    if name.lower() in _SHORT and (name.islower() or name.isupper()):
        return _SHORT[name.lower()]
    return re.sub(r"(?<=[a-zK])(?=[A-Z][a-z])|(?<=p)(?=K)|(?<=KL)(?=D)", "_", name).lower()
