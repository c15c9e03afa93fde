"""Trains each case in Keras and in the engine, on the same batches, and holds the figures together.

Where they differ, Keras is trained once more, from weights moved by one rounding (and, where there
is dropout, with other masks): a difference no larger than that is the program's, not the engine's.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras.src.trainers.epoch_iterator import EpochIterator

from stethoscope.engine.step import Batch
from stethoscope.engine.training import Trainable
from stethoscope.engine.translate import translate
from stethoscope.program import FitSpec
from table3 import data
from table3.build import keras_model
from table3.cases import Case, shown

AGREED = 1e-3  # relative: what the engine promises of 50 steps, here of whole trainings
ALIKE = 0.01  # of accuracies whose losses agree: samples at the very border
SIMILAR = 3  # times the spread of Keras itself, of which there are few samples
ACCURACY = "accuracy"
HEAD = (
    "| program | Keras loss | engine loss | largest difference | Keras against itself "
    "| Keras accuracy | engine accuracy | paper: Keras | paper: its library | remark |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Loss and accuracy of the last epoch; no accuracy (None) when none was asked for."""

    loss: float
    accuracy: float | None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The outcomes of one case, one for each seed.

    Attributes:
        case: The program.
        keras, engine: On the same batches, from the same weights.
        again: Keras once more; empty where the engine agrees.
        undropped: The case without its dropout, where the engine does not agree with it.
    """

    case: Case
    keras: Sequence[Outcome]
    engine: Sequence[Outcome]
    again: Sequence[Outcome]
    undropped: Comparison | None = None

    @property
    def difference(self) -> float:
        """The largest relative difference of a seed's losses, engine to Keras.

        Infinite where losses agree and accuracies do not.
        """
        return _largest(self.keras, self.engine)

    @property
    def spread(self) -> float | None:
        """The same of Keras to Keras; None when that was not needed."""
        return _largest(self.keras, self.again) if self.again else None

    @property
    def remark(self) -> str:
        """Why the figures differ; "" where they do not."""
        if self.difference <= AGREED:
            finite = any(math.isfinite(one.loss) for one in self.keras)
            return "" if finite else "both end in NaN"
        if self.undropped is not None:
            rest = self.undropped.remark and f" ({self.undropped.remark})"
            return f"dropout masks differ; without dropout {self.undropped.difference:.0e}{rest}"
        if self.spread is not None and self.difference <= SIMILAR * self.spread:
            return "rounding grows: Keras differs from itself as much"
        return "not explained"


def compare(case: Case, seeds: Sequence[int]) -> Comparison:
    """Trains one case in both.

    Args:
        case: The program.
        seeds: Of weights and order; one training of each side for each.
    """
    x, y = data.of(case)
    training = KerasTraining(case, x, y)
    outcomes: dict[str, list[Outcome]] = {"keras": [], "engine": []}
    for seed in seeds:
        training.restart(seed)
        translated = translate(training.model)
        outcomes["keras"].append(training.fit(seed))
        outcomes["engine"].append(engine_fit(translated, case, x, y, seed))
    again, undropped = [], None
    if _largest(outcomes["keras"], outcomes["engine"]) > AGREED:
        for seed in seeds:
            training.restart(seed, moved=True)
            again.append(training.fit(seed))
        if case.random:
            undropped = compare(case.undropped(), seeds[:1])
    return Comparison(case, outcomes["keras"], outcomes["engine"], again, undropped)


class KerasTraining:
    """The Keras side of a case: compiled once, started anew for each seed.

    Args:
        case: The program.
        x, y: Its data.
    """

    def __init__(self, case: Case, x: data.Array, y: data.Array) -> None:
        self._case, self._x, self._y = case, x, y
        self.model = keras_model(case, x.shape[1:])
        self.model.optimizer.build(self.model.trainable_variables)
        self._optimizer = [np.array(v) for v in self.model.optimizer.variables]
        # Keras's first fit looks at a batch before it starts, which would draw another order.
        self.fit(seed=0, epochs=1)

    def restart(self, seed: int, *, moved: bool = False) -> None:
        """Gives the model the first weights of a seed.

        Args:
            seed: Any number.
            moved: Each weight goes to the next float32.
        """
        keras.utils.set_random_seed(seed)
        weights = keras_model(self._case, self._x.shape[1:]).get_weights()
        if moved:
            weights = [np.nextafter(w, np.float32(np.inf)) for w in weights]
        self.model.set_weights(weights)
        for variable, value in zip(self.model.optimizer.variables, self._optimizer, strict=True):
            variable.assign(value)

    def fit(self, seed: int, epochs: int | None = None, callbacks: Sequence[Any] = ()) -> Outcome:
        """Trains; NumPy's global generator, started with `seed`, gives the order."""
        np.random.seed(seed)
        history = self.model.fit(
            self._x,
            self._y,
            batch_size=self._case.batch_size,
            epochs=epochs or self._case.epochs,
            verbose=0,
            callbacks=list(callbacks),
        ).history
        return _outcome(history)


def engine_fit(
    model: Trainable, case: Case, x: data.Array, y: data.Array, seed: int, epochs: int | None = None
) -> Outcome:
    """Trains an engine model on the batches that Keras draws after the same seed."""
    np.random.seed(seed)
    iterator = EpochIterator(x=x, y=y, batch_size=case.batch_size, shuffle=True)
    epochs = epochs or case.epochs
    plan = FitSpec(epochs, case.batch_size, iterator.num_batches, shuffle=True, validation=False)

    def batches() -> Iterator[Batch]:
        for _, _, several in iterator:
            for inputs, targets in several:
                yield Batch([np.asarray(inputs)], [np.asarray(targets)])

    return _outcome(model.fit_batches(batches, plan, data=([x], [y])).history)


def row(found: Comparison) -> str:
    """One line of the table."""
    case, spread = found.case, found.spread
    cells = [
        case.name,
        shown(_mean([one.loss for one in found.keras])),
        shown(_mean([one.loss for one in found.engine])),
        f"{found.difference:.0e}",
        "" if spread is None else f"{spread:.0e}",
        shown(_mean([one.accuracy for one in found.keras])),
        shown(_mean([one.accuracy for one in found.engine])),
        *(
            " / ".join(part for part in (shown(of.loss), shown(of.accuracy)) if part)
            for of in (case.paper_keras, case.paper_library)
        ),
        found.remark,
    ]
    return f"| {' | '.join(cells)} |"


def _outcome(history: dict[str, list[float]]) -> Outcome:
    accuracy = history.get(ACCURACY) or history.get("binary_accuracy")
    return Outcome(float(history["loss"][-1]), float(accuracy[-1]) if accuracy else None)


def _largest(one: Sequence[Outcome], other: Sequence[Outcome]) -> float:
    return max(_apart(a, b) for a, b in zip(one, other, strict=True))


def _apart(a: Outcome, b: Outcome) -> float:
    """Relative difference of the losses; infinity where only the accuracies differ."""
    apart = _relative(a.loss, b.loss)
    if apart <= AGREED and a.accuracy is not None and b.accuracy is not None:
        return apart if abs(a.accuracy - b.accuracy) <= ALIKE else math.inf
    return apart


def _relative(a: float, b: float) -> float:
    """0 for two that are not finite, infinity for one."""
    if not math.isfinite(a) or not math.isfinite(b):
        return 0.0 if math.isfinite(a) == math.isfinite(b) else math.inf
    return abs(a - b) / max(abs(a), 1e-7)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
