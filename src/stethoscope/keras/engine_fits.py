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
from stethoscope.keras.sources import Recorded, replaced
from stethoscope.monitor import Session
from stethoscope.program import FitSpec

PLAIN = {"callbacks": None, "initial_epoch": 0, "validation_freq": 1, "validation_steps": None}
"""Arguments of `fit` that the engine does not follow, with the values at which they do nothing."""


def install(session: Session) -> Callable[[], None]:
    """Runs every `fit` from now on in the engine.

    A model or a fit that cannot be translated is named, with its line, and trains in Keras, not
    watched.

    Args:
        session: The watched process.

    Returns:
        What takes everything back; call it also after an exception.
    """
    if session.config.disable:
        return lambda: None
    recorded = Recorded()
    recorded.start()
    owner = next(kind for kind in keras.Model.__mro__ if "fit" in vars(kind))
    undo = replaced(owner, "fit", functools.partial(_wrapped, session, recorded))

    def uninstall() -> None:
        undo()
        recorded.stop()

    return uninstall


def _wrapped(session: Session, recorded: Recorded, original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def fit(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        model = given.arguments["self"]
        try:
            training = EngineFit(model, given.arguments, recorded)
        except TranslationError as error:
            session.notes.append(f"{error} This fit was not run in the engine and is not watched.")
            session.tell(session.notes[-1])
            return original(*args, **kwargs)
        return training.run(session)

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
        held_out: The same of the held-out data, or None.

    Raises:
        TranslationError: The model or the fit cannot be run in the engine.
    """

    def __init__(self, model: Any, given: Mapping[str, Any], recorded: Recorded) -> None:
        for name, value in PLAIN.items():
            if name in given and given[name] is not None and given[name] != value:
                raise TranslationError(f"fit cannot be run in the engine: it is given {name}.")
        self._keras = model
        self._given = given
        self.data, self.held_out = _split(given)
        self._iterator = self.batches()
        # as fit does, which draws an order for it: all later ones depend on that
        model._symbolic_build(iterator=self._iterator)
        self._iterator.reset()
        self._reader = KerasReader(model, recorded.lines, "float32")
        self.model = self._reader.read()
        self.model.compile_source = recorded.compiled.get(id(model))
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
        before = _order()
        trained = self._train(self.model, verbose=self._given["verbose"])
        self._reader.give_back(self.model)
        losses = trained.history.get("loss", [])
        if not losses or not math.isfinite(losses[-1]):
            after = _order()
            _set_order(before)
            self._compare(session)
            _set_order(after)
        history = keras.callbacks.History()
        history.set_model(self._keras)
        history.history = trained.history
        history.epoch = list(range(len(losses)))
        self._keras.history = history
        return history

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
                sample_weight=self.held_out[2] if len(self.held_out) > 2 else None,
            )
            return figures

        iterator = self.batches()
        trained: History = model.fit_batches(
            functools.partial(drawn, iterator),
            self.plan,
            data=data,
            held_out=held_out,
            verbose=int(verbose not in (0, "0")),
        )
        return trained

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


def drawn(iterator: EpochIterator) -> Iterator[Batch]:
    """The batches of one epoch as Keras draws them."""
    for _, _, several in iterator:
        for data in several:
            x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
            yield Batch(flat(x), flat(y), None if weight is None else np.asarray(weight))


def flat(data: Any) -> list[Any]:
    """All arrays of a structure, in Keras's order."""
    return [np.asarray(part) for part in keras.tree.flatten(data) if part is not None]


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
