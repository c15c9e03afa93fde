"""Watching Keras on JAX: a probe runs beside the real step, on the state and batch it will get."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import keras
import numpy as np

from stethoscope.array_stats import describe
from stethoscope.keras.feed import as_numpy
from stethoscope.keras.jax_probe import Probe, all_finite, copies, together
from stethoscope.keras.names import from_library
from stethoscope.keras.undisturbed import undisturbed
from stethoscope.keras.watch import BATCH, INSIDE, Observation, Pending, Watch
from stethoscope.nonfinite import bad_rows, first_nonfinite
from stethoscope.types import Stage

MAX_COPY_BYTES = 2**28  # a larger state is not copied: its failing step stays a range of steps
OTHER_SHAPE_AFTER = 2  # intervals of the schedule without a probe, before another is compiled


class Counted(Iterator[Any]):
    """An iterator that counts what is taken from it."""

    def __init__(self, first: Any, rest: Iterator[Any]) -> None:
        self._items = itertools.chain((first,), rest)
        self.taken = 0

    def __next__(self) -> Any:
        item = next(self._items)
        self.taken += 1
        return item


@dataclasses.dataclass
class Window:
    """Plain steps that can be re-run.

    Attributes:
        train_function: That of the fit.
        state: A copy of the state before the first of them.
        batches: (step, batch) of each.
    """

    train_function: Callable[..., Any]
    state: Any
    batches: list[tuple[int, Any]] = dataclasses.field(default_factory=list)


class JaxWatch(Watch):
    """Watches one fit on the JAX backend."""

    keep = 0  # a window of plain steps is looked at, and closed, as one

    _probes: dict[Any, Probe]
    _probed: int  # the last step that was
    _owed: bool  # a step that was to be probed had another shape: the next one is
    _rate_place: int | None
    _schedule: Any

    def start(self) -> None:
        """Shadows `train_function`, and learns where the learning rate lies in the state."""
        super().start()
        if hasattr(self, "_probes"):
            return
        self._probes = {}
        self._probed, self._owed = 0, False
        self._window: Window | None = None
        self._last: Any = None
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
                "the model overrides train_step(): activations and gradients are not seen on JAX",
                *BATCH,
                *INSIDE,
            )

    def run(self, original: Callable[..., Any], *args: Any) -> Any:
        """One call of the train function: `args` are the state and the iterator of batches."""
        state, iterator = args
        if not hasattr(iterator, "__next__"):
            with self.ours():
                raise TypeError(
                    f"train_function is called with a {type(iterator).__name__}: expected an "
                    f"iterator, as of Keras 3.7; this is Keras {keras.__version__}"
                )
            return original(*args)
        batch = next(iterator)  # its StopIteration ends the epoch, as in the bare run
        probed = self.monitor.schedule.probe(self.step) or self._owed
        batches = Counted(batch, iterator)
        probe = started = before = None
        if probed and self._window is not None:
            self.flush()
        with self.ours():
            if not probed:
                self._open_window(original, state, batch)
            else:
                before = copies(list(state[0]))
                if self._can_probe:
                    probe, started = self._probe(state, batch)
                    ready(started)  # its time is ours, that of the step is not
        logs, after = original(state, batches)
        if probed:
            ready(after)
        self._last = after
        with self.ours():
            places = self.meters().places
            values = [after[3][i] for i in places]
            rate = None if self._rate_place is None else after[2][self._rate_place]
            numbers = together([*values, *([] if rate is None else [rate])])
            if probed and not self._owed:
                self._look(batch, probe, started, before, after)
        if self.active:
            self.end_step(numbers, at_once=probed, steps=batches.taken)
        return logs, after

    def _probe(self, state: Any, batch: Any, *, patient: bool = True) -> tuple[Probe | None, Any]:
        x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
        x, y, weight = keras.tree.map_structure(_as_array, (x, y, weight))
        key = tuple(
            None if t is None else (tuple(t.shape), str(t.dtype))
            for t in keras.tree.flatten((x, y, weight))
        )
        # A probe is compiled for each shape: for a ragged last batch alone that is too dear.
        patience = OTHER_SHAPE_AFTER * self.monitor.schedule.every
        if (
            patient
            and key not in self._probes
            and self._probes
            and self.step - self._probed < patience
        ):
            self._owed = True
            return None, None
        self._owed, self._probed = False, self.step
        if key not in self._probes:
            self._probes[key] = Probe(self.model, self.layout)
        probe = self._probes[key]
        return probe, probe(state, x, y, weight)

    def _look(self, batch: Any, probe: Probe | None, started: Any, before: Any, after: Any) -> None:
        x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
        outputs = None
        if probe is not None:
            outputs = started[1]
            self.declare_functions(probe.functions)
            for path in probe.missed:
                self.declare("it runs inside a loop or a rematerialized layer", f"layer {path}")
        seen = self._seen(probe, started, before, after)
        self.look_at_batch(x, y, outputs or None)
        self.observe([one for one in seen if not one[0].stage.is_scalar])
        self._first_bad(seen, self.step, x, y)

    def _seen(
        self, probe: Probe | None, started: Any, before: Any, after: Any
    ) -> list[Observation]:
        seen = [] if probe is None else probe.read(started[0])
        changes = jax.tree.map(lambda new, old: new - old, list(after[0]), before)
        for parameter, change in zip(self._parameters, changes, strict=True):
            if parameter is not None:
                seen.append((parameter.slot(Stage.UPDATE), describe(np.asarray(change))))
        return seen

    def _first_bad(self, seen: list[Observation], step: int, x: Any, y: Any) -> bool:
        found = first_nonfinite(seen) if self.scans_left > 0 else None
        if found is None:
            return False
        slot, rows = found[0], {}
        if slot.stage in (Stage.INPUT, Stage.TARGET):
            data = x if slot.stage is Stage.INPUT else y
            flat = [t for t in keras.tree.flatten(data) if t is not None]
            rows[slot] = bad_rows(as_numpy(flat[int(slot.param)]))
        self.found(found, step, rows)
        return True

    def wait(self, pending: Sequence[Pending]) -> None:
        """Waits for the last of the steps, which JAX has only been told to take."""
        ready(pending[-1].values)

    def look_back(self, pending: Sequence[Pending]) -> None:
        """Re-runs the plain steps since the last look, when a number went wrong in them."""
        window, self._window = self._window, None
        if window is None or self.scans_left <= 0:
            return
        losses = [self.read(one.values)[0] for one in pending]
        weights = list(self._last[0])
        if any(weight.is_deleted() for weight in weights):
            # A validation took the state over, and gave it back to the variables.
            weights = [variable.value for variable in self.model.trainable_variables]
        if np.isfinite(losses).all() and bool(all_finite(weights)):
            return
        state = window.state
        for step, batch in window.batches:
            x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
            probe, started = self._probe(state, batch, patient=False)
            before = copies(list(state[0]))
            with undisturbed():
                _, state = window.train_function(state, iter((batch,)))
            seen = self._seen(probe, started, before, state)
            if self._first_bad(seen, step, x, y):
                return

    def _open_window(self, original: Callable[..., Any], state: Any, batch: Any) -> None:
        """Keeps what is needed to re-run plain steps: a copy of the state, and the batches."""
        last = self._last
        if last is not None and state[0] and state[0][0] is not last[0][0]:
            self.flush()  # a callback changed the state: the re-run would not reach this step
        if self._window is None:
            size = sum(v.nbytes for v in jax.tree.leaves(state))
            if size > MAX_COPY_BYTES or not self._can_probe or self.model.steps_per_execution > 1:
                return
            self._window = Window(original, copies(state))
        self._window.batches.append((self.step, batch))

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


def ready(values: Any) -> None:
    """Waits until arrays are computed."""
    jax.block_until_ready(values)  # type: ignore[no-untyped-call]


def _as_array(tensor: Any) -> Any:
    return tensor if tensor is None or hasattr(tensor, "dtype") else np.asarray(tensor)
