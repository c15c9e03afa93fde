"""What a step of training hands out, and who is shown it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.engine.layers._base import Array
from stethoscope.engine.metrics import Totals
from stethoscope.engine.network import Pass

if TYPE_CHECKING:
    from stethoscope.engine.training import Trainable


@dataclasses.dataclass(frozen=True)
class Step:
    """Every value of one optimizer step.

    `output`, `before_activation` and `output_gradient` find a layer's values by its name; of a
    weight "dense/kernel" they are `gradients`, `before` and `after`.

    Attributes:
        number: From 0, over all calls of `fit`.
        epoch, batch: From 0.
        inputs, targets: The batch.
        done: What the network computed, with the gradients of every value.
        loss: With the regularizers; what was minimized.
        losses: Of each output, without weights and regularizers.
        metrics: Name to value over this batch.
        totals: Name to the pair of numbers that the metric is computed from.
        rate: The learning rate.
        gradients: Of each weight, as the optimizer got them.
        before, after: Each trained weight before the update, and after it.
        weighted: The samples have weights.
        lasting: Nobody writes into these arrays later: they may be looked at together with those of
            the next steps.
    """

    number: int
    epoch: int
    batch: int
    inputs: Sequence[Array]
    targets: Sequence[Array]
    done: Pass
    loss: float
    losses: Sequence[float]
    metrics: Mapping[str, float]
    totals: Mapping[str, Totals]
    rate: float
    gradients: Mapping[str, Array]
    before: Mapping[str, Array]
    after: Mapping[str, Array]
    weighted: bool = False
    lasting: bool = False

    def output(self, layer: str) -> Array:
        """What a layer (or input) of this name put out, after its activation.

        Raises:
            KeyError: There is no such layer; the message lists all.
        """
        return self.done.values[self.done.position(layer)]

    def before_activation(self, layer: str) -> Array:
        """What a layer computed, before its own activation.

        Raises:
            KeyError: There is no such layer; the message lists all.
        """
        done = self.done
        index = done.position(layer) - (len(done.values) - len(done.before))
        return self.output(layer) if index < 0 else done.before[index]

    def output_gradient(self, layer: str) -> Array | None:
        """Of the loss with respect to `output`; None where it does not depend on it.

        Raises:
            KeyError: There is no such layer; the message lists all.
        """
        return self.done.gradients[self.done.position(layer)]

    def __repr__(self) -> str:
        figures = "".join(f", {name} {value:.4g}" for name, value in self.metrics.items())
        return f"<Step {self.number}: epoch {self.epoch}, loss {self.loss:.4g}{figures}>"


class Batch(NamedTuple):
    """What one step is made on: arrays with the samples first.

    Attributes:
        inputs, targets: One array for each input and output of the model.
        weight: One factor for each sample, or None.
    """

    inputs: list[Array]
    targets: list[Array]
    weight: Array | None = None


class Listener:
    """Is shown the training of a model; derive from it and override what is to be seen.

    Attributes:
        only_reads: It writes into no array of a step or of the weights: then what else listens may
            look at a step later.
    """

    only_reads = False

    def begin(self, model: Trainable, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """A `fit` starts, with this data."""

    def step(self, model: Trainable, step: Step) -> bool:
        """A step was made. True asks the training to stop."""
        return False

    def epoch(self, model: Trainable, epoch: int, held_out: Mapping[str, float]) -> None:
        """An epoch is over; figures on held-out data, where there is some."""

    def end(self, model: Trainable) -> None:
        """A `fit` is over, or was left by an exception."""


@dataclasses.dataclass(frozen=True)
class OnStep(Listener):
    """Shows every step to a function.

    Attributes:
        look: Is given each `Step`.
    """

    look: Callable[[Step], object]

    def step(self, model: Trainable, step: Step) -> bool:
        """Calls the function; never stops the training."""
        self.look(step)
        return False


def as_listener(given: Listener | Callable[[Step], object]) -> Listener:
    """A plain function is shown every step.

    Raises:
        TypeError: It is neither a `Listener` nor a function.
    """
    if isinstance(given, Listener):
        return given
    if callable(given) and not isinstance(given, type):
        return OnStep(given)
    raise TypeError(
        f"model.listeners takes a Listener, or a function of a Step as OnStep(function); got "
        f"{given!r}."
    )


everywhere: list[Listener] = []
"""Listeners of every model of this process."""
