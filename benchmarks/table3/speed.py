"""Time of a step: the engine, watched with every probe on, against Keras's own bare `fit`.

Copies run in turn, in random order, from the same first weights; the first epoch of each turn is
left out. A second copy of Keras is the control: its ratio to the first shows the noise.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

import keras

import stethoscope
from stethoscope.engine.step import Listener
from stethoscope.engine.training import Trainable
from stethoscope.engine.translate import translate
from table3 import data
from table3.cases import Case, all_cases
from table3.compare import KerasTraining

SMALL = 10_000  # parameters: the models that the target speaks of
STEPS = 150  # timed in one turn, where they are that short
BATCHES = 50  # of an epoch, at most
HEAD = (
    "| program | parameters | steps an epoch | Keras, ms a step | engine bare | engine watched "
    "| watched, wall clock | control: Keras to Keras |\n|---|---|---|---|---|---|---|---|"
)
CNN = Case(
    name="CNN",
    topic="32x32 colour images: three convolutional and two dense layers",
    layers=(
        {"type": "Conv2D", "filters": 32, "kernel_size": 3, "padding": "same"},
        {"type": "Activation", "activation": "relu"},
        {"type": "MaxPooling2D"},
        {"type": "Conv2D", "filters": 64, "kernel_size": 3, "padding": "same"},
        {"type": "Activation", "activation": "relu"},
        {"type": "MaxPooling2D"},
        {"type": "Conv2D", "filters": 64, "kernel_size": 3, "padding": "same"},
        {"type": "Activation", "activation": "relu"},
        {"type": "Flatten"},
        {"type": "Dense", "units": 128, "activation": "relu"},
        {"type": "Dense", "units": 10, "activation": "softmax"},
    ),
    optimizer={"name": "Adam", "learning_rate": 0.001},
    loss="categorical_crossentropy",
    metrics=("accuracy",),
    batch_size=32,
    epochs=1,
    data="colour_images",
    parameters=582_026,
    rows=160,
)

Times = tuple[float, float]
"""CPU seconds and seconds of a step."""


@dataclasses.dataclass(frozen=True)
class Speed:
    """Medians over all rounds; all but `keras_ms` are ratios to Keras.

    Attributes:
        case: The program.
        steps: Of an epoch.
        keras_ms: CPU milliseconds of a step of Keras.
        bare, watched, control: The engine alone, with every probe on, and Keras again.
        wall: As `watched`, by the clock on the wall.
    """

    case: Case
    steps: int
    keras_ms: float
    bare: float
    watched: float
    wall: float
    control: float


def small_cases() -> tuple[Case, ...]:
    """The cases that the target speaks of."""
    return tuple(case for case in all_cases() if case.parameters < SMALL)


def measure(case: Case, rounds: int) -> Speed:
    """Times one case.

    Args:
        case: The program.
        rounds: How often each copy has its turn.
    """
    x, y = data.of(case, BATCHES * case.batch_size)
    steps = -(-len(x) // case.batch_size)
    epochs = max(1, round((STEPS if case.parameters < SMALL else 2 * steps) / steps))
    first, second = KerasTraining(case, x, y), KerasTraining(case, x, y)
    plan = (case, x, y, 1 + epochs)

    def engine(watched: bool) -> Times:
        first.restart(seed=0)
        return _engine_turn(translate(first.model), plan, watched)

    copies: dict[str, Callable[[], Times]] = {
        "keras": lambda: _keras_turn(first, plan),
        "again": lambda: _keras_turn(second, plan),
        "bare": lambda: engine(False),
        "watched": lambda: engine(True),
    }
    turns: dict[str, list[Times]] = {name: [] for name in copies}
    for _ in range(rounds):
        for name in random.sample(sorted(copies), len(copies)):
            turns[name].append(copies[name]())
    return Speed(
        case,
        steps,
        1e3 * statistics.median(cpu for cpu, _ in turns["keras"]),
        _ratio(turns, "bare", 0),
        _ratio(turns, "watched", 0),
        _ratio(turns, "watched", 1),
        statistics.median(b[0] / a[0] for a, b in zip(turns["keras"], turns["again"], strict=True)),
    )


class Clock(Listener, keras.callbacks.Callback):  # type: ignore[misc]
    """Reads the clocks after each epoch; of Keras as of the engine."""

    only_reads = True

    def __init__(self) -> None:
        super().__init__()
        self._read: list[Times] = []

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Of a Keras callback."""
        self._read.append((time.process_time(), time.perf_counter()))

    def epoch(self, model: Trainable, epoch: int, held_out: Mapping[str, float]) -> None:
        """Of an engine listener."""
        self.on_epoch_end(epoch)

    def a_step(self, steps: int) -> Times:
        """Times of a step, without the first epoch, of epochs of so many steps."""
        count = steps * (len(self._read) - 1)
        begun, ended = self._read[0], self._read[-1]
        return (ended[0] - begun[0]) / count, (ended[1] - begun[1]) / count


def row(found: Speed) -> str:
    """One line of the table."""
    case = found.case
    return (
        f"| {case.name} | {case.parameters:,} | {found.steps} | {found.keras_ms:.2f} "
        f"| {found.bare:.2f} | {found.watched:.2f} | {found.wall:.2f} | {found.control:.2f} |"
    )


def medians(found: Sequence[Speed]) -> str:
    """The last line of the table: the median over all programs."""

    def median(name: str) -> float:
        return statistics.median(getattr(one, name) for one in found)

    return (
        f"| median of {len(found)} | | | {median('keras_ms'):.2f} | {median('bare'):.2f} "
        f"| **{median('watched'):.2f}** | {median('wall'):.2f} | {median('control'):.2f} |"
    )


Plan = tuple[Case, data.Array, data.Array, int]


def _keras_turn(training: KerasTraining, plan: Plan) -> Times:
    case, x, _, epochs = plan
    clock = Clock()
    training.restart(seed=0)
    training.fit(seed=0, epochs=epochs, callbacks=[clock])
    return clock.a_step(-(-len(x) // case.batch_size))


def _engine_turn(model: Trainable, plan: Plan, watched: bool) -> Times:
    case, x, y, epochs = plan
    clock = Clock()
    with contextlib.ExitStack() as stack:
        if watched:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))  # the errors found
            stack.enter_context(
                stethoscope.watch(model, probe_every=1, quiet=True, trace_dir=folder)
            )
        model.listeners.append(clock)  # after the watching one: its work is in the time
        model.fit(x, y, batch_size=case.batch_size, epochs=epochs)
    return clock.a_step(-(-len(x) // case.batch_size))


def _ratio(turns: Mapping[str, Sequence[Times]], name: str, clock: int) -> float:
    return statistics.median(
        2 * one[clock] / (a[clock] + b[clock])
        for one, a, b in zip(turns[name], turns["keras"], turns["again"], strict=True)
    )
