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
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np

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


def snapshot(
    model: Any, means: Sequence[Tracker], metrics_variables: Sequence[Any] | None = None
) -> list[Pair]:
    """(total, count) of each tracker, now.

    Args:
        model: In the middle of `fit` on JAX the values are not in its variables but in its state.
        means: Of this model.
        metrics_variables: The values to read, in the order of `model.metrics_variables`, as the
            JAX trainer passes them on; default: the model's own state.
    """
    values = metrics_variables
    if values is None:
        values = (getattr(model, "_jax_state", None) or {}).get("metrics_variables")
    if values is None:  # TensorFlow, torch, and JAX outside of its loop
        return [(_number(t.total), _number(t.count)) for t in means]
    place = {id(v): i for i, v in enumerate(model.metrics_variables)}

    def read(variable: Any) -> float:
        i = place.get(id(variable))
        return _number(variable if i is None else values[i])

    return [(read(t.total), read(t.count)) for t in means]


def _number(variable: Any) -> float:
    value = getattr(variable, "value", variable)
    if value is None:
        return math.nan
    if hasattr(value, "detach"):  # torch
        return float(value.detach())
    if hasattr(value, "numpy"):  # TensorFlow, where np.asarray is slow
        return float(value.numpy())
    return float(np.asarray(value))


class BatchValues:
    """Recovers the loss and the metrics of each batch of a `fit`, or of a validation.

    Call `start` before the first batch, `reset` when an epoch (or a validation) begins, and
    `after_batch` after each batch. A forgotten `reset` is noticed when the count falls.
    """

    def __init__(self) -> None:
        self._means: tuple[Tracker, ...] = ()
        self._before: list[Pair] = []
        self._key: tuple[Any, ...] = ()

    def start(self, model: Any) -> None:
        """Looks up the model's trackers and begins at zero."""
        self._means = trackers(model)
        self._key = self._state_of(model)
        self.reset()

    def reset(self) -> None:
        """Keras has set all its trackers to zero."""
        self._before = [(0.0, 0.0)] * len(self._means)

    def after_batch(
        self, model: Any, metrics_variables: Sequence[Any] | None = None
    ) -> tuple[float, dict[str, float]]:
        """(loss, metrics) of the batch that ended just now; NaN for what cannot be told.

        The loss is the total: all outputs weighted and regularization included. The loss of each
        output of a model of several is among the metrics, as Keras names it.

        Args:
            model: The one that is trained.
            metrics_variables: See `snapshot`.
        """
        if self._state_of(model) != self._key:
            # The metrics were built with the first batch: the new trackers began at zero.
            known = {id(t.total): pair for t, pair in zip(self._means, self._before, strict=True)}
            self._means = trackers(model)
            self._key = self._state_of(model)
            self._before = [known.get(id(t.total), (0.0, 0.0)) for t in self._means]
        after = snapshot(model, self._means, metrics_variables)
        if self._was_reset(after):
            self.reset()
        before, self._before = self._before, after
        loss, metrics = math.nan, dict[str, float]()
        for mean, old, new in zip(self._means, before, after, strict=True):
            value = difference(old, new)
            if mean.root and value >= 0:
                value = math.sqrt(value)
            if mean.name != LOSS:
                metrics[mean.name] = value
            elif new[1] != old[1]:  # of two, the one that the training step really updates
                loss = value
        return loss, metrics

    def _was_reset(self, after: Sequence[Pair]) -> bool:
        """The count of the loss grows with each batch, by its size: else it was set to zero."""
        pairs = zip(self._means, self._before, after, strict=True)
        moved = [(b, a) for mean, b, a in pairs if mean.name == LOSS and (a[1] or b[1])]
        return any(a[1] <= b[1] for b, a in moved)

    @staticmethod
    def _state_of(model: Any) -> tuple[Any, ...]:
        compiled: Any = getattr(model, "_compile_metrics", None)
        loss: Any = getattr(model, "_compile_loss", None)
        return (
            id(model),
            id(getattr(model, "_loss_tracker", None)),
            id(compiled),
            getattr(compiled, "built", False),
            getattr(loss, "built", False),
        )
