"""Training: compile, fit, evaluate and predict, and what a step hands out to be looked at."""

from __future__ import annotations

import abc
import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stethoscope.diagnosis import locate
from stethoscope.engine import losses as loss_functions
from stethoscope.engine import metrics as metric_functions
from stethoscope.engine import optimizers
from stethoscope.engine.batches import (
    facts_of,
    held_out_rows,
    orders,
    parts_of,
    positive,
    same_rows,
    several,
)
from stethoscope.engine.inspecting import Inspectable
from stethoscope.engine.layers._base import Array, Symbol
from stethoscope.engine.losses import Loss
from stethoscope.engine.metrics import Metric, Running, Totals, Values
from stethoscope.engine.optimizers import Optimizer
from stethoscope.engine.step import Batch, Listener, Step, as_listener, everywhere
from stethoscope.program import FitSpec
from stethoscope.types import SourceRef

Data = npt.ArrayLike | Sequence[npt.ArrayLike]


@dataclasses.dataclass
class History:
    """What `fit` returns: name of a figure ("loss", "accuracy", "val_loss") to one per epoch."""

    history: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    def add(self, figures: Mapping[str, float]) -> None:
        """One epoch's figures."""
        for name, value in figures.items():
            self.history.setdefault(name, []).append(value)


class Trainable(Inspectable):
    """A network with a loss and an optimizer; see `Sequential` and `Model`.

    Attributes:
        listeners: Are shown the training as it runs; a plain function is shown every `Step`.
        steps: How many steps were made.
        stopped: A listener asked to stop: `fit` returns after the step.
        watched: False hides the training from all listeners.
        plan: How the running `fit` is to go.
        compile_source: The `compile` call.
        output_names: Whose losses the history has, too; none of one output.
    """

    def __init__(self) -> None:
        self.listeners: list[Listener | Callable[[Step], object]] = []
        self.steps = 0
        self.stopped = False
        self.watched = True
        self.plan = FitSpec()
        self.compile_source: SourceRef | None = None
        self.optimizer: Optimizer | None = None
        self.losses: list[Loss] = []
        self.output_names: list[str] = []
        self.loss_weights: list[float] = []
        self.metrics: dict[str, Metric] = {}

    @property
    @abc.abstractmethod
    def output_count(self) -> int:
        """How many outputs there are, also before the network is built."""

    def compile(
        self,
        optimizer: str | Optimizer,
        loss: str | Loss | Sequence[str | Loss],
        metrics: str | Metric | Values | Sequence[str | Metric | Values] | None = (),
        loss_weights: Sequence[float] | None = None,
    ) -> None:
        """Says how the model is trained.

        Args:
            optimizer: By name or as an `Optimizer`.
            loss: By name or as a `Loss`: one for every output, or one for each.
            metrics: Of the first output: one, or several.
            loss_weights: Factor of each output's loss; default 1.

        Raises:
            ValueError: There are not as many losses or weights as outputs.
        """
        outputs = self.output_count
        given = [loss] * outputs if isinstance(loss, str | Loss) else list(loss)
        weights = [1.0] * outputs if loss_weights is None else list(loss_weights)
        if not len(given) == len(weights) == outputs:
            raise ValueError(
                f"the model has {outputs} outputs; got {len(given)} losses, {len(weights)} weights."
            )
        self.compile_source = locate.here(sys._getframe(1))
        self.optimizer = optimizers.get(optimizer)
        self.losses = [loss_functions.get(one) for one in given]
        self.loss_weights = weights
        alone = isinstance(metrics, str | Metric) or callable(metrics)
        listed: Any = [metrics] if alone else metrics or ()
        self.metrics = {one.name: one for one in map(metric_functions.get, listed)}

    def fit(
        self,
        x: Data,
        y: Data,
        batch_size: int | None = 32,
        epochs: int = 1,
        verbose: int | str = 0,
        *,
        validation_split: float = 0.0,
        validation_data: tuple[Data, Data] | tuple[Data, Data, npt.ArrayLike | None] | None = None,
        shuffle: bool = True,
        sample_weight: npt.ArrayLike | None = None,
        order: npt.ArrayLike | None = None,
    ) -> History:
        """Trains for a number of epochs.

        Args:
            x: Array with the samples first; a list of them for several inputs.
            y: The targets; a list of them for several outputs.
            batch_size: Samples in one step [32]; the last batch of an epoch may be smaller.
            epochs: How often the data is gone through.
            verbose: 0 prints nothing, anything else a line an epoch.
            validation_split: Share of the samples, the last ones, that is held out.
            validation_data: Held-out (x, y), evaluated after every epoch; a third one is weights.
            shuffle: Draw a new order for every epoch.
            sample_weight: One factor for each sample.
            order: Which samples the batches have, [epoch, step, sample]; -1 in a smaller batch.

        Raises:
            RuntimeError: The model is not compiled.
            ValueError: The arrays do not fit each other or the model.
        """
        self._optimizer()
        batch_size = 32 if batch_size is None else batch_size
        positive(batch_size, "batch_size")
        inputs, targets = self._arrays(x), self._targets(y)
        weight = None if sample_weight is None else np.asarray(sample_weight, self.network.dtype)
        count = same_rows(inputs, targets, weight)
        if validation_split and validation_data is None:
            count = held_out_rows(count, validation_split)
            kept = (inputs, targets, [] if weight is None else [weight])
            last = [[a[count:] for a in arrays] for arrays in kept]
            inputs, targets = [a[:count] for a in inputs], [a[:count] for a in targets]
            weight = None if weight is None else weight[:count]
            single = [part[0] if len(part) == 1 else part for part in last if part]
            validation_data = (single[0], single[1], single[2] if len(single) > 2 else None)
        plan = FitSpec(
            epochs=epochs,
            batch_size=batch_size,
            steps_per_epoch=-(-count // batch_size),
            shuffle=shuffle,
            validation=validation_data is not None,
            source=locate.here(sys._getframe(1)),
        )

        chosen = [] if order is None else orders(order, epochs)
        if chosen:
            plan = dataclasses.replace(plan, **facts_of(chosen))
        given = iter(chosen)

        def drawn() -> Iterable[Array]:
            if order is not None:
                return next(given)
            whole = self.network.rng.permutation(count) if shuffle else np.arange(count)
            return parts_of(whole, batch_size)

        def batches() -> Iterator[Batch]:
            for rows in drawn():
                part = None if weight is None else weight[rows]
                yield Batch([a[rows] for a in inputs], [a[rows] for a in targets], part)

        def held_out() -> dict[str, float]:
            if validation_data is None:
                return {}
            held_x, held_y, *rest = validation_data
            held_weight = rest[0] if rest else None
            return self.evaluate(held_x, held_y, batch_size=batch_size, sample_weight=held_weight)

        return self.fit_batches(
            batches, plan, data=(inputs, targets), held_out=held_out, verbose=verbose, lasting=True
        )

    def fit_batches(
        self,
        batches: Callable[[], Iterable[Batch]],
        plan: FitSpec,
        *,
        data: tuple[Sequence[Array], Sequence[Array]] | None = None,
        held_out: Callable[[], dict[str, float]] = dict,
        verbose: int | str = 0,
        lasting: bool = False,
    ) -> History:
        """Trains on batches that somebody else draws.

        Args:
            batches: Gives the batches of one epoch.
            plan: How often, and what the listeners are told.
            data: All inputs and all targets, for the listeners; None when unknown.
            held_out: Gives the figures on held-out data after an epoch.
            verbose: 0 prints nothing, 1 a line an epoch.
            lasting: Each batch has arrays of its own, which nobody writes into.
        """
        self.plan = plan
        self.stopped = False
        try:
            if data is not None:
                for listener in self._listening():
                    listener.begin(self, *data)
            history = self._epochs(batches, held_out, verbose, lasting)
        except BaseException:
            self._end()  # what the training raised is not replaced by what a listener raises
            raise
        failed = self._end()
        if failed:
            raise failed[0]
        return history

    def _end(self) -> list[Exception]:
        """Tells every listener that a fit is over; what some of them raised."""
        failed: list[Exception] = []
        for listener in self._listening():
            try:
                listener.end(self)
            except Exception as error:
                failed.append(error)
        return failed

    def _epochs(
        self,
        batches: Callable[[], Iterable[Batch]],
        held_out: Callable[[], dict[str, float]],
        verbose: int | str,
        lasting: bool,
    ) -> History:
        epochs, history = 1 if self.plan.epochs is None else self.plan.epochs, History()
        for epoch in range(epochs):
            running = Running(self.metrics, self.output_names)
            for number, batch in enumerate(batches()):
                step = self._train(batch, epoch, number, lasting)
                running.add(step.loss, step.totals, len(batch.inputs[0]), step.losses)
                if self.stopped:
                    history.add(running.figures())
                    return history
            figures, validation = running.figures(), held_out()
            for listener in self._listening():
                listener.epoch(self, epoch, validation)
            figures |= {f"val_{name}": value for name, value in validation.items()}
            history.add(figures)
            if verbose:
                line = " - ".join(f"{name}: {value:.4f}" for name, value in figures.items())
                print(f"epoch {epoch + 1}/{epochs} - {line}")
        return history

    def train_on_batch(self, x: Data, y: Data, *, sample_weight: Array | None = None) -> Step:
        """One optimizer step on one batch; `listeners` are shown it.

        Raises:
            RuntimeError: The model is not compiled.
            ValueError: The arrays do not fit each other or the model.
        """
        self._optimizer()
        weight = None if sample_weight is None else np.asarray(sample_weight)
        batch = Batch(self._arrays(x), self._targets(y), weight)
        same_rows(*batch)
        return self._train(batch, 0, self.steps)

    @np.errstate(all="ignore")  # what overflows is seen by the listeners, not by a warning
    def _train(self, batch: Batch, epoch: int, number: int, lasting: bool = False) -> Step:
        optimizer, network = self._optimizer(), self.network
        inputs, targets, sample_weight = batch
        done = network.forward(inputs, training=True)
        predictions = [done.values[i] for i in network.outputs]
        total, values, flowing = 0.0, [], []
        for loss, factor, target, prediction in zip(
            self.losses, self.loss_weights, targets, predictions, strict=True
        ):
            value, gradient = loss(target, prediction, sample_weight)
            values.append(value)
            total += factor * value
            flowing.append(gradient if factor == 1 else gradient * factor)
        gradients = network.backward(done, flowing)
        total += network.penalty(gradients)
        rate = optimizer.rate
        gradients = {name: gradients[name] for name in network.trained if name in gradients}
        before = {name: network.weights[name] for name in gradients}
        network.weights.update(optimizer.update(network.weights, gradients))
        totals = self._measure(targets[0], predictions[0])
        listening = self._listening()
        step = Step(
            number=self.steps,
            epoch=epoch,
            batch=number,
            inputs=inputs,
            targets=targets,
            done=done,
            loss=total,
            losses=values,
            metrics={name: self.metrics[name].result(*pair) for name, pair in totals.items()},
            totals=totals,
            rate=rate,
            gradients=gradients,
            before=before,
            after={name: network.weights[name] for name in before},
            weighted=sample_weight is not None,
            lasting=lasting and all(listener.only_reads for listener in listening),
        )
        self.steps += 1
        for listener in listening:
            self.stopped |= listener.step(self, step)
        return step

    @np.errstate(all="ignore")
    def evaluate(
        self,
        x: Data,
        y: Data,
        batch_size: int | None = 32,
        *,
        sample_weight: npt.ArrayLike | None = None,
    ) -> dict[str, float]:
        """The loss and the metrics over all samples, without training; the loss is weighted."""
        self._optimizer()
        weight = None if sample_weight is None else np.asarray(sample_weight)
        inputs, targets = self._arrays(x), self._targets(y)  # the inputs first: they build it
        count = same_rows(inputs, targets, weight)
        running = Running(self.metrics, self.output_names)
        penalty = self.network.penalty({})
        for rows in parts_of(np.arange(count), 32 if batch_size is None else batch_size):
            done = self.network.forward([a[rows] for a in inputs])
            parts = [a[rows] for a in targets]
            predictions = [done.values[i] for i in self.network.outputs]
            total, values = penalty, []
            part = None if weight is None else weight[rows]
            for loss, factor, target, prediction in zip(
                self.losses, self.loss_weights, parts, predictions, strict=True
            ):
                values.append(loss(target, prediction, part)[0])
                total += factor * values[-1]
            running.add(total, self._measure(parts[0], predictions[0]), len(rows), values)
        return running.figures()

    @np.errstate(all="ignore")
    def predict(self, x: Data, batch_size: int | None = 32) -> Any:
        """The outputs for all samples: an array, or a list of them for several outputs."""
        inputs = self._arrays(x)
        parts: list[list[Array]] = [[] for _ in self.network.outputs]
        count = same_rows(inputs, [], None)
        for rows in parts_of(np.arange(count), 32 if batch_size is None else batch_size):
            done = self.network.forward([a[rows] for a in inputs])
            for part, position in zip(parts, self.network.outputs, strict=True):
                part.append(done.values[position])
        whole = [np.concatenate(part) for part in parts]
        return whole[0] if len(whole) == 1 else whole

    def __call__(self, x: Data) -> Any:
        """The outputs for one batch, without training; `predict` goes over many samples.

        Raises:
            TypeError: It is part of another model's graph, which only a layer can be.
        """
        if isinstance(x, Symbol):
            raise TypeError("a model is no layer here: apply its layers one by one.")
        return self.predict(x, len(self._arrays(x)[0]))

    def _listening(self) -> list[Listener]:
        return [*map(as_listener, self.listeners), *everywhere] if self.watched else []

    def _optimizer(self) -> Optimizer:
        if self.optimizer is None:
            raise RuntimeError("the model is not compiled; call compile(optimizer, loss) first.")
        return self.optimizer

    def _measure(self, target: Array, prediction: Array) -> dict[str, Totals]:
        return {name: one.totals(target, prediction) for name, one in self.metrics.items()}

    def _arrays(self, x: Data) -> list[Array]:
        return [np.asarray(a) for a in several(x, len(self.network.inputs))]

    def _targets(self, y: Data) -> list[Array]:
        return [np.asarray(a) for a in several(y, len(self.network.outputs))]
