"""Watching Keras on TensorFlow: losses, metrics, weights and updates; the graph stays unseen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from stethoscope.keras.watch import BATCH, INSIDE, Watch
from stethoscope.nonfinite import first_nonfinite
from stethoscope.stats import describe
from stethoscope.types import Stage

UNSEEN = (
    "batches, activations and gradients are not seen on the TensorFlow backend yet; "
    "use the JAX or torch backend"
)


class TensorFlowWatch(Watch):
    """Watches one fit on the TensorFlow backend."""

    def start(self) -> None:
        """Shadows `train_function`, and declares what is not seen."""
        super().start()
        self.declare(UNSEEN, *BATCH, *INSIDE)

    def run(self, original: Callable[..., Any], *args: Any) -> Any:
        """One call of the train function: `args` is the iterator, left alone."""
        probed = self.monitor.schedule.probe(self.step)
        before: list[Any] = []
        with self.ours():
            rate = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
            if probed:
                for parameter in self.layout.of(self.model.trainable_variables):
                    if parameter is not None:
                        value = keras.ops.convert_to_numpy(parameter.variable.value)
                        before.append((parameter, np.array(value)))
        logs = original(*args)
        if self.learn is not None:
            with self.ours():
                self.learn()
            self.learn = None
        with self.ours():
            if probed:
                self._look(before)
            values = [float(keras.ops.convert_to_numpy(v)) for v in self.meters().variables]
        if self.active:
            together = getattr(self.model, "steps_per_execution", 1) or 1
            self.end_step((values, rate), at_once=probed, steps=together)
        return logs

    def _look(self, before: list[Any]) -> None:
        seen = []
        for parameter, old in before:
            new = keras.ops.convert_to_numpy(parameter.variable.value)
            seen.append((parameter.slot(Stage.WEIGHT), describe(old)))
            seen.append((parameter.slot(Stage.UPDATE), describe(new - old)))
        self.observe(seen)
        found = first_nonfinite(seen) if self.scans_left else None
        if found is not None:
            self.found(found, self.step)
