"""What a layer of the engine is.

A layer holds its settings and nothing else: it is given its inputs and weights, and gives back what
it computed. The weights, the tape of a step and every other state belong to the `Network`, so a
layer that is applied twice, or whose weights are shared, needs nothing special.
"""

from __future__ import annotations

import abc
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stethoscope.diagnosis import locate
from stethoscope.engine.activations import Activation
from stethoscope.engine.activations import get as activation_of
from stethoscope.types import SourceRef
from stethoscope.vocabulary import LayerKind

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
"""Of one sample: without the batch axis."""
Weights = Mapping[str, Array]
REGULARIZER = "_regularizer"
WEIGHTS = {"recurrent": "recurrent_kernel", "depthwise": "kernel"}
"""What Keras's settings of a weight begin with, where that is not the weight's name."""


@dataclasses.dataclass(frozen=True)
class Mode:
    """How a forward pass is made.

    Attributes:
        training: Dropout drops, batch normalization uses the batch.
        rng: The only source of random numbers.
    """

    training: bool
    rng: np.random.Generator


@dataclasses.dataclass(frozen=True)
class Forward:
    """What a layer computed.

    Attributes:
        output: Before the layer's activation, with the batch axis first.
        saved: Whatever `backward` needs, of any form.
        moved: New values of weights that the forward pass itself moves (moving statistics).
    """

    output: Array
    saved: Any = None
    moved: Weights = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class Symbol:
    """What a layer will compute: the handle with which a functional graph is written.

    Attributes:
        shape: Of one sample.
        layer: What computes it; None for an input of the model.
        inputs: What it is computed from.
        name: Of an input; "" for one without a name.
    """

    shape: Shape
    layer: Layer | None = None
    inputs: tuple[Symbol, ...] = ()
    name: str = ""


class Layer(abc.ABC):
    """One operation of a network.

    Args:
        activation: Applied to the output, by name or as an `Activation`; None applies none.
        name: Unique in the network; None numbers the layer by its class ("dense", "dense_1").

    Attributes:
        kind: What it does.
        moving: Names of weights that are not trained.
        trainable: Set to False to leave the weights as they are.
        source: The call that constructed it; a translated layer has that of its original.
    """

    kind: ClassVar[LayerKind] = LayerKind.OTHER
    moving: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self, *, activation: str | Activation | None = None, name: str | None = None
    ) -> None:
        self.activation = None if activation is None else activation_of(activation)
        self.name = name or ""
        self.trainable = True
        self.source: SourceRef | None = locate.here(sys._getframe(1))
        self._unit_axis = -1

    @property
    def called(self) -> str:
        """Its class, and its name once it has one: how messages speak of it."""
        kind = type(self).__name__
        return f"{kind} {self.name!r}" if self.name else kind

    @property
    def unit_axis(self) -> int:
        """Axis of the units or channels in the output."""
        return self._unit_axis

    def units_on(self, axis: int) -> None:
        """Says where the units are, for a layer whose own settings do not (an activation)."""
        self._unit_axis = axis

    def __call__(self, inputs: Symbol | Sequence[Symbol]) -> Symbol:
        """Applies the layer in a functional graph.

        >>> from stethoscope.engine import Dense, Input
        >>> Dense(4)(Input((8,))).shape
        (4,)
        """
        given = (inputs,) if isinstance(inputs, Symbol) else tuple(inputs)
        shape = self.shape([symbol.shape for symbol in given])
        if self.activation is not None:
            shape = self.activation.shape(shape)
        return Symbol(shape, self, given)

    @abc.abstractmethod
    def shape(self, inputs: Sequence[Shape]) -> Shape:
        """The shape of the output for inputs of these shapes.

        Raises:
            ValueError: The inputs do not fit this layer.
        """

    def build(self, inputs: Sequence[Shape], rng: np.random.Generator) -> dict[str, Array]:
        """The first weights by name, in float64; a layer without weights has none."""
        return {}

    @abc.abstractmethod
    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        """The output of a batch, before `activation`.

        The inputs have the dtype of the weights; ids of an `Embedding` may be whole numbers.
        """

    @abc.abstractmethod
    def backward(
        self, gradient: Array, saved: Any, weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        """The gradients of the inputs, one each, and of the trained weights by name.

        Args:
            gradient: Of the loss with respect to the output before `activation`.
            saved: `Forward.saved` of the same step.
            weights: As in the forward pass.
        """

    def penalties(self) -> Mapping[str, Any]:
        """Regularizer of each weight that is given one, as `kernel_regularizer` is the kernel's."""
        found = {}
        for setting, held in vars(self).items():
            if held is not None and setting.endswith(REGULARIZER):
                name = setting.removesuffix(REGULARIZER)
                found[WEIGHTS.get(name, name)] = held
        return found


def single(inputs: Sequence[Any], layer: Layer) -> Any:
    """The only input of a layer that takes one.

    Raises:
        ValueError: There are several.
    """
    if len(inputs) != 1:
        raise ValueError(f"{layer.called} takes one input; got {len(inputs)}.")
    return inputs[0]


def count(value: int, argument: str) -> int:
    """A setting that is a positive integer.

    Raises:
        ValueError: It is none.

    >>> count(0, "Dense units")
    Traceback (most recent call last):
        ...
    ValueError: Dense units must be a positive integer; got 0.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < 1:
        raise ValueError(f"{argument} must be a positive integer; got {value!r}.")
    return int(value)
