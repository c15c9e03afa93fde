"""One watched run of an engine model: what of each step goes to the recorder."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Mapping, Sequence

import numpy as np

from stethoscope.agreement import CORRELATION, correlation
from stethoscope.array_stats import describe
from stethoscope.data import DataProfile
from stethoscope.engine.describe import program
from stethoscope.engine.layers._base import Array, Shape
from stethoscope.engine.losses._base import same_rank
from stethoscope.engine.observe import Observer, Slots
from stethoscope.engine.step import Step
from stethoscope.engine.training import Trainable
from stethoscope.monitor import Monitor, Session
from stethoscope.nonfinite import bad_rows, first_nonfinite
from stethoscope.program import DataSpec, Program
from stethoscope.stats import NONFINITE, POSITION, FloatArray
from stethoscope.types import Phase, Slot, Stage, Stat

LEARNING_RATE = "learning_rate"
CHUNK = 4096  # rows that are looked at together
MAX_SCANS = 3  # per run: what is non-finite once stays so
REVISE_AT = frozenset({1, 2, 5, 10, 20, 40})  # batches looked at: each revision is stored
PROFILED = max(REVISE_AT)
AT_ONCE = 3  # steps: what is wrong with the program itself is told before the third
TOGETHER = 32  # steps: far fewer calls, and an error is told a few milliseconds later
LARGE = 1 << 20  # bytes of steps that are held: of larger ones the numbers are the cost
LONGEST = 0.25  # seconds that a step is held


class Run:
    """One model in training.

    Args:
        model: What is trained.
        session: What the report goes to.
        inputs: The data of a `fit`, or the first batch of a hand-written loop.
        targets: The same of the targets.
        whole: Whether that is all the data there is.
    """

    def __init__(
        self,
        model: Trainable,
        session: Session,
        inputs: Sequence[Array],
        targets: Sequence[Array],
        *,
        whole: bool,
    ) -> None:
        begun = time.perf_counter()
        self.model = model
        self._scans = MAX_SCANS
        self._weighted = False
        self._predictions = [DataProfile() for _ in model.losses]
        self._data(inputs, targets, whole)
        self.monitor: Monitor = session.open(self._program(), begun)
        self._observer = Observer(model.network)
        self._held: list[tuple[Step, bool]] = []
        self._since = 0.0

    def goes_on(self, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Another `fit` of the same model; what stopped the last one does not stop this one."""
        self.catch_up()
        self.monitor.should_stop = False
        self._weighted = False
        self._data(inputs, targets, whole=True)
        self._revise()

    def take(self, step: Step) -> None:
        """Records a step; where many in a row are probed, together with those that follow.

        Raises:
            FaultyTrainingError: with `on_error="raise"`.
        """
        now, schedule = time.perf_counter(), self.monitor.schedule
        if not self._held:
            self._since = now
        probed = schedule.probe(step.number)
        self._held.append((step, probed))
        held = len(self._held)
        goes_on = step.lasting and probed and schedule.probe(step.number + 1)
        late = held >= TOGETHER or step.number < AT_ONCE or now - self._since > LONGEST
        if not goes_on or late or held * _size(step) > LARGE or not _finite(step):
            self.catch_up()

    def catch_up(self) -> None:
        """Records the steps that are still held."""
        steps, self._held = self._held, []
        if not steps:
            return
        if self._observer.network is not self.model.network:
            self._observer = Observer(self.model.network)
        scanned = [one for one, probed in steps if probed or (self._scans and not _finite(one))]
        seen = dict(zip(map(id, scanned), self._observer.describe(scanned), strict=True))
        with self.monitor.together() if len(steps) > 1 else contextlib.nullcontext():
            for step, probed in steps:
                self._record(step, probed, seen.get(id(step)))
                self.monitor.end_step(step.number, step.epoch, step.batch)

    def _record(self, step: Step, probed: bool, seen: tuple[Slots, FloatArray] | None) -> None:
        """Hands a step's numbers to the recorder."""
        if step.weighted and not self._weighted:
            self._weighted = True
            self._revise()
        recorder = self.monitor.recorder
        recorder.scalar(Stage.HYPER, step.rate, param=LEARNING_RATE)
        for name, value in step.metrics.items():
            recorder.scalar(Stage.METRIC, value, param=name)
        if len(step.losses) > 1:
            for i, value in enumerate(step.losses):
                recorder.scalar(Stage.LOSS, value, param=str(i))
        recorder.scalar(Stage.LOSS, step.loss)
        if seen is None:
            return
        if probed:
            self._profile(step)
            self._correlate(step)
            recorder.observe_all(*seen)
        bad = (seen[1][:, NONFINITE] > 0).any() or not math.isfinite(step.loss)
        if bad and self._scans > 0:
            self._tell_nonfinite(step, seen)

    def _tell_nonfinite(self, step: Step, seen: tuple[Slots, FloatArray]) -> None:
        observations = list(zip(*seen, strict=True))
        loss = (Slot("", "", Stage.LOSS), describe(step.loss))
        first = first_nonfinite([*observations, loss])
        if first is None:
            return
        self._scans -= 1
        self.monitor.schedule.alarm(step.number)
        slot, vector = first
        what = "nan" if vector[POSITION[Stat.NAN_COUNT]] > 0 else "inf"
        rows = bad_rows(self._observer.samples(step, slot))
        where = {"stage": slot.stage, "layer": slot.layer, "param": slot.param}
        self.monitor.recorder.event("nonfinite", **where, rows=rows, what=what, step=step.number)

    def _correlate(self, step: Step) -> None:
        """Whether the predictions of a model with one output go with its targets."""
        outputs = self.model.network.outputs
        if len(outputs) == len(step.targets) == 1:
            value = correlation(step.done.values[outputs[0]], step.targets[0])
            if value is not None:
                self.monitor.recorder.scalar(Stage.LOSS, value, param=CORRELATION)

    def held_out(self, figures: Mapping[str, float], epoch: int) -> None:
        """Records an epoch's figures on data that is not trained on."""
        self.catch_up()
        recorder, phase = self.monitor.recorder, Phase.VALIDATION
        outputs = {f"{name}_loss": name for name in self.model.output_names}
        for name, value in figures.items():
            if name == "loss":
                recorder.scalar(Stage.LOSS, value, phase=phase)
            elif name in outputs:
                recorder.scalar(Stage.LOSS, value, param=outputs[name], phase=phase)
            else:
                recorder.scalar(Stage.METRIC, value, param=name, phase=phase)
        self.monitor.end_epoch(max(self.model.steps - 1, 0), epoch)

    def _data(self, inputs: Sequence[Array], targets: Sequence[Array], whole: bool) -> None:
        self._whole = whole
        self._inputs = [self._new_profile(i, len(inputs)) for i in range(len(inputs))]
        self._targets = [self._new_profile(i, len(targets)) for i in range(len(targets))]
        for profile, array in zip(
            (*self._inputs, *self._targets), (*inputs, *targets), strict=True
        ):
            for start in range(0, len(array), CHUNK) if whole else ():
                profile.add(array[start : start + CHUNK])

    def _new_profile(self, index: int, count: int) -> DataProfile:
        plan = self.model.plan
        return DataProfile(str(index) if count > 1 else "", plan.shuffle, plan.source)

    def _profile(self, step: Step) -> None:
        """Takes the facts of a probed step's predictions, and of its data in a plain loop."""
        batches = self._predictions[0].batches if self._predictions else PROFILED
        if batches >= PROFILED:
            return
        outputs = self.model.network.outputs
        for profile, position in zip(self._predictions, outputs, strict=True):
            profile.add(step.done.values[position])
        if not self._whole:
            for profile, array in zip(
                (*self._inputs, *self._targets), (*step.inputs, *step.targets), strict=True
            ):
                profile.add(array)
        if batches + 1 in REVISE_AT:
            self._revise()

    def _revise(self) -> None:
        self.monitor.recorder.replace_program(self._program())

    def _program(self) -> Program:
        found = program(
            self.model,
            self._specs(self._inputs),
            self._specs(self._targets),
            weighted=self._weighted,
        )
        predictions = [profile.spec() for profile in self._predictions]
        losses = []
        for loss, one, seen in zip(self.model.losses, found.losses, predictions, strict=True):
            target, shape = one.target_shape, seen.batch_shape or one.prediction_shape
            if loss.aligns and target is not None and shape is not None:
                samples = target[:1] if shape[0] < 0 else shape[:1]  # of batches of unknown size
                target, shape = aligned(target, (*samples, *shape[1:]))
            losses.append(
                dataclasses.replace(
                    one, prediction=seen, target_shape=target, prediction_shape=shape
                )
            )
        return dataclasses.replace(found, losses=tuple(losses))

    def _specs(self, profiles: Sequence[DataProfile]) -> list[DataSpec]:
        specs, size = [profile.spec(complete=self._whole) for profile in profiles], 0
        size = self.model.plan.batch_size or 0
        if not self._whole or not size:
            return specs
        return [  # the array was looked at in chunks, which are not its batches
            dataclasses.replace(
                spec,
                batch_shape=(size, *(spec.shape or ())),
                batches_seen=-(-spec.rows_seen // size),
            )
            for spec in specs
        ]


def aligned(target: Shape, prediction: Shape) -> tuple[Shape, Shape]:
    """The shapes that a loss compares, after it has made the ranks equal.

    >>> aligned((32,), (32, 1))
    ((32, 1), (32, 1))
    """
    zero = np.zeros(())
    pair = same_rank(np.broadcast_to(zero, target), np.broadcast_to(zero, prediction))
    return pair[0].shape, pair[1].shape


def _size(step: Step) -> int:
    """Bytes of what the network computed."""
    return sum(values.nbytes for values in step.done.values)


def _finite(step: Step) -> bool:
    """Whether loss and gradients are finite: one pass over the gradients."""
    total = step.loss
    for gradient in step.gradients.values():
        total += float(np.add.reduce(gradient, axis=None))
    return math.isfinite(total)
