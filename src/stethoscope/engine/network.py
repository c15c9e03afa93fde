"""A graph of layers with its weights: forward and backward passes whose every value can be read."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stethoscope.engine.layers._base import Array, Layer, Mode, Shape, Symbol
from stethoscope.vocabulary import LayerKind


@dataclasses.dataclass(frozen=True)
class Node:
    """One application of a layer.

    Attributes:
        path: The layer's name; from its second application on with "#2", "#3", ...
        layer: What is applied.
        inputs: Positions of the values it reads: the model's inputs come first, then the nodes.
        shape: Of one sample of its output.
    """

    path: str
    layer: Layer
    inputs: tuple[int, ...]
    shape: Shape


@dataclasses.dataclass
class Pass:
    """Everything that one forward pass computed.

    Attributes:
        values: The inputs of the model, then the output of each node after its activation.
        before: The output of each node before its activation.
        saved: What each node needs for its way back.
        gradients: Of the loss with respect to `values`, once `Network.backward` has run; None
            where the loss does not depend on the value.
        names: Of `values`: the inputs' names, then the nodes' paths.
    """

    values: list[Array]
    before: list[Array]
    saved: list[Any]
    gradients: list[Array | None] = dataclasses.field(default_factory=list)
    names: Sequence[str] = ()

    def position(self, name: str) -> int:
        """Where the values of a layer or an input lie in `values`.

        Raises:
            KeyError: There is no such name.
        """
        if name not in self.names:
            raise KeyError(f"no layer is named {name!r}; there are {', '.join(self.names)}.")
        return self.names.index(name)

    def __repr__(self) -> str:
        return f"<Pass over {', '.join(self.names)}>"


class Network:
    """Layers, the data flow between them, and the weights of all of them.

    Args:
        inputs: The model's inputs, as `Input` made them.
        outputs: What the model computes.
        seed: Of the first weights and of everything random in training.
        dtype: float32 or float64; inputs are converted to it, but for whole numbers that only an
            `Embedding` reads: float32 does not tell ids above 2^24 apart.

    Attributes:
        nodes: In the order of the forward pass.
        names: Of all values of a pass: the inputs' names, then the nodes' paths.
        weights: `layer/name` to array; what the layers read and the optimizer replaces.
        trained: Names of the weights that are trained, in definition order.

    Raises:
        ValueError: Two layers share a name, or an output depends on an input that was not given.

    >>> from stethoscope.engine import Dense, Input
    >>> x = Input((3,))
    >>> network = Network([x], [Dense(2, name="out")(x)])
    >>> network.forward([np.ones((5, 3))]).values[-1].shape
    (5, 2)
    """

    def __init__(
        self,
        inputs: Sequence[Symbol],
        outputs: Sequence[Symbol],
        *,
        seed: int = 0,
        dtype: npt.DTypeLike = np.float32,
    ) -> None:
        _keep_memory()
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.inputs = tuple(inputs)
        self.positions: dict[Symbol, int] = {symbol: i for i, symbol in enumerate(inputs)}
        self.nodes: list[Node] = []
        self.names = [self.input_name(i) for i in range(len(inputs))]
        self.weights: dict[str, Array] = {}
        self._own: dict[Layer, dict[str, str]] = {}  # layer -> its weights: short name -> full
        for symbol in _in_order(outputs):
            if symbol not in self.positions:
                self._place(symbol)
        self.outputs = tuple(self.positions[symbol] for symbol in outputs)
        self._ids = self._read_as_ids()

    @property
    def layers(self) -> list[Layer]:
        """Each layer once, in the order of its first application."""
        return list(self._own)

    @property
    def trained(self) -> list[str]:
        """The weights that an optimizer is to move."""
        return [
            full
            for layer, names in self._own.items()
            if layer.trainable
            for name, full in names.items()
            if name not in layer.moving
        ]

    def weights_of(self, layer: Layer) -> dict[str, Array]:
        """The weights of one layer by their short names."""
        return {name: self.weights[full] for name, full in self._own[layer].items()}

    def forward(self, inputs: Sequence[Array], *, training: bool = False) -> Pass:
        """Computes every value for one batch; in training, moving statistics move.

        Args:
            inputs: One array for each input of the model, the batch axis first.
            training: Whether dropout drops and normalization uses the batch.
        """
        mode = Mode(training, self.rng)
        done = Pass([self._entering(x, i) for i, x in enumerate(inputs)], [], [], names=self.names)
        for node in self.nodes:
            read = [done.values[i] for i in node.inputs]
            try:
                result = node.layer.forward(read, self.weights_of(node.layer), mode)
            except ValueError as error:
                self._explain(node, read, error)
                raise
            activation = node.layer.activation
            done.before.append(result.output)
            done.saved.append(result.saved)
            done.values.append(
                result.output if activation is None else activation.forward(result.output)
            )
            for name, value in result.moved.items():
                self.weights[self._own[node.layer][name]] = value
        return done

    def backward(self, done: Pass, gradients: Sequence[Array]) -> dict[str, Array]:
        """Carries the gradients of the model's outputs back; fills `done.gradients`.

        Returns:
            The gradient of every trained weight. A weight on which the outputs do not depend
            has none.
        """
        first = len(self.inputs)
        flowing: list[Array | None] = [None] * len(done.values)
        for position, gradient in zip(self.outputs, gradients, strict=True):
            flowing[position] = _sum(flowing[position], gradient)
        found: dict[str, Array] = {}
        for index in range(len(self.nodes) - 1, -1, -1):
            node, arrived = self.nodes[index], flowing[first + index]
            if arrived is None:
                continue
            layer, inward = node.layer, arrived
            if layer.activation is not None:
                output = done.values[first + index]
                inward = layer.activation.backward(arrived, done.before[index], output)
            back, of_weights = layer.backward(inward, done.saved[index], self.weights_of(layer))
            for position, gradient in zip(node.inputs, back, strict=True):
                flowing[position] = _sum(flowing[position], gradient)
            if layer.trainable:
                for name, gradient in of_weights.items():
                    full = self._own[layer][name]
                    found[full] = _sum(found.get(full), gradient)
        done.gradients = flowing
        return found

    def penalty(self, gradients: dict[str, Array]) -> float:
        """The sum of all regularizers; their derivatives are added to `gradients`.

        Those of a layer that is not trained do not count, as in Keras.
        """
        total = 0.0
        for layer, names in self._own.items():
            for name, regularizer in layer.penalties().items() if layer.trainable else ():
                if name not in names:  # of a bias that the layer is without
                    continue
                weight = self.weights[names[name]]
                total += regularizer.value(weight)
                if names[name] in gradients:
                    gradients[names[name]] = gradients[names[name]] + regularizer.gradient(weight)
        return total

    def _entering(self, x: Array, position: int) -> Array:
        """One of the inputs as the layers are to read it."""
        given = np.asarray(x)
        if position in self._ids and np.issubdtype(given.dtype, np.integer):
            return given
        return given.astype(self.dtype, copy=False)

    def _read_as_ids(self) -> frozenset[int]:
        """Positions of the inputs that embeddings look up, and nothing else reads."""
        plain, first = set(self.outputs), len(self.inputs)
        for index in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[index]
            moved = node.layer.kind is LayerKind.RESHAPE and first + index not in plain
            if node.layer.kind is not LayerKind.EMBEDDING and not moved:
                plain.update(node.inputs)
        return frozenset(range(first)) - plain

    def input_name(self, index: int) -> str:
        """What the user calls an input, or a plain name where it has one that Keras made up."""
        name = self.inputs[index].name
        if name and not re.fullmatch(r"keras_tensor(_\d+)?", name):
            return name
        return "inputs" if len(self.inputs) == 1 else f"input_{index + 1}"

    def _explain(self, node: Node, read: Sequence[Array], error: ValueError) -> None:
        """Says it where the inputs of a layer are not what its weights were made for.

        Raises:
            ValueError: They are not.
        """
        first = len(self.inputs)
        built = [
            self.inputs[i].shape if i < first else self.nodes[i - first].shape for i in node.inputs
        ]
        for shape, values in zip(built, read, strict=True):
            if values.shape[1:] != shape:
                raise ValueError(
                    f"{node.layer.called} was built for inputs of shape {batch_shape(shape)}; got "
                    f"{values.shape}: give samples of that shape, or build another model."
                ) from error

    def _place(self, symbol: Symbol) -> None:
        layer = symbol.layer
        if layer is None:
            raise ValueError(f"the outputs depend on input {symbol.name!r}, which is not given.")
        shapes = [before.shape for before in symbol.inputs]
        if layer not in self._own:
            self._name(layer)
            first = layer.build(shapes, self.rng)
            self._own[layer] = {name: f"{layer.name}/{name}" for name in first}
            for name, value in first.items():
                self.weights[f"{layer.name}/{name}"] = value.astype(self.dtype)
        uses = 1 + sum(node.layer is layer for node in self.nodes)
        path = layer.name if uses == 1 else f"{layer.name}#{uses}"
        read = tuple(self.positions[before] for before in symbol.inputs)
        self.positions[symbol] = len(self.inputs) + len(self.nodes)
        self.nodes.append(Node(path, layer, read, symbol.shape))
        self.names.append(path)

    def _name(self, layer: Layer) -> None:
        taken = Counter(other.name for other in self._own)
        if not layer.name:
            kind, number = _snake(type(layer).__name__), 0
            while taken[kind if not number else f"{kind}_{number}"]:
                number += 1
            layer.name = kind if not number else f"{kind}_{number}"
        elif taken[layer.name]:
            raise ValueError(f"two layers are named {layer.name!r}; names must differ.")


def Input(shape: Sequence[int], name: str = "") -> Symbol:  # noqa: N802 (as Keras spells it)
    """An input of a model.

    Args:
        shape: Of one sample, without the batch axis.
        name: How the input is called.
    """
    return Symbol(tuple(shape), name=name)


def _in_order(outputs: Sequence[Symbol]) -> Iterator[Symbol]:
    """Every symbol that `outputs` depend on, each after those that it reads."""
    done: set[Symbol] = set()
    stack = [(symbol, False) for symbol in reversed(outputs)]
    while stack:
        symbol, ready = stack.pop()
        if symbol in done:
            continue
        if ready:
            done.add(symbol)
            yield symbol
            continue
        stack.append((symbol, True))
        stack.extend((before, False) for before in reversed(symbol.inputs))


def _sum(before: Array | None, more: Array) -> Array:
    return more if before is None else before + more


def batch_shape(shape: Shape) -> str:
    """A shape of one sample as that of a batch.

    >>> batch_shape((4,)), batch_shape(())
    ('(batch, 4)', '(batch,)')
    """
    return f"(batch, {', '.join(map(str, shape))})" if shape else "(batch,)"


@functools.cache
def _keep_memory() -> None:
    """Makes the C library keep what a step frees for the next one; no page of it is touched.

    glibc raises its limits for returning memory to the largest block of at most 32 MiB that was
    freed (mallopt(3), M_MMAP_THRESHOLD). With the first limits every step of a larger network
    gets all its memory from the system anew, which takes as long as the arithmetic.

    This holds for the whole process and is done once, with its first network: blocks of up to
    32 MiB come from the heap from then on, of which at most 64 MiB stay unused. With another C
    library nothing changes.
    """
    np.empty(2**25 - 2**16, np.uint8)


def _snake(name: str) -> str:
    """As Keras spells it: "LSTM" is "lstm", "MaxPooling1D" is "max_pooling1d"."""
    return re.sub("(?<=.)(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", name).lower()
