"""One flat vector of all running means after each step, and what a batch added to them."""

from __future__ import annotations

import math
from typing import Any

from stethoscope.keras.batch_values import LOSS, difference, trackers, unseen_metrics
from stethoscope.stats import FloatArray


class Meters:
    """Where a model's trackers lie. Made after a first step: Keras builds metrics lazily.

    Args:
        model: The model being trained.

    Attributes:
        variables: Keras variables of the totals and counts, in turn.
        places: The index of each in `model.metrics_variables`.
        unseen: Topic to reason, for what cannot be told batch by batch.
    """

    def __init__(self, model: Any) -> None:
        self._means = trackers(model)
        self.unseen = unseen_metrics(model)
        self.variables = [v for mean in self._means for v in (mean.total, mean.count)]
        by_id = {id(v): i for i, v in enumerate(model.metrics_variables)}
        self.places = [by_id.get(id(v), -1) for v in self.variables]
        outputs = getattr(getattr(model, "_compile_loss", None), "metrics", None) or ()
        self._outputs = {id(metric.total): metric.name.removesuffix("_loss") for metric in outputs}

    def difference(
        self, before: FloatArray, after: FloatArray
    ) -> tuple[float | None, dict[str, float], dict[str, float]]:
        """(loss, losses of the outputs, metrics) of the batch between two readings.

        Args:
            before: Values of `variables` before the batch; zeros at the start of an epoch.
            after: The same after it.

        Returns:
            Without what cannot be told: a mean that nothing was added to, or whose total was not
            finite before.
        """
        loss: float | None = None
        outputs: dict[str, float] = {}
        metrics: dict[str, float] = {}
        for i, mean in enumerate(self._means):
            old = (float(before[2 * i]), float(before[2 * i + 1]))
            new = (float(after[2 * i]), float(after[2 * i + 1]))
            if new[1] == old[1] or not math.isfinite(old[0]):
                continue
            value = difference(old, new)
            if mean.root and value >= 0:
                value = math.sqrt(value)
            if id(mean.total) in self._outputs:
                outputs[self._outputs[id(mean.total)]] = value
            elif mean.name == LOSS:
                loss = value
            else:
                metrics[mean.name] = value
        return loss, outputs, metrics
