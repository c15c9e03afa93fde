"""Fits of a Keras script that run in the NumPy engine: for `stethoscope run --engine numpy`.

The model is translated when `fit` is called, trained in the engine on the batches that Keras would
draw, with every stage in view, and gets its weights and the optimizer's state back.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
from keras.src.trainers.epoch_iterator import EpochIterator

from stethoscope.diagnosis import locate
from stethoscope.engine.step import Batch
from stethoscope.engine.training import History
from stethoscope.engine.translate import KerasReader, TranslationError
from stethoscope.engine.watch import watching
from stethoscope.keras import matched
from stethoscope.keras.callback import Stethoscope, callbacks_in
from stethoscope.keras.sources import Recorded
from stethoscope.monitor import Session
from stethoscope.program import FitSpec
from stethoscope.types import Report

PLAIN = {"initial_epoch": 0, "validation_freq": 1, "validation_steps": None}
"""Arguments of `fit` that the engine does not follow, with the values at which they do nothing."""

NOTHING_TO_DO = (keras.callbacks.History, keras.callbacks.ProgbarLogger, Stethoscope)
"""Callbacks without which a fit is the same: what they show is shown all the same."""


def wrapped(
    session: Session, recorded: Recorded, native: Callable[[Any], Any], original: Any
) -> Any:
    """`fit` as it is while a script runs with `--engine numpy`.

    A fit that the engine cannot run trains in Keras; why is said once for each reason.

    Args:
        session: The watched process.
        recorded: The lines that build the models.
        native: Makes of `fit` one that is watched as it trains in Keras.
        original: Keras's `fit`.
    """
    signature = inspect.signature(original)
    in_keras = native(original)
    told: set[str] = set()

    def refused(error: Exception) -> None:
        plain = isinstance(error, TranslationError)
        reason = str(error) if plain else f"fit cannot be run in the engine: {error}"
        if reason not in told:
            told.add(reason)
            session.notes.append(f"{reason} It trains in Keras and is watched there.")
            session.tell(session.notes[-1])

    @functools.wraps(original)
    def fit(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        try:
            training = EngineFit(given.arguments["self"], given.arguments, recorded)
        except Exception as error:  # Keras says itself what is wrong with what it is given
            if not isinstance(error, TranslationError) and not _again(given.arguments):
                raise
            refused(error)
            return in_keras(*args, **kwargs)
        before = _order()
        try:
            return training.run(session)
        except (TypeError, ValueError, IndexError, NotImplementedError) as error:
            if training.model.steps or not _again(given.arguments):
                raise
            refused(error)
        _set_order(before)
        return in_keras(*args, **kwargs)

    return fit


class EngineFit:
    """One `fit`, translated.

    Args:
        model: The compiled Keras model.
        given: Every argument of `fit`.
        recorded: The lines that built the model.

    Attributes:
        model: Of the engine.
        plan: How it goes.
        data: Inputs, targets and sample weights, as the user gave them.
        held_out: Inputs, targets and sample weights of the held-out data, or None.
        callbacks: What the user gave.

    Raises:
        TranslationError: The model or the fit cannot be run in the engine.
    """

    def __init__(self, model: Any, given: Mapping[str, Any], recorded: Recorded) -> None:
        for name, value in PLAIN.items():
            if name in given and given[name] is not None and given[name] != value:
                raise TranslationError(f"fit cannot be run in the engine: it is given {name}.")
        self.callbacks = callbacks_in(given.get("callbacks"))
        acting = [one for one in self.callbacks if not isinstance(one, NOTHING_TO_DO)]
        if acting:
            kinds = ", ".join(dict.fromkeys(type(one).__name__ for one in acting))
            raise TranslationError(
                f"fit cannot be run in the engine: it is given callbacks ({kinds})."
            )
        self._keras = model
        self._given = given
        self._reader = KerasReader(model, recorded.lines, "float32")
        if model.built:  # what cannot be translated has touched no data
            self.model = self._reader.read()
        elif isinstance(given["x"], Iterator):
            raise TranslationError(
                "fit cannot be run in the engine: a generator is gone through once, and the model"
                " has to be built before; start it with keras.Input."
            )
        self.data, held_out = _split(given)
        self._iterator = self.batches()
        # as fit does, which draws an order for it: all later ones depend on that
        built = model.built
        model._symbolic_build(iterator=self._iterator)
        self._iterator.reset()
        if not built:
            self.model = self._reader.read()
        self.model.compile_source = recorded.compiled.get(id(model))
        if type(self._iterator.data_adapter).__name__ == "ArrayDataAdapter":
            self.whole(self.data)  # what does not fit is known before a step is made
        self.held_out = None if held_out is None else matched.held_out(model, held_out)
        self._shadow = KerasReader(model, recorded.lines, "float64").read()
        self._shadow.watched = False
        self.plan = FitSpec(
            epochs=given["epochs"],
            batch_size=self._iterator.data_adapter.batch_size,
            steps_per_epoch=self._iterator.num_batches,
            shuffle=bool(given["shuffle"]),
            validation=self.held_out is not None,
            source=locate.here(),
        )

    def run(self, session: Session) -> Any:
        """Trains in the engine and hands the result to the Keras model; returns a History."""
        own = [one for one in self.callbacks if isinstance(one, Stethoscope)]
        for one in own:
            one.follow(self._report, self._report)
        before = _order()
        try:
            trained = self._train(self.model, verbose=self._given["verbose"])
        finally:
            for one in own:
                one.end()
        self._reader.give_back(self.model)
        losses = trained.history.get("loss", [])
        finite = all(map(math.isfinite, losses))
        if not (self.model.stopped or finite or self._once):
            after = _order()
            _set_order(before)
            self._compare(session)
            _set_order(after)
        return self._history(trained, len(losses))

    def _report(self) -> Report | None:
        watch = watching(self.model)
        return watch.report(self.model) if watch is not None else None

    def _history(self, trained: History, epochs: int) -> Any:
        """What Keras returns, or the callback of the user that it would return."""
        given = [one for one in self.callbacks if isinstance(one, keras.callbacks.History)]
        history = given[-1] if given else keras.callbacks.History()
        history.set_model(self._keras)
        history.set_params(
            {
                "verbose": self._given["verbose"],
                "epochs": self._given["epochs"],
                "steps": self.plan.steps_per_epoch,
            }
        )
        self._keras.history = history
        history.on_train_begin()
        for epoch in range(epochs):
            figures = {self._name(k): values[epoch] for k, values in trained.history.items()}
            history.on_epoch_end(epoch, figures)
        return history

    def _name(self, figure: str) -> str:
        """Keras's name of a figure: of several outputs, a metric's begins with its output's."""
        names, plain = self.model.output_names, figure.removeprefix("val_")
        if not names or plain in ("loss", *(f"{name}_loss" for name in names)):
            return figure
        return f"{figure.removesuffix(plain)}{names[0]}_{plain}"

    def _compare(self, session: Session) -> None:
        """Trains once more in float64: what disappears there is a matter of precision."""
        losses = self._train(self._shadow, verbose=0).history.get("loss", [])
        if losses and math.isfinite(losses[-1]):
            text = (
                f"In float64 the same training stays finite (loss {losses[-1]:.4g} at its end): it "
                "is the range or the precision of float32 that fails."
            )
        else:
            text = "In float64 the training becomes non-finite too: precision is not the cause."
        session.notes.append(text)
        session.tell(text)

    def _train(self, model: Any, verbose: Any) -> History:
        data = None
        x, y = self.data[:2]
        if all(isinstance(part, np.ndarray) for part in (x, y)):
            data = ([x], [y])

        def held_out() -> dict[str, float]:
            if self.held_out is None:
                return {}
            pass_over(self.held_out, self.plan.batch_size)
            figures: dict[str, float] = model.evaluate(
                *self.held_out[:2],
                batch_size=self.plan.batch_size or 32,
                sample_weight=self.held_out[2],
            )
            return figures

        iterator = self.drawing()
        trained: History = model.fit_batches(
            functools.partial(self.drawn, iterator),
            self.plan,
            data=data,
            held_out=held_out,
            verbose=int(verbose not in (0, "0")),
        )
        return trained

    def whole(self, data: tuple[Any, ...]) -> Batch:
        """Data as `fit` takes them, as those of the model's inputs and outputs."""
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
        model = self._keras
        return Batch(matched.inputs(model, x), matched.targets(model, y), matched.weight(weight))

    def drawn(self, iterator: EpochIterator) -> Iterator[Batch]:
        """The batches of one epoch as Keras draws them."""
        return map(self.whole, drawn(iterator))

    @property
    def _once(self) -> bool:
        """Whether the data can be gone through once only: a generator's."""
        return type(self._iterator.data_adapter).__name__ == "GeneratorDataAdapter"

    def drawing(self) -> EpochIterator:
        """What the training draws from: a generator that was looked at goes on from there."""
        return self._iterator if self._once else self.batches()

    def batches(self, numbers: Any = None) -> EpochIterator:
        """What draws the batches; of `numbers` alone, when they are to stand for the samples."""
        x, y, weight = self.data
        given = self._given
        plain = numbers is not None
        iterator: EpochIterator = _iterator_kind()(
            x=numbers if plain else x,
            y=None if plain else y,
            sample_weight=None if plain else weight,
            batch_size=given["batch_size"],
            steps_per_epoch=given["steps_per_epoch"],
            shuffle=given["shuffle"],
            class_weight=None if plain else given["class_weight"],
        )
        return iterator


def pass_over(held_out: tuple[Any, ...], size: int | None) -> None:
    """Reads held-out data as an evaluation of Keras on PyTorch does, which draws a number."""
    if keras.backend.backend() != "torch":
        return
    for _ in drawn(_iterator_kind()(x=held_out[0], y=held_out[1], batch_size=size)):
        pass


def _again(given: Mapping[str, Any]) -> bool:
    """Whether the data can be gone through once more: a generator cannot."""
    return all(isinstance(given[name], np.ndarray) for name in ("x", "y"))


def _order() -> tuple[Any, Any]:
    """What the order of samples is drawn from, on NumPy's backends and on PyTorch's."""
    if keras.backend.backend() != "torch":
        return np.random.get_state(), None
    import torch

    return np.random.get_state(), torch.get_rng_state()


def _set_order(state: tuple[Any, Any]) -> None:
    np.random.set_state(state[0])
    if state[1] is not None:
        import torch

        torch.set_rng_state(state[1])


def _iterator_kind() -> Any:
    """What draws batches as this backend does; the order of TensorFlow's own is not known."""
    if keras.backend.backend() == "torch":
        from keras.src.backend.torch.trainer import TorchEpochIterator

        return TorchEpochIterator
    return EpochIterator


def drawn(iterator: EpochIterator) -> Iterator[tuple[Any, ...]]:
    """What an iterator of Keras gives for one epoch."""
    for _, _, several in iterator:
        yield from several


def _split(given: Mapping[str, Any]) -> tuple[tuple[Any, Any, Any], tuple[Any, ...] | None]:
    """The training data and the held-out data, after `validation_split`."""
    data = (given["x"], given["y"], given["sample_weight"])
    held_out = given["validation_data"]
    if given["validation_split"] and held_out is None:
        from keras.src.trainers.data_adapters import array_slicing

        data, held_out = array_slicing.train_validation_split(
            data, validation_split=given["validation_split"]
        )
    return data, held_out
