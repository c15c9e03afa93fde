"""A fit of a Keras script as a program of the engine: for `stethoscope translate`."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, Protocol

import keras
import numpy as np
from keras.src.trainers.data_adapters import data_adapter_utils
from keras.src.trainers.epoch_iterator import EpochIterator

from stethoscope.diagnosis import locate
from stethoscope.engine.layers._base import Array
from stethoscope.engine.model import Model
from stethoscope.engine.step import Batch
from stethoscope.engine.translate import TranslationError
from stethoscope.engine.translate.write import Training
from stethoscope.keras.engine_fits import EngineFit, drawn, pass_over
from stethoscope.keras.sources import Recorded, replaced
from stethoscope.types import SourceRef

NONE = -1  # in an order: the batch is smaller
MOST_BYTES = 2**30  # of batches that a generator gives: more is no file that anybody wants


class Taker(Protocol):
    """Wants one `fit` of the script."""

    def called(self) -> bool:
        """A `fit` begins; True if it is the one."""

    def take(self, model: Model, training: Training, source: SourceRef | None) -> NoReturn:
        """Takes the `fit`, translated, and ends the script."""

    def refuse(self, reason: str, source: SourceRef | None) -> NoReturn:
        """Takes the reason why it cannot be translated, and ends the script."""


def install(taker: Taker) -> Callable[[], None]:
    """Hands out a `fit` in place of running it; those before it run in Keras.

    Returns:
        What takes everything back; call it also after an exception.
    """
    recorded = Recorded()
    recorded.start()
    owner = next(kind for kind in keras.Model.__mro__ if "fit" in vars(kind))
    undo = replaced(owner, "fit", functools.partial(_wrapped, taker, recorded))

    def uninstall() -> None:
        undo()
        recorded.stop()

    return uninstall


def _wrapped(taker: Taker, recorded: Recorded, original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def fit(*args: Any, **kwargs: Any) -> Any:
        if not taker.called():
            return original(*args, **kwargs)
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        try:
            if given.arguments["y"] is None and isinstance(given.arguments["x"], np.ndarray):
                raise TranslationError("fit cannot be translated: it is given no targets y.")
            one = EngineFit(given.arguments["self"], given.arguments, recorded)
            whole = training(one, given.arguments)
        except TranslationError as error:
            taker.refuse(str(error), locate.here())
        return taker.take(one.model, whole, one.plan.source)

    return fit


def training(fit: EngineFit, given: Mapping[str, Any]) -> Training:
    """What a fit trains on, with the samples of each batch as Keras draws them.

    Args:
        fit: The fit, translated.
        given: Its arguments.

    Raises:
        TranslationError: There are no targets, or weights for each output, or a generator gives
            more than can be kept.
    """
    held_out = held_out_weight = None
    if fit.held_out is not None:
        held_x, held_y, factors = fit.held_out
        held_out = (_plain(held_x), _plain(held_y))
        held_out_weight = None if factors is None else _plain([factors])[0]
    rest = Training([], [], int(given["epochs"]), None, None, None, held_out, held_out_weight)
    iterator = fit.drawing()
    if type(iterator.data_adapter).__name__ != "ArrayDataAdapter":
        return _kept(fit.drawn, iterator, rest)
    x, y, weight = fit.data
    if given["class_weight"] is not None:
        weight = data_adapter_utils.class_weight_to_sample_weights(y, given["class_weight"])
    inputs, targets, weight = fit.whole((x, y, weight))
    order, inputs = None, _plain(inputs)
    if given["shuffle"] is not False or given["steps_per_epoch"] is not None:
        numbered = fit.batches(np.arange(len(inputs[0])))
        rows = []
        for _ in range(rest.epochs):
            rows.append([_rows(data) for data in drawn(numbered)])
            if fit.held_out is not None:
                pass_over(fit.held_out, fit.plan.batch_size)
        order = _padded(rows)
    shuffled = bool(given["shuffle"])
    return dataclasses.replace(
        rest,
        inputs=inputs,
        targets=_plain(targets),
        batch_size=fit.plan.batch_size,
        order=order,
        drawn_anew=shuffled and keras.backend.backend() == "tensorflow",
        weight=None if weight is None else _plain([weight])[0],
    )


def _rows(data: Any) -> Array:
    """What a batch has of the numbers that stand for samples."""
    return np.asarray(keras.utils.unpack_x_y_sample_weight(data)[0])


def _kept(
    draw: Callable[[Any], Iterable[Batch]], iterator: EpochIterator, rest: Training
) -> Training:
    """All batches of all epochs, one after the other."""
    rows: list[list[Array]] = []
    batches, total, size = [], 0, 0
    for _ in range(rest.epochs):
        rows.append([])
        for batch in draw(iterator):
            count = len(batch.inputs[0])
            rows[-1].append(np.arange(total, total + count))
            batches.append(batch)
            total += count
            size += sum(array.nbytes for array in (*batch.inputs, *batch.targets))
            if size > MOST_BYTES:
                raise TranslationError(
                    "fit cannot be translated: its data are no arrays, and all batches of all "
                    f"epochs are over {MOST_BYTES >> 20} MiB; give it arrays, or fewer epochs."
                )
    if not batches or not batches[0].targets:
        raise TranslationError("fit cannot be translated: it is given no batches with targets.")
    weighted = batches[0].weight is not None
    return dataclasses.replace(
        rest,
        inputs=[np.concatenate(parts) for parts in zip(*(b.inputs for b in batches), strict=True)],
        targets=[
            np.concatenate(parts) for parts in zip(*(b.targets for b in batches), strict=True)
        ],
        weight=np.concatenate([b.weight for b in batches]) if weighted else None,
        order=_padded(rows),
    )


def _padded(rows: list[list[Array]]) -> Array:
    """[epoch, step, sample], with `NONE` where a batch or an epoch is smaller."""
    steps = max(len(epoch) for epoch in rows)
    size = max(len(batch) for epoch in rows for batch in epoch)
    order = np.full((len(rows), steps, size), NONE, np.int32)
    for i, epoch in enumerate(rows):
        for j, batch in enumerate(epoch):
            order[i, j, : len(batch)] = batch
    return order


def _plain(arrays: list[Array]) -> list[Array]:
    """Arrays in the precision in which Keras hands them out."""
    floats = np.dtype(keras.config.floatx())
    return [a.astype(floats) if np.issubdtype(a.dtype, np.floating) else a for a in arrays]
