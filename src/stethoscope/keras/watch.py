"""Watching the steps of one fit: what the three backends have in common.

`model.train_function` is shadowed on the instance from `on_train_begin` to the end of the fit.
Everything happens inside it, in the thread that trains: no batch callback is overridden, so Keras
dispatches the user's callbacks as it would without us.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from stethoscope.agreement import CORRELATION, MAX_ELEMENTS, correlation
from stethoscope.keras.feed import Feed, as_numpy, named
from stethoscope.keras.functions import reasons
from stethoscope.keras.layout import Layout
from stethoscope.keras.meters import Meters
from stethoscope.monitor import FaultyTrainingError, Monitor
from stethoscope.stats import POSITION, FloatArray
from stethoscope.types import Slot, Stage, Stat

LEARNING_RATE = "learning_rate"
PLAIN_STEPS_TOGETHER = 8  # losses of plain steps are read together: reading one waits for the step
END_OF_DATA = ("StopIteration", "OutOfRangeError")  # how an epoch of unknown length ends
MAX_SCANS = 3  # per run: what is non-finite once stays so

INSIDE = (Stage.PRE_ACTIVATION, Stage.OUTPUT, Stage.OUTPUT_GRAD, Stage.WEIGHT_GRAD)
"""The stages that only a look into the step shows."""

BATCH = (Stage.INPUT, Stage.TARGET)

Observation = tuple[Slot, FloatArray]


@dataclasses.dataclass(frozen=True)
class Found:
    """The first non-finite tensor of a step."""

    step: int
    slot: Slot
    what: str
    rows: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Pending:
    """A step whose numbers are still on the device.

    Attributes:
        step, epoch, batch: From 0.
        values: Of the meters after the step and the learning rate; see `Watch.read`.
    """

    step: int
    epoch: int
    batch: int
    values: Any


class Watch(abc.ABC):
    """Watches one fit.

    Args:
        model: The Keras model.
        monitor: What takes the rows.
        layout: Which layers and parameters to look at.
        feed: Facts of the data.
        first_step, first_epoch: Where an earlier fit of the same run ended.
    """

    def __init__(
        self,
        model: Any,
        monitor: Monitor,
        layout: Layout,
        feed: Feed,
        *,
        first_step: int = 0,
        first_epoch: int = 0,
    ) -> None:
        self.model = model
        self.monitor = monitor
        self.layout = layout
        self.feed = feed
        self.step = self._first_step = first_step
        self._found_any = False
        self.epoch = first_epoch
        self.batch = 0
        self.active = True
        self.aborted: Callable[[], None] | None = None  # called when a step raised
        self.learn: Callable[[], None] | None = None  # describes again what the first step built
        self.scans_left = MAX_SCANS
        self._begun: tuple[float, float, int] | None = None
        self._was_probed = False
        self._meters: Meters | None = None
        self._values_before: FloatArray | None = None
        self._pending: list[Pending] = []
        self._found: list[Found] = []
        self._original: Callable[..., Any] | None = None
        self._shadow: Callable[..., Any] | None = None

    keep: ClassVar[int] = 1
    """Rows that stay open: what a step reads shows that the update before it went wrong."""

    @abc.abstractmethod
    def run(self, original: Callable[..., Any], *args: Any) -> Any:
        """Takes one call of `train_function`: looks at it, and returns what `original` returns."""

    # ---- life of a fit -------------------------------------------------------------------------

    def start(self) -> None:
        """Shadows `train_function`, unless that is done."""
        current = self.model.train_function
        if not self.active or current is self._shadow or current is None:
            return

        def train_function(*args: Any) -> Any:
            if not self.active:
                return current(*args)
            try:
                self._measure()
                return self.run(current, *args)
            except BaseException as error:
                if type(error).__name__ not in END_OF_DATA:
                    self.stop()  # `fit` ends without `on_train_end`
                    if self.aborted is not None:
                        self.aborted()
                raise

        self._original, self._shadow = current, train_function
        self.model.train_function = train_function

    def _measure(self) -> None:
        """Tells the schedule what the step before took, from its begin to now."""
        now, spent = time.perf_counter(), self.monitor.seconds
        if self._begun is not None:
            began, before, step = self._begun
            cost = spent - before
            self.monitor.schedule.took(
                step, probed=self._was_probed, seconds=now - began - cost, cost=cost
            )
        self._begun = (now, spent, self.step)

    def begin_epoch(self, epoch: int) -> None:
        """An epoch begins: Keras has just reset its trackers."""
        self.start()
        self.epoch, self.batch = epoch, 0
        self._values_before = None
        self._begun = None  # what lies between two epochs is no step

    def end_epoch(self) -> None:
        """The training part of an epoch is over."""
        self.flush()

    def stop(self) -> None:
        """Gives `train_function` back and closes the rows; harmless when done twice."""
        if self._shadow is not None and self.model.train_function is self._shadow:
            self.model.train_function = self._original
        self._shadow = self._original = None
        with contextlib.suppress(FaultyTrainingError):  # the training is over
            self.flush()
        self.active = False

    # ---- one step ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def ours(self) -> Iterator[None]:
        """Code of ours inside the user's training: timed, and its failure is not the user's."""
        begun = time.perf_counter()
        try:
            yield
        except FaultyTrainingError:
            raise
        except Exception as error:
            self.fail(error)
        finally:
            self.monitor.spent(time.perf_counter() - begun)

    def fail(self, error: Exception) -> None:
        """Stops to watch after an error of our own, and says so once."""
        self.active = False
        text = f"watching stopped at step {self.step}: {type(error).__name__}: {error}"
        self.monitor.session.fail(f"{text}; the training goes on.")
        self.monitor.fail(text)

    def declare(self, reason: str, *topics: Stage | str) -> None:
        """Says in the Program what is not seen: stages, or parts of the model."""
        recorder = self.monitor.recorder
        recorder.revise(unseen={**dict.fromkeys(topics, reason), **recorder.program.unseen})

    def declare_functions(self, missed: set[str]) -> None:
        """Says where functional activations are not seen; see `functions.reasons`."""
        for topic, reason in reasons(missed).items():
            self.declare(reason, topic)

    def observe(self, observations: Sequence[Observation]) -> None:
        """Records a probed step's tensors."""
        for slot, vector in observations:
            self.monitor.recorder.observe(self._as_told(slot), vector)

    def _as_told(self, slot: Slot) -> Slot:
        """`slot`, a target under its place in the Program, which lists them by their losses."""
        if slot.stage is not Stage.TARGET:
            return slot
        return dataclasses.replace(slot, param=str(self.feed.target_place(int(slot.param))))

    def look_at_batch(self, x: Any, y: Any, outputs: Sequence[Any] | None) -> None:
        """Takes the facts of a probed step's data and of what the model made of it."""
        targets = [tensor for _, tensor in named(y)]
        alone = outputs is not None and len(outputs) == len(targets) == 1
        if outputs is not None and alone and int(np.prod(outputs[0].shape)) <= MAX_ELEMENTS:
            value = correlation(as_numpy(outputs[0]), as_numpy(targets[0]))
            if value is not None:
                self.monitor.recorder.scalar(Stage.LOSS, value, param=CORRELATION)
        if not self.feed.wants_batches:
            return
        self.feed.batch(x, y)
        if outputs is not None:
            self.feed.predictions(outputs)
        if self.feed.due():
            recorder = self.monitor.recorder
            recorder.revise(
                inputs=self.feed.inputs(),
                targets=self.feed.targets(),
                losses=self.feed.losses(recorder.program.losses),
            )

    def meters(self) -> Meters:
        """Where the model keeps its loss and metrics; call it after a first step."""
        if self._meters is None:
            self._meters = Meters(self.model)
            for topic, reason in self._meters.unseen.items():
                self.declare(reason, topic)
        return self._meters

    def read(self, values: Any) -> tuple[FloatArray, float | None]:
        """Meters and learning rate of a step, from what `run` handed to `end_step`."""
        meters, learning_rate = values
        return np.asarray(meters, dtype=np.float64), learning_rate

    def end_step(self, values: Any, *, at_once: bool, steps: int = 1) -> None:
        """Closes a step; rows of plain steps wait for each other, unless `at_once`.

        Raises:
            FaultyTrainingError: with `on_error="raise"`.
        """
        self._was_probed = at_once
        self._pending.append(Pending(self.step, self.epoch, self.batch, values))
        self.step += steps
        self.batch += steps
        if at_once:
            self.flush()
        elif len(self._pending) >= PLAIN_STEPS_TOGETHER:
            self.flush(keep=self.keep)

    def flush(self, keep: int = 0) -> None:
        """Reads what is pending and closes its rows.

        Args:
            keep: How many of the last rows stay open.

        Raises:
            FaultyTrainingError: with `on_error="raise"`.
        """
        if self.active and self._pending:
            self.wait(self._pending)
            with self.ours():
                self.look_back(self._pending)
        end = len(self._pending) - keep
        pending, self._pending = self._pending[:end], self._pending[end:]
        for one in pending:
            if self.active:
                with self.ours():
                    self._tell_found(one.step)
                    self._record(one)
            self.monitor.end_step(one.step, one.epoch, one.batch)
        if self.monitor.should_stop:
            self.model.stop_training = True

    def _record(self, one: Pending) -> None:
        recorder = self.monitor.recorder
        after, learning_rate = self.read(one.values)
        if learning_rate is not None:
            recorder.scalar(Stage.HYPER, learning_rate, param=LEARNING_RATE)
        before = self._values_before
        self._values_before = after
        if before is None or len(before) != len(after):
            before = np.zeros_like(after)
        loss, outputs, metrics = self.meters().difference(before, after)
        for name, value in outputs.items():
            recorder.scalar(Stage.LOSS, value, param=name)
        for name, value in metrics.items():
            recorder.scalar(Stage.METRIC, value, param=name)
        if loss is not None:
            recorder.scalar(Stage.LOSS, loss)

    def wait(self, pending: Sequence[Pending]) -> None:  # noqa: B027 (nothing by default)
        """Waits for steps that still run, which is the training's own time."""

    def look_back(self, pending: Sequence[Pending]) -> None:  # noqa: B027 (nothing by default)
        """Looks for a non-finite number in steps that were not probed, before they are closed."""

    def found(
        self,
        observation: Observation,
        step: int,
        rows: Mapping[Slot, Sequence[int]] | None = None,
    ) -> None:
        """Takes the first non-finite tensor of a step.

        Args:
            observation: See `nonfinite.first_nonfinite`.
            step: The step it was seen in.
            rows: Samples that hold a non-finite value, where they are known.
        """
        slot, vector = observation
        if slot.stage is Stage.WEIGHT:
            if self._found_any:  # the weights stay what an earlier step made them
                self.scans_left = 0
                return
            if step > self._first_step:
                slot, step = dataclasses.replace(slot, stage=Stage.UPDATE), step - 1
        self._found_any = True
        self.scans_left -= 1
        what = "nan" if vector[POSITION[Stat.NAN_COUNT]] > 0 else "inf"
        which = tuple(int(row) for row in (rows or {}).get(slot, ()))
        self._found.append(Found(step, self._as_told(slot), what, which))
        self.monitor.schedule.alarm(step)

    def _tell_found(self, step: int) -> None:
        """Puts what was found up to `step` into its row."""
        due = [one for one in self._found if one.step <= step]
        self._found = [one for one in self._found if one.step > step]
        for one in due:
            self.monitor.recorder.event(
                "nonfinite",
                stage=one.slot.stage,
                layer=one.slot.layer,
                param=one.slot.param,
                rows=list(one.rows),
                what=one.what,
                step=one.step,
            )
