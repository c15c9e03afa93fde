"""Learning rates that depend on the step, with Keras's names, formulas and defaults.

A schedule is given to an optimizer in place of a learning rate. Steps count from 0.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class ExponentialDecay:
    """initial_learning_rate * decay_rate ^ (step / decay_steps).

    Attributes:
        initial_learning_rate: At step 0.
        decay_steps: After how many steps the rate has been multiplied by `decay_rate` once.
        decay_rate: See there.
        staircase: Round the exponent down.

    >>> [ExponentialDecay(0.1, 2, 0.5, staircase=True)(step) for step in (0, 1, 2)]
    [0.1, 0.1, 0.05]
    """

    initial_learning_rate: float
    decay_steps: int
    decay_rate: float
    staircase: bool = False

    def __post_init__(self) -> None:
        _positive("decay_steps", self.decay_steps)

    def __call__(self, step: int) -> float:
        """The rate of a step."""
        times = step / self.decay_steps
        return self.initial_learning_rate * self.decay_rate ** (
            math.floor(times) if self.staircase else times
        )


@dataclasses.dataclass(frozen=True)
class InverseTimeDecay:
    """initial_learning_rate / (1 + decay_rate * step / decay_steps).

    Attributes:
        initial_learning_rate: At step 0.
        decay_steps: Unit of the step.
        decay_rate: See the formula.
        staircase: Round step / decay_steps down.
    """

    initial_learning_rate: float
    decay_steps: int
    decay_rate: float
    staircase: bool = False

    def __post_init__(self) -> None:
        _positive("decay_steps", self.decay_steps)

    def __call__(self, step: int) -> float:
        """The rate of a step."""
        times = step / self.decay_steps
        if self.staircase:
            times = math.floor(times)
        return self.initial_learning_rate / (1 + self.decay_rate * times)


@dataclasses.dataclass(frozen=True)
class PolynomialDecay:
    """From the first to the last rate along (1 - step / decay_steps) ^ power.

    Attributes:
        initial_learning_rate: At step 0.
        decay_steps: When the last rate is reached.
        end_learning_rate: The last rate.
        power: 1 is a line.
        cycle: After `decay_steps`, go on with the smallest multiple of them that is not passed.
    """

    initial_learning_rate: float
    decay_steps: int
    end_learning_rate: float = 0.0001
    power: float = 1.0
    cycle: bool = False

    def __post_init__(self) -> None:
        _positive("decay_steps", self.decay_steps)

    def __call__(self, step: int) -> float:
        """The rate of a step."""
        length = float(self.decay_steps)
        if self.cycle:
            length *= max(1, math.ceil(step / self.decay_steps))
        left = 1 - min(step / length, 1.0)
        span = self.initial_learning_rate - self.end_learning_rate
        return float(span * left**self.power + self.end_learning_rate)


@dataclasses.dataclass(frozen=True)
class PiecewiseConstantDecay:
    """One rate until and with each boundary, the last one after all of them.

    Attributes:
        boundaries: Steps, rising.
        values: Rates, one more than boundaries.

    >>> [PiecewiseConstantDecay([1], [0.1, 0.01])(step) for step in (0, 1, 2)]
    [0.1, 0.1, 0.01]
    """

    boundaries: Sequence[float]
    values: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.boundaries) != len(self.values) - 1:
            raise ValueError(
                "there is one value more than boundaries; got "
                f"{len(self.values)} values and {len(self.boundaries)} boundaries."
            )

    def __call__(self, step: int) -> float:
        """The rate of a step."""
        return float(self.values[sum(step > int(boundary) for boundary in self.boundaries)])


@dataclasses.dataclass(frozen=True)
class CosineDecay:
    """Half a period of the cosine, after a linear rise where there is a warm-up.

    Attributes:
        initial_learning_rate: At step 0.
        decay_steps: How many steps the fall takes.
        alpha: The last rate as a share of the highest one.
        warmup_target: The highest rate; None: there is no rise.
        warmup_steps: How many steps the rise takes.

    Source: Loshchilov and Hutter, "SGDR", 2017, equation 5.

    >>> [round(CosineDecay(0.1, 4)(step), 4) for step in (0, 2, 4, 5)]
    [0.1, 0.05, 0.0, 0.0]
    """

    initial_learning_rate: float
    decay_steps: int
    alpha: float = 0.0
    warmup_target: float | None = None
    warmup_steps: int = 0

    def __post_init__(self) -> None:
        _positive("decay_steps", self.decay_steps)

    def __call__(self, step: int) -> float:
        """The rate of a step."""
        highest, start = self.initial_learning_rate, 0
        if self.warmup_target is not None:
            highest, start = self.warmup_target, self.warmup_steps
            if step < start:
                rise = highest - self.initial_learning_rate
                return rise * step / start + self.initial_learning_rate
        return highest * _cosine(min((step - start) / self.decay_steps, 1.0), 1.0, self.alpha)


@dataclasses.dataclass(frozen=True)
class CosineDecayRestarts:
    """Cosine decays one after the other.

    Attributes:
        initial_learning_rate: At step 0.
        first_decay_steps: Length of the first period.
        t_mul: Length of each period over that of the one before.
        m_mul: First rate of each period over that of the one before.
        alpha: The lowest rate as a share of the first one.

    Source: Loshchilov and Hutter, "SGDR", 2017, section 3.
    """

    initial_learning_rate: float
    first_decay_steps: int
    t_mul: float = 2.0
    m_mul: float = 1.0
    alpha: float = 0.0

    def __post_init__(self) -> None:
        _positive("first_decay_steps", self.first_decay_steps)

    def __call__(self, step: int) -> float:
        """The rate of a step."""
        done = step / self.first_decay_steps
        ratio = self.t_mul
        if ratio == 1:
            period = math.floor(done)
            done -= period
        else:
            # In float32 as Keras: at the first step of a period the logarithm may fall short of
            # the whole number, and then the step still belongs to the period before.
            single = np.float32
            passed = single(1) - single(done) * (single(1) - single(ratio))
            period = math.floor(float(np.log(passed) / np.log(single(ratio))))
            done = (done - (1 - ratio**period) / (1 - ratio)) / ratio**period
        return self.initial_learning_rate * _cosine(done, self.m_mul**period, self.alpha)


def _cosine(done: float, height: float, alpha: float) -> float:
    return (1 - alpha) * 0.5 * height * (1 + math.cos(math.pi * done)) + alpha


def _positive(name: str, value: float) -> None:
    if value <= 0:
        raise ValueError(f"{name} is more than 0; got {value}.")
