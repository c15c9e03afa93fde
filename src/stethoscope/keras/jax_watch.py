"""Watching Keras on JAX: a probe runs beside the real step, on the state and batch it will get."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import keras
import numpy as np

from stethoscope.keras.array_stats import describe
from stethoscope.keras.jax_probe import Probe, copies, together
from stethoscope.keras.names import from_library
from stethoscope.keras.nonfinite import bad_rows, first_nonfinite
from stethoscope.keras.watch import Watch
from stethoscope.types import Stage


class Counted(Iterator[Any]):
    """An iterator that counts what is taken from it."""

    def __init__(self, first: Any, rest: Iterator[Any]) -> None:
        self._items = itertools.chain((first,), rest)
        self.taken = 0

    def __next__(self) -> Any:
        item = next(self._items)
        self.taken += 1
        return item


class JaxWatch(Watch):
    """Watches one fit on the JAX backend."""

    _probes: dict[Any, Probe]
    _rate_place: int | None
    _schedule: Any

    def start(self) -> None:
        """Shadows `train_function`, and learns where the learning rate lies in the state."""
        super().start()
        if hasattr(self, "_probes"):
            return
        self._probes = {}
        self._parameters = self.layout.of(self.model.trainable_variables)
        optimizer = self.model.optimizer
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        rate = getattr(inner, "_learning_rate", None)
        self._schedule = (
            rate if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule) else None
        )
        wanted = inner.iterations if self._schedule is not None else rate
        places = [i for i, v in enumerate(optimizer.variables) if v is wanted]
        self._rate_place = places[0] if places else None
        self._can_probe = from_library(type(self.model).train_step)
        if not self._can_probe:
            self.declare(
                "activations",
                "the model overrides train_step(): activations and gradients are not seen on JAX",
            )

    def run(self, original: Callable[..., Any], *args: Any) -> Any:
        """One call of the train function: `args` are the state and the iterator of batches."""
        state, iterator = args
        batch = next(iterator)  # its StopIteration ends the epoch, as in the bare run
        probed = self.monitor.schedule.probe(self.step)
        batches = Counted(batch, iterator)
        probe = started = before = None
        with self.ours():
            if probed:
                before = copies(list(state[0]))
                if self._can_probe:
                    probe, started = self._probe(state, batch)
        logs, after = original(state, batches)
        with self.ours():
            places = self.meters().places
            values = [after[3][i] for i in places]
            rate = None if self._rate_place is None else after[2][self._rate_place]
            numbers = together([*values, *([] if rate is None else [rate])])
            if probed:
                self._look(batch, probe, started, before, after)
        if self.active:
            self.end_step(numbers, at_once=probed, steps=batches.taken)
        return logs, after

    def _probe(self, state: Any, batch: Any) -> tuple[Probe, Any]:
        x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
        x, y, weight = keras.tree.map_structure(_as_array, (x, y, weight))
        key = tuple(
            None if t is None else (tuple(t.shape), str(t.dtype))
            for t in keras.tree.flatten((x, y, weight))
        )
        if key not in self._probes:
            self._probes[key] = Probe(self.model, self.layout)
        probe = self._probes[key]
        return probe, probe(state, x, y, weight)

    def _look(self, batch: Any, probe: Probe | None, started: Any, before: Any, after: Any) -> None:
        x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
        outputs = None
        seen = []
        if probe is not None:
            rows, outputs = started
            seen = probe.read(rows)
            for path in probe.missed:
                self.declare(f"layer {path}", "it runs inside a loop or a rematerialized layer")
        if before:
            changes = jax.tree.map(lambda new, old: new - old, list(after[0]), before)
            for parameter, change in zip(self._parameters, changes, strict=True):
                if parameter is not None:
                    seen.append((parameter.slot(Stage.UPDATE), describe(np.asarray(change))))
        self.observe([one for one in seen if not one[0].stage.is_scalar])
        self.look_at_batch(x, y, outputs or None)
        found = first_nonfinite(seen) if self.scans_left else None
        if found is not None:
            self.report_nonfinite(
                found, self.step, self._rows(found[0].stage, found[0].param, x, y)
            )

    def _rows(self, stage: Stage, param: str, x: Any, y: Any) -> list[int]:
        if stage not in (Stage.INPUT, Stage.TARGET):
            return []
        flat = [t for t in keras.tree.flatten(x if stage is Stage.INPUT else y) if t is not None]
        return bad_rows(flat[int(param)])

    def read(self, values: Any) -> tuple[Any, float | None]:
        """Meters and learning rate of a step, from the one array that holds them."""
        numbers = np.asarray(values, dtype=np.float64)
        if self._rate_place is None:
            return numbers, None
        rate = numbers[-1]
        if self._schedule is not None:
            # The counter was read after the step; the rate in force was that of the one before.
            rate = float(keras.ops.convert_to_numpy(self._schedule(max(int(rate) - 1, 0))))
        return numbers[:-1], float(rate)


def _as_array(tensor: Any) -> Any:
    return tensor if tensor is None or hasattr(tensor, "dtype") else np.asarray(tensor)
