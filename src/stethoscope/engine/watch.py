"""Watching an engine model: every stage of every probed step goes to the recorder.

Nothing has to be hooked: the engine hands out each `Step` with all its values.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stethoscope import config
from stethoscope.array_stats import Tensor, describe_many
from stethoscope.data import DataProfile
from stethoscope.engine.describe import program
from stethoscope.engine.layers._base import Array
from stethoscope.engine.training import Step, Trainable, everywhere
from stethoscope.monitor import FaultyTrainingError, Monitor, Session
from stethoscope.nonfinite import bad_rows, first_nonfinite
from stethoscope.program import DataSpec
from stethoscope.scope import Scope
from stethoscope.stats import POSITION, FloatArray
from stethoscope.types import Phase, Slot, Stage, Stat
from stethoscope.vocabulary import ACTIVATIONS

LEARNING_RATE = "learning_rate"
CHUNK = 4096  # rows that are looked at together
MAX_SCANS = 3  # per run: what is non-finite once stays so


class Watch:
    """Records the models that train, one run each; a `model.Listener`.

    Args:
        session: What the reports go to.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._runs: dict[Trainable, Monitor] = {}
        self._scans: dict[Trainable, int] = {}
        self._active = True

    def begin(self, model: Trainable, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Opens a run for a model; a second fit continues it."""
        self._guarded(lambda: self._begin(model, inputs, targets))

    def step(self, model: Trainable, step: Step) -> bool:
        """Records a step; True when the settings ask to stop.

        Raises:
            FaultyTrainingError: with `on_error="raise"`.
        """
        if model not in self._runs:
            self.begin(model, step.inputs, step.targets)
        monitor = self._runs.get(model)
        if monitor is None or not self._active:
            return False
        begun = time.perf_counter()
        self._guarded(lambda: self._record(model, monitor, step))
        monitor.spent(time.perf_counter() - begun)
        monitor.end_step(step.number, step.epoch, step.batch)
        return monitor.should_stop

    def epoch(self, model: Trainable, epoch: int, held_out: Mapping[str, float]) -> None:
        """Records the figures on held-out data."""
        monitor = self._runs.get(model)
        if monitor is None or not held_out or not self._active:
            return
        recorder, phase = monitor.recorder, Phase.VALIDATION
        for name, value in held_out.items():
            if name == "loss":
                recorder.scalar(Stage.LOSS, value, phase=phase)
            else:
                recorder.scalar(Stage.METRIC, value, param=name, phase=phase)
        monitor.end_epoch(max(model.steps - 1, 0), epoch)

    def _guarded(self, work: Callable[[], None]) -> None:
        """Runs code of ours: its failure is told and ends the watching, not the training."""
        if not self._active:
            return
        try:
            work()
        except FaultyTrainingError:
            raise
        except Exception as error:
            self._active = False
            text = f"watching stopped: {type(error).__name__}: {error}"
            self.session.notes.append(text)
            self.session.tell(f"{text}; the training goes on.")

    def _begin(self, model: Trainable, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        found = program(model, _facts(inputs, model), _facts(targets, model))
        monitor = self._runs.get(model)
        if monitor is None:
            self._runs[model] = self.session.open(found)
            self._scans[model] = MAX_SCANS
        else:
            changes = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
            monitor.recorder.revise(**changes)

    def _record(self, model: Trainable, monitor: Monitor, step: Step) -> None:
        recorder = monitor.recorder
        recorder.scalar(Stage.HYPER, step.rate, param=LEARNING_RATE)
        for name, value in step.metrics.items():
            recorder.scalar(Stage.METRIC, value, param=name)
        if len(step.losses) > 1:
            for i, value in enumerate(step.losses):
                recorder.scalar(Stage.LOSS, value, param=str(i))
        recorder.scalar(Stage.LOSS, step.loss)
        probed = monitor.schedule.probe(step.number)
        suspect = self._scans[model] > 0 and not _finite(step)
        if not probed and not suspect:
            return
        seen = observations(model, step)
        if probed:
            for slot, vector in seen:
                if not slot.stage.is_scalar:
                    recorder.observe(slot, vector)
        first = first_nonfinite(seen) if self._scans[model] > 0 else None
        if first is None:
            return
        self._scans[model] -= 1
        slot, vector = first
        what = "nan" if vector[POSITION[Stat.NAN_COUNT]] > 0 else "inf"
        rows = bad_rows(_array(model, step, slot))
        where = {"stage": slot.stage, "layer": slot.layer, "param": slot.param}
        recorder.event("nonfinite", **where, rows=rows, what=what, step=step.number)
        monitor.schedule.alarm(step.number)


def observations(model: Trainable, step: Step) -> list[tuple[Slot, FloatArray]]:
    """The statistics of every stage of a step, in the order in which it computed them."""
    network, done = model.network, step.done
    first = len(network.inputs)
    seen = [(Slot("", str(i), Stage.INPUT), Tensor(x)) for i, x in enumerate(step.inputs)]
    seen += [(Slot("", str(i), Stage.TARGET), Tensor(y)) for i, y in enumerate(step.targets)]
    for index, node in enumerate(network.nodes):
        axis, activation = node.layer.unit_axis, node.layer.activation
        if activation is not None and activation.name != "linear":
            before = Tensor(done.before[index], _saturation(activation.name), axis)
            seen.append((Slot(node.path, "", Stage.PRE_ACTIVATION), before))
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


@functools.cache
def _saturation(activation: str) -> tuple[float, float] | None:
    facts = ACTIVATIONS.get(activation)
    return facts.saturation if facts and np.isfinite(facts.saturation).any() else None


def _array(model: Trainable, step: Step, slot: Slot) -> Array:
    """The tensor of a slot whose first axis is the samples; an empty array for any other."""
    network = model.network
    if slot.stage is Stage.INPUT:
        return step.inputs[int(slot.param)]
    if slot.stage is Stage.TARGET:
        return step.targets[int(slot.param)]
    places = {node.path: i for i, node in enumerate(network.nodes)}
    if slot.stage is Stage.PRE_ACTIVATION:
        return step.done.before[places[slot.layer]]
    if slot.stage is Stage.OUTPUT:
        return step.done.values[len(network.inputs) + places[slot.layer]]
    return np.empty(0)


def _finite(step: Step) -> bool:
    """Whether loss, gradients and new weights are finite: one pass over the gradients."""
    total = step.loss
    for gradient in step.gradients.values():
        flat = gradient.reshape(-1)
        total += float(np.abs(flat).sum())
    return bool(np.isfinite(total))


def _facts(arrays: Sequence[Array], model: Trainable) -> list[DataSpec]:
    """Facts of whole data sets."""
    found, size = [], model.plan.batch_size
    for i, array in enumerate(arrays):
        name = str(i) if len(arrays) > 1 else ""
        profile = DataProfile(name, model.plan.shuffle, model.plan.source)
        for start in range(0, len(array), CHUNK):
            profile.add(array[start : start + CHUNK])
        spec = profile.spec(complete=True)
        if size:
            batches = -(-len(array) // size)
            shape = (size, *array.shape[1:])
            spec = dataclasses.replace(spec, batch_shape=shape, batches_seen=batches)
        found.append(spec)
    return found


def watch(model: Trainable, **settings: Any) -> Scope:
    """Watches the training of one model.

    Args:
        model: What is to be trained.
        **settings: Fields of `stethoscope.config.Config`.

    Returns:
        A context manager whose `report` holds the verdict.

    Raises:
        ConfigError: A setting is unknown or cannot have its value.
    """
    found = config.load(settings)
    if found.disable:
        return Scope(None, _nothing, _nothing, owned=False, framework="numpy")
    session = Session(found)
    listener = Watch(session)
    scope = Scope(
        session,
        lambda: model.listeners.append(listener),
        lambda: model.listeners.remove(listener),
        owned=True,
        framework="numpy",
    )
    scope.resume()
    return scope


def install(session: Session) -> Callable[[], None]:
    """Watches every model that this process trains. Used by `stethoscope run`.

    Returns:
        A function that takes everything away again.
    """
    if session.config.disable:
        return _nothing
    listener = Watch(session)
    everywhere.append(listener)
    return lambda: everywhere.remove(listener)


def _nothing() -> None:
    """What a scope that is switched off has to do."""
