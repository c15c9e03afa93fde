"""What the recurrent layers share: settings, weights, and the way from samples to time steps."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, TypedDict, Unpack

import numpy as np

from stethoscope.engine import initializers, regularizers
from stethoscope.engine.activations import Activation
from stethoscope.engine.activations import get as activation_of
from stethoscope.engine.initializers import Initializer
from stethoscope.engine.layers._base import (
    Array,
    Forward,
    Layer,
    Mode,
    Shape,
    Weights,
    count,
    single,
)
from stethoscope.engine.regularizers import Regularizer
from stethoscope.vocabulary import LayerKind


class Settings(TypedDict, total=False):
    """The settings that all recurrent layers have; defaults in brackets.

    Attributes:
        use_bias: Whether there is a bias [True].
        kernel_initializer: Of the weights of the inputs ["glorot_uniform"].
        recurrent_initializer: Of the weights of the state ["orthogonal"].
        bias_initializer: Of the bias ["zeros"].
        kernel_regularizer, recurrent_regularizer, bias_regularizer: By name or as one [None].
        dropout: Share of the input features that is dropped in training, the same at every time
            step of a sample [0].
        return_sequences: Whether the output is that of every step or of the last [False].
        go_backwards: Whether the last time step is read first; a returned sequence is in the
            order in which it was read [False].
        name: Unique in the network [numbered by the class].
    """

    use_bias: bool
    kernel_initializer: str | Initializer
    recurrent_initializer: str | Initializer
    bias_initializer: str | Initializer
    kernel_regularizer: str | Regularizer | None
    recurrent_regularizer: str | Regularizer | None
    bias_regularizer: str | Regularizer | None
    dropout: float
    return_sequences: bool
    go_backwards: bool
    name: str | None


@dataclasses.dataclass(frozen=True)
class Run:
    """What one pass over the time steps keeps for the way back.

    Attributes:
        series: The inputs, time first: [steps, samples, features].
        mask: What the inputs were multiplied with, or None.
        hidden: The states [1 + steps, samples, units]; the first is 0.
        steps: Whatever the layer itself keeps.
    """

    series: Array
    mask: Array | None
    hidden: Array
    steps: Any


class Recurrence(Layer):
    """A layer whose state goes from one time step to the next.

    It reads [samples, steps, features]. The products of all inputs with the kernel are one matrix
    product; only what depends on the state is in the loop over the steps.
    """

    kind = LayerKind.RECURRENT
    gates: ClassVar[int]
    """How many blocks of `units` columns the kernels have."""

    def __init__(
        self, units: int, activation: str | Activation | None, **settings: Unpack[Settings]
    ) -> None:
        super().__init__(name=settings.get("name"))
        self.units = count(units, f"{type(self).__name__} units")
        self.cell_activation = activation_of(activation)
        self.use_bias = settings.get("use_bias", True)
        self.kernel_initializer = initializers.get(
            settings.get("kernel_initializer", "glorot_uniform")
        )
        self.recurrent_initializer = initializers.get(
            settings.get("recurrent_initializer", "orthogonal")
        )
        self.bias_initializer = initializers.get(settings.get("bias_initializer", "zeros"))
        self.kernel_regularizer = regularizers.get(settings.get("kernel_regularizer"))
        self.recurrent_regularizer = regularizers.get(settings.get("recurrent_regularizer"))
        self.bias_regularizer = regularizers.get(settings.get("bias_regularizer"))
        self.dropout = settings.get("dropout", 0.0)
        self.return_sequences = settings.get("return_sequences", False)
        self.go_backwards = settings.get("go_backwards", False)
        unknown = set(settings) - set(Settings.__annotations__)
        if unknown:
            kind, known = type(self).__name__, ", ".join(sorted(Settings.__annotations__))
            raise TypeError(f"{kind} has no setting {', '.join(sorted(unknown))}; it has {known}.")

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        shape: Shape = single(inputs, self)
        if len(shape) != 2:
            raise ValueError(
                f"{self.called} needs inputs of shape (batch, steps, "
                f"features); got {('batch', *shape)}."
            )
        return (shape[0], self.units) if self.return_sequences else (self.units,)

    def build(self, inputs: Sequence[Shape], rng: np.random.Generator) -> dict[str, Array]:
        features, width = single(inputs, self)[-1], self.gates * self.units
        first = {
            "kernel": self.kernel_initializer((features, width), rng),
            "recurrent_kernel": self.recurrent_initializer((self.units, width), rng),
        }
        if self.use_bias:
            first["bias"] = self.first_bias(rng)
        return first

    def first_bias(self, rng: np.random.Generator) -> Array:
        """The first values of the bias."""
        return self.bias_initializer((self.gates * self.units,), rng)

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = single(inputs, self)
        series = x.swapaxes(0, 1)[:: -1 if self.go_backwards else 1]
        series = np.ascontiguousarray(series)
        mask = None
        if mode.training and self.dropout:
            kept = mode.rng.random((1, *series.shape[1:]), dtype=np.float32) >= self.dropout
            mask = kept / np.asarray(1 - self.dropout, x.dtype)
            series = series * mask
        hidden, steps = self.run(series, weights)
        output = hidden[-1].copy()
        if self.return_sequences:
            output = np.ascontiguousarray(hidden[1:].swapaxes(0, 1))
        return Forward(output, Run(series, mask, hidden, steps))

    def backward(
        self, gradient: Array, saved: Run, weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        arriving: list[Array | None] = [None] * len(saved.series)
        if self.return_sequences:
            arriving[:] = gradient.swapaxes(0, 1)
        else:
            arriving[-1] = gradient
        back, gradients = self.run_back(arriving, saved, weights)
        if saved.mask is not None:
            back *= saved.mask
        back = back[:: -1 if self.go_backwards else 1]
        return [np.ascontiguousarray(back.swapaxes(0, 1))], gradients

    @abc.abstractmethod
    def run(self, series: Array, weights: Weights) -> tuple[Array, Any]:
        """The states, the first of them 0, and what `run_back` needs.

        Args:
            series: [steps, samples, features].
            weights: By name.
        """

    @abc.abstractmethod
    def run_back(
        self, arriving: Sequence[Array | None], saved: Run, weights: Weights
    ) -> tuple[Array, dict[str, Array]]:
        """The gradients of the series and of each weight.

        Args:
            arriving: Gradient of the output of each step; None for 0.
            saved: Of the same step of the training.
            weights: As in the forward pass.
        """


def project(series: Array, kernel: Array, bias: Array | None) -> Array:
    """`series @ kernel + bias`: [steps, samples, columns], as one matrix product."""
    steps, samples, features = series.shape
    product: Array = series.reshape(steps * samples, features) @ kernel
    if bias is not None:
        product += bias
    return product.reshape(steps, samples, -1)


def project_back(gradient: Array, series: Array, kernel: Array) -> tuple[Array, Array]:
    """The gradients of `series` and `kernel`, of the product's [steps, samples, columns]."""
    rows = gradient.reshape(-1, gradient.shape[-1])
    back: Array = rows @ kernel.T
    return back.reshape(series.shape), series.reshape(-1, series.shape[-1]).T @ rows


def state_product(hidden: Array, gradient: Array) -> Array:
    """The gradient of a kernel of the state: the state before each step times its gradient."""
    states = hidden[:-1].reshape(-1, hidden.shape[-1])
    product: Array = states.T @ gradient.reshape(len(states), -1)
    return product


def total(gradient: Array) -> Array:
    """The gradient of a bias: [steps, samples, columns] summed over all but the columns."""
    rows = gradient.reshape(-1, gradient.shape[-1])
    return np.ones(len(rows), rows.dtype) @ rows  # five times as fast as a sum


def by_gate(block: Array, gates: int) -> Array:
    """[..., samples, gates * units] seen as [..., gates, samples, units]."""
    return block.reshape(*block.shape[:-1], gates, -1).swapaxes(-2, -3)
