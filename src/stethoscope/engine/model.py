"""Models that people write by hand: layers in a row, or a graph of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stethoscope.engine.batches import several
from stethoscope.engine.layers._base import Array, Layer, Shape, Symbol
from stethoscope.engine.network import Input, Network
from stethoscope.engine.training import Data, Trainable


class Model(Trainable):
    """A graph of layers with any number of inputs and outputs.

    Args:
        inputs: An `Input`, or several.
        outputs: What the model computes, one or several.
        seed: Of the first weights, the shuffling and dropout.
        dtype: float32 or float64, of every computation.

    >>> from stethoscope.engine import Add, Dense, Input, Model
    >>> x = Input((2,))
    >>> h = Dense(2, "relu")(x)
    >>> model = Model(x, Dense(1)(Add()([x, h])), seed=0)
    >>> model.compile(optimizer="sgd", loss="mse")
    >>> rows = np.random.default_rng(0).normal(size=(64, 2))
    >>> figures = model.fit(rows, rows.sum(axis=1), epochs=100).history
    >>> figures["loss"][-1] < 0.1 * figures["loss"][0]
    True
    """

    def __init__(
        self,
        inputs: Symbol | Sequence[Symbol],
        outputs: Symbol | Sequence[Symbol],
        *,
        seed: int = 0,
        dtype: npt.DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        self._network = Network(_listed(inputs), _listed(outputs), seed=seed, dtype=dtype)

    @property
    def network(self) -> Network:
        return self._network

    @property
    def output_count(self) -> int:
        return len(self._network.outputs)


class Sequential(Trainable):
    """Layers one after the other; built when the weights are first asked for.

    Args:
        layers: The first layers; more come with `add` and `insert`. An `Input` before them says
            the shape of one sample, as `input_shape` does.
        input_shape: Of one sample; None takes it from the first batch.
        seed: Of the first weights, the shuffling and dropout.
        dtype: float32 or float64, of every computation.

    >>> from stethoscope.engine import Activation, Dense, Sequential
    >>> model = Sequential([Dense(4), Dense(1)], seed=0)
    >>> model.insert(1, Activation("tanh"))
    >>> model.compile("sgd", "mse")
    >>> [layer.name for layer in model.build((2,)).layers]
    ['dense', 'activation', 'dense_1']
    """

    def __init__(
        self,
        layers: Sequence[Layer | Symbol] = (),
        *,
        input_shape: Shape | None = None,
        seed: int = 0,
        dtype: npt.DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        self._layers: list[Layer] = []
        self._settings: dict[str, Any] = {"seed": seed, "dtype": dtype}
        self._network: Network | None = None
        self._input_shape = input_shape
        for layer in layers:
            self.add(layer)

    def add(self, layer: Layer | Symbol) -> None:
        """Appends a layer; the first may be an `Input`."""
        self.insert(len(self._layers), layer)

    def insert(self, index: int, layer: Layer | Symbol) -> None:
        """Puts a layer before the one at `index`.

        Raises:
            RuntimeError: The network is built: its weights would no longer fit.
            TypeError: It is no layer.
            ValueError: It is an `Input` that is not the first, or not the only one.
        """
        if self._network is not None:
            raise RuntimeError("the network is built; add its layers before the first batch.")
        if isinstance(layer, Symbol):
            self._begin(layer)
        elif isinstance(layer, Layer):
            self._layers.insert(index, layer)
        else:
            raise TypeError(f"expected a layer of stethoscope.engine; got {layer!r}.")

    def _begin(self, first: Symbol) -> None:
        """Takes the shape of an `Input`."""
        if first.layer is not None:
            raise ValueError(
                "a Sequential takes layers, not what they compute: give the layer without calling "
                "it, or use Model(inputs, outputs)."
            )
        if self._layers or self._input_shape not in (None, first.shape):
            raise ValueError("a Sequential has one Input, before its first layer.")
        self._input_shape = first.shape

    def build(self, input_shape: Shape) -> Network:
        """Makes the weights for inputs of this shape (of one sample)."""
        symbol = first = Input(input_shape)
        for layer in self._layers:
            symbol = layer(symbol)
        self._network = Network([first], [symbol], **self._settings)
        return self._network

    @property
    def network(self) -> Network:
        if self._network is None:
            if self._input_shape is None:
                raise RuntimeError(
                    "the input's shape is not known: train first, or call build(shape)."
                )
            return self.build(self._input_shape)
        return self._network

    @property
    def layers(self) -> list[Layer]:
        return list(self._layers)

    @property
    def output_count(self) -> int:
        return 1

    def _arrays(self, x: Data) -> list[Array]:
        if self._network is None and self._input_shape is None:
            self.build(np.asarray(several(x, 1)[0]).shape[1:])
        return super()._arrays(x)


def _listed(value: Symbol | Sequence[Symbol]) -> list[Symbol]:
    return [value] if isinstance(value, Symbol) else list(value)
