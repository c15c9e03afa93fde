"""What can be read of a model: its layers, its weights, and a table of both."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stethoscope.engine.layers._base import Array, Layer
from stethoscope.engine.network import Network, batch_shape


class Inspectable(abc.ABC):
    """A model whose layers and weights can be read and set."""

    @property
    @abc.abstractmethod
    def network(self) -> Network:
        """The layers and their weights.

        Raises:
            RuntimeError: The shape of the input is not known yet.
        """

    @property
    def layers(self) -> list[Layer]:
        """Each layer once, in the order of the forward pass."""
        return self.network.layers

    @property
    def weights(self) -> dict[str, Array]:
        """Name ("dense/kernel") to array: those that the layers read."""
        return self.network.weights

    def get_weights(self) -> list[Array]:
        """Copies of the weights, in the order of the layers."""
        return [value.copy() for value in self.network.weights.values()]

    def set_weights(self, values: Sequence[npt.ArrayLike]) -> None:
        """Sets all weights, in the order of `get_weights`.

        Raises:
            ValueError: Their number or shapes are not those of the model.
        """
        weights = self.network.weights
        if len(values) != len(weights):
            raise ValueError(f"the model has {len(weights)} weights; got {len(values)}.")
        arrays = [np.array(value, self.network.dtype) for value in values]
        for (name, old), new in zip(weights.items(), arrays, strict=True):
            if new.shape != old.shape:
                raise ValueError(f"{name} has the shape {old.shape}; got {new.shape}.")
        weights.update(zip(weights, arrays, strict=True))

    def summary(self) -> None:
        """Prints a line for each layer: name, class, shape of its output, number of parameters."""
        network = self.network
        rows, seen = [("layer", "class", "output", "parameters")], set()
        for node in network.nodes:
            own = {} if node.layer in seen else network.weights_of(node.layer)
            seen.add(node.layer)
            size = sum(value.size for value in own.values())
            rows.append(
                (node.path, type(node.layer).__name__, batch_shape(node.shape), f"{size:,}")
            )
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for *words, size_text in rows:
            line = "  ".join(word.ljust(width) for word, width in zip(words, wide, strict=False))
            print(f"{line}  {size_text.rjust(wide[-1])}")
        total = sum(value.size for value in network.weights.values())
        trained = sum(network.weights[name].size for name in network.trained)
        print(f"{total:,} parameters, {trained:,} of them trained")
