"""Metrics with Keras's names and definitions.

A metric turns a batch into a pair of numbers; pairs of several batches are added, and the sum gives
the figure of them all, as the logs of Keras show it.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
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
        kind: What `get` made it of, in snake case; "" if it did not.
        settings: What `get` was given with it.

    >>> accuracy = get("accuracy")
    >>> accuracy.totals(np.array([[1.0], [0.0]]), np.array([[0.9], [0.8]]))
    (1.0, 2)
    >>> accuracy(np.array([[1.0], [0.0]]), np.array([[0.9], [0.8]]))
    0.5
    """

    name: str
    totals: Callable[[Array, Array], Totals]
    result: Callable[[float, float], float] = ratio
    kind: str = ""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

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
        outputs: Names of the outputs whose own losses are figures, too.
    """

    def __init__(self, metrics: Mapping[str, Metric], outputs: Sequence[str] = ()) -> None:
        self._metrics = metrics
        self._outputs = dict.fromkeys(outputs, 0.0)
        self._loss: Totals = (0.0, 0.0)
        self._totals = dict.fromkeys(metrics, (0.0, 0.0))

    def add(
        self,
        loss: float,
        totals: Mapping[str, Totals],
        samples: int,
        losses: Sequence[float] = (),
    ) -> None:
        """Adds a batch.

        Args:
            loss: Its loss.
            totals: What each metric's `totals` gave for it.
            samples: How many it has.
            losses: Of each output, without factors.
        """
        self._loss = (self._loss[0] + loss * samples, self._loss[1] + samples)
        for name, value in zip(self._outputs, losses, strict=False):
            self._outputs[name] += value * samples
        for name, (total, count) in totals.items():
            before = self._totals[name]
            self._totals[name] = (before[0] + total, before[1] + count)

    def figures(self) -> dict[str, float]:
        """Name to figure, the loss first."""
        found = {"loss": ratio(*self._loss)}
        for name, value in self._outputs.items():
            found[f"{name}_loss"] = ratio(value, self._loss[1])
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


def cosine_similarity(target: Array, prediction: Array, axis: int = -1) -> Array:
    """The cosine of the angle between target and prediction, along an axis."""
    return -losses.CosineSimilarity(axis).values(target, prediction)


def precision(target: Array, prediction: Array, thresholds: float = 0.5) -> Totals:
    """(true positives, predicted positives)."""
    target, prediction = same_rank(target, prediction)
    found = prediction > thresholds
    return float((found & (target != 0)).sum()), float(found.sum())


def recall(target: Array, prediction: Array, thresholds: float = 0.5) -> Totals:
    """(true positives, positives)."""
    target, prediction = same_rank(target, prediction)
    positives = target != 0
    return float(((prediction > thresholds) & positives).sum()), float(positives.sum())


def get(metric: str | Metric | Values, name: str = "", **settings: Any) -> Metric:
    """The metric of a name; a function of (target, prediction) is averaged.

    Args:
        metric: A class's name ("MeanSquaredError"), the same in snake case, a short one ("mse",
            "acc"), a metric, or a function.
        name: In the history; "" for `metric` itself.
        settings: Of the class in Keras: `threshold`, `thresholds` (one number), `k`, `axis`,
            `from_logits`, `label_smoothing`.

    Raises:
        ValueError: There is none of this name.
        TypeError: It has no such setting.

    >>> get("binary_accuracy", threshold=0.9)(np.array([[1.0]]), np.array([[0.8]]))
    0.0
    """
    if isinstance(metric, Metric):
        return metric
    if not isinstance(metric, str):
        return mean(metric, getattr(metric, "__name__", "metric"))
    full = full_name(metric)
    if full not in _NAMED:
        known = ", ".join(sorted([*_NAMED, *_SHORT]))
        raise ValueError(f"unknown metric {metric!r}; known are {known}.")
    named, source = name or metric, _NAMED[full]
    if isinstance(source, type):
        made = mean(source(**settings).values, named)
    else:
        inspect.signature(source).bind(None, None, **settings)  # an error now, not when it is used
        function = functools.partial(source, **settings) if settings else source
        made = Metric(named, function) if full in _COUNTS else mean(function, named)
    result = _root if full == "root_mean_squared_error" else ratio
    return dataclasses.replace(made, result=result, kind=full, settings=settings)


def _ids(target: Array, prediction: Array) -> Array:
    """Class ids, without a last axis of size 1."""
    return target[..., 0] if target.ndim == prediction.ndim else target


def _root(total: float, count: float) -> float:
    return math.sqrt(ratio(total, count))


_COUNTS = ("precision", "recall")
"""Functions that give the pair of numbers of a batch; those of the others are averaged."""
_NAMED: dict[str, Callable[..., Any] | type[Loss]] = {
    "accuracy": accuracy,
    "binary_accuracy": binary_accuracy,
    "binary_crossentropy": losses.BinaryCrossentropy,
    "categorical_accuracy": categorical_accuracy,
    "categorical_crossentropy": losses.CategoricalCrossentropy,
    "categorical_hinge": losses.CategoricalHinge,
    "cosine_similarity": cosine_similarity,
    "hinge": losses.Hinge,
    "kl_divergence": losses.KLDivergence,
    "log_cosh_error": losses.LogCosh,
    "mean_absolute_error": losses.MeanAbsoluteError,
    "mean_absolute_percentage_error": losses.MeanAbsolutePercentageError,
    "mean_squared_error": losses.MeanSquaredError,
    "mean_squared_logarithmic_error": losses.MeanSquaredLogarithmicError,
    "poisson": losses.Poisson,
    "precision": precision,
    "recall": recall,
    "root_mean_squared_error": losses.MeanSquaredError,
    "sparse_categorical_accuracy": sparse_categorical_accuracy,
    "sparse_categorical_crossentropy": losses.SparseCategoricalCrossentropy,
    "sparse_top_k_categorical_accuracy": sparse_top_k_categorical_accuracy,
    "squared_hinge": losses.SquaredHinge,
    "top_k_categorical_accuracy": top_k_categorical_accuracy,
}
_SHORT = {
    "acc": "accuracy",
    "bce": "binary_crossentropy",
    "mae": "mean_absolute_error",
    "mape": "mean_absolute_percentage_error",
    "mse": "mean_squared_error",
    "msle": "mean_squared_logarithmic_error",
}


def full_name(name: str) -> str:
    """The name in snake case that a class's or a short name stands for.

    >>> full_name("acc"), full_name("MeanSquaredError")
    ('accuracy', 'mean_squared_error')
    """
    if name.lower() in _SHORT and (name.islower() or name.isupper()):
        return _SHORT[name.lower()]
    return re.sub(r"(?<=[a-zK])(?=[A-Z][a-z])|(?<=p)(?=K)|(?<=KL)(?=D)", "_", name).lower()
