"""One watched run of an engine model: what of each step goes to the recorder."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from stethoscope.agreement import CORRELATION, correlation
from stethoscope.array_stats import Tensor, describe_many
from stethoscope.data import DataProfile
from stethoscope.engine.describe import applied, program
from stethoscope.engine.layers._base import Array, Shape
from stethoscope.engine.losses._base import same_rank
from stethoscope.engine.network import Network, Pass
from stethoscope.engine.training import Step, Trainable
from stethoscope.monitor import Monitor, Session
from stethoscope.nonfinite import bad_rows, first_nonfinite
from stethoscope.program import DataSpec, Program
from stethoscope.stats import POSITION, FloatArray
from stethoscope.types import Phase, Slot, Stage, Stat
from stethoscope.vocabulary import ACTIVATIONS, LayerKind

LEARNING_RATE = "learning_rate"
CHUNK = 4096  # rows that are looked at together
MAX_SCANS = 3  # per run: what is non-finite once stays so
REVISE_AT = frozenset({1, 2, 5, 10, 20, 40})  # batches looked at: each revision is stored
PROFILED = max(REVISE_AT)


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
        self.model = model
        self._scans = MAX_SCANS
        self._predictions = [DataProfile() for _ in model.losses]
        self._data(inputs, targets, whole)
        self.monitor: Monitor = session.open(self._program())

    def goes_on(self, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Another `fit` of the same model."""
        self._data(inputs, targets, whole=True)
        self._revise()

    def record(self, step: Step) -> None:
        """Hands a step's numbers to the recorder; tensors when the schedule says so."""
        recorder, schedule = self.monitor.recorder, self.monitor.schedule
        recorder.scalar(Stage.HYPER, step.rate, param=LEARNING_RATE)
        for name, value in step.metrics.items():
            recorder.scalar(Stage.METRIC, value, param=name)
        if len(step.losses) > 1:
            for i, value in enumerate(step.losses):
                recorder.scalar(Stage.LOSS, value, param=str(i))
        recorder.scalar(Stage.LOSS, step.loss)
        probed = schedule.probe(step.number)
        if not probed and (self._scans == 0 or _finite(step)):
            return
        seen = observations(self.model, step)
        if probed:
            self._profile(step)
            self._correlate(step)
            for slot, vector in seen:
                if not slot.stage.is_scalar:
                    recorder.observe(slot, vector)
        first = first_nonfinite(seen) if self._scans > 0 else None
        if first is not None:
            self._scans -= 1
            schedule.alarm(step.number)
            slot, vector = first
            what = "nan" if vector[POSITION[Stat.NAN_COUNT]] > 0 else "inf"
            rows = bad_rows(_samples(self.model, step, slot))
            where = {"stage": slot.stage, "layer": slot.layer, "param": slot.param}
            recorder.event("nonfinite", **where, rows=rows, what=what, step=step.number)

    def _correlate(self, step: Step) -> None:
        """Whether the predictions of a model with one output go with its targets."""
        outputs = self.model.network.outputs
        if len(outputs) == len(step.targets) == 1:
            value = correlation(step.done.values[outputs[0]], step.targets[0])
            if value is not None:
                self.monitor.recorder.scalar(Stage.LOSS, value, param=CORRELATION)

    def held_out(self, figures: Mapping[str, float], epoch: int) -> None:
        """Records an epoch's figures on data that is not trained on."""
        recorder, phase = self.monitor.recorder, Phase.VALIDATION
        for name, value in figures.items():
            if name == "loss":
                recorder.scalar(Stage.LOSS, value, phase=phase)
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
        found = self._program()
        changes = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
        self.monitor.recorder.revise(**changes)

    def _program(self) -> Program:
        found = program(self.model, self._specs(self._inputs), self._specs(self._targets))
        predictions = [profile.spec() for profile in self._predictions]
        losses = []
        for loss, one, seen in zip(self.model.losses, found.losses, predictions, strict=True):
            target, shape = one.target_shape, seen.batch_shape or one.prediction_shape
            if loss.aligns and target is not None and shape is not None:
                target, shape = aligned(target, shape)
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


def observations(model: Trainable, step: Step) -> list[tuple[Slot, FloatArray]]:
    """The statistics of every stage of a step, in the order in which it computed them."""
    network, done = model.network, step.done
    first = len(network.inputs)
    seen = [(Slot("", str(i), Stage.INPUT), Tensor(x)) for i, x in enumerate(step.inputs)]
    seen += [(Slot("", str(i), Stage.TARGET), Tensor(y)) for i, y in enumerate(step.targets)]
    for index, node in enumerate(network.nodes):
        axis, before = node.layer.unit_axis, _before(network, done, index)
        if before is not None:
            saturation = _saturation(applied(node.layer) or "")
            seen.append(
                (Slot(node.path, "", Stage.PRE_ACTIVATION), Tensor(before, saturation, axis))
            )
        after = Tensor(done.values[first + index], None, axis)
        seen.append((Slot(node.path, "", Stage.OUTPUT), after))
    seen.append((Slot("", "", Stage.LOSS), Tensor(np.asarray(step.loss))))
    for index in range(len(network.nodes) - 1, -1, -1):
        gradient = done.gradients[first + index]
        if gradient is not None:
            path = network.nodes[index].path
            seen.append((Slot(path, "", Stage.OUTPUT_GRAD), Tensor(gradient)))
    for name, old in step.before.items():
        layer, param = name.rsplit("/", 1)
        seen.append((Slot(layer, param, Stage.WEIGHT_GRAD), Tensor(step.gradients[name])))
        seen.append((Slot(layer, param, Stage.WEIGHT), Tensor(old)))
        seen.append((Slot(layer, param, Stage.UPDATE), Tensor(network.weights[name] - old)))
    slots, tensors = zip(*seen, strict=True)
    return list(zip(slots, describe_many(tensors), strict=True))


def aligned(target: Shape, prediction: Shape) -> tuple[Shape, Shape]:
    """The shapes that a loss compares, after it has made the ranks equal.

    >>> aligned((32,), (32, 1))
    ((32, 1), (32, 1))
    """
    zero = np.zeros(())
    pair = same_rank(np.broadcast_to(zero, target), np.broadcast_to(zero, prediction))
    return pair[0].shape, pair[1].shape


def _before(network: Network, done: Pass, index: int) -> Array | None:
    """What the activation of a node is applied to; None where there is nothing to tell apart."""
    node = network.nodes[index]
    if node.layer.kind is LayerKind.ACTIVATION:  # also one that has weights, as PReLU
        return done.values[node.inputs[0]]
    activation = node.layer.activation
    return None if activation is None or activation.name == "linear" else done.before[index]


@functools.cache
def _saturation(activation: str) -> tuple[float, float] | None:
    facts = ACTIVATIONS.get(activation)
    return facts.saturation if facts and np.isfinite(facts.saturation).any() else None


def _samples(model: Trainable, step: Step, slot: Slot) -> Array:
    """The tensor of a slot whose first axis is the samples; an empty array for any other."""
    network = model.network
    if slot.stage is Stage.INPUT:
        return step.inputs[int(slot.param)]
    if slot.stage is Stage.TARGET:
        return step.targets[int(slot.param)]
    places = {node.path: i for i, node in enumerate(network.nodes)}
    if slot.stage is Stage.PRE_ACTIVATION:
        before = _before(network, step.done, places[slot.layer])
        return np.empty(0) if before is None else before
    if slot.stage is Stage.OUTPUT:
        return step.done.values[len(network.inputs) + places[slot.layer]]
    return np.empty(0)


def _finite(step: Step) -> bool:
    """Whether loss and gradients are finite: one pass over the gradients."""
    total = step.loss
    for gradient in step.gradients.values():
        total += float(np.abs(gradient).sum())
    return bool(np.isfinite(total))
