"""Each batch's own loss and metrics, out of the running means that Keras keeps.

`logs["loss"]` is the mean since the start of the epoch. Keras holds it as a total and a count
(`keras.metrics.Mean`): the batch's own value is the difference of the totals over the difference
of the counts, whatever the size and the sample weights of the batch. The totals are float32: after
n batches of equal size the recovered value is right to about n * 6e-8 of itself.

Once a total is not finite the values of later batches of that epoch cannot be recovered: NaN.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import keras

from stethoscope.keras.losses import compiled_metrics

Pair = tuple[float, float]
"""(total, count) of a running mean."""

LOSS = "loss"


def difference(before: Pair, after: Pair) -> float:
    """Mean of what was added to a running mean between two readings of its (total, count).

    NaN where nothing (or only zero weight) was added, or where `before` was not finite already.

    >>> difference((6.0, 4.0), (9.0, 6.0))
    1.5
    """
    if not (math.isfinite(before[0]) and math.isfinite(before[1])):
        return math.nan
    count = after[1] - before[1]
    return (after[0] - before[0]) / count if count else math.nan


@dataclasses.dataclass(frozen=True)
class Tracker:
    """A metric that is a running mean.

    Attributes:
        name: As in the logs.
        total, count: Its Keras variables.
        root: The metric is the square root of the mean.
    """

    name: str
    total: Any
    count: Any
    root: bool = False


def trackers(model: Any) -> tuple[Tracker, ...]:
    """The running means among a model's metrics: the loss, each output's loss, the metrics.

    A model with a `train_step` of its own may hold two that are called "loss": both are listed.
    """
    return tuple(
        Tracker(name, metric.total, metric.count, root=_is_root(metric))
        for name, metric in _named_metrics(model)
        if _is_mean(metric)
    )


def unseen_metrics(model: Any) -> dict[str, str]:
    """Topic to reason, for what cannot be told batch by batch of this model."""
    unseen = {
        f"metric {name}": f"{type(metric).__name__} is no mean over samples: it has a value for "
        "the epoch, none for each batch"
        for name, metric in _named_metrics(model)
        if not _is_mean(metric)
    }
    together = getattr(model, "steps_per_execution", 1) or 1
    if together > 1:
        unseen["batch loss"] = (
            f"steps_per_execution={together}: loss and metrics are means over that many batches"
        )
    return unseen


def _named_metrics(model: Any) -> Iterator[tuple[str, Any]]:
    for metric in getattr(model, "metrics", ()):
        if hasattr(metric, "_flat_metrics") or hasattr(metric, "_user_metrics"):
            if getattr(metric, "built", False):
                yield from compiled_metrics(metric)
            else:
                yield from _given_metrics((metric._user_metrics, metric._user_weighted_metrics))
        else:
            yield str(metric.name), metric


def _given_metrics(given: Any) -> Iterator[tuple[str, Any]]:
    """The metric objects that `compile` was given; its strings become objects in the first step."""
    if isinstance(given, keras.metrics.Metric):
        yield str(given.name), given
    elif isinstance(given, (dict, list, tuple)):
        for each in given.values() if isinstance(given, dict) else given:
            yield from _given_metrics(each)


def _is_mean(metric: Any) -> bool:
    mean = isinstance(metric, keras.metrics.Mean)
    plain = mean and type(metric).result is keras.metrics.Mean.result
    return mean and (plain or _is_root(metric))


def _is_root(metric: Any) -> bool:
    root = keras.metrics.RootMeanSquaredError
    return isinstance(metric, root) and type(metric).result is root.result
