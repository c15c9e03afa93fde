"""A table of vectors that class ids are looked up in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stethoscope.engine import initializers, regularizers
from stethoscope.engine.initializers import Initializer
from stethoscope.engine.layers._base import Array, Forward, Layer, Mode, Shape, Weights, single
from stethoscope.engine.regularizers import Regularizer
from stethoscope.vocabulary import LayerKind


class Embedding(Layer):
    """y = table[x]: each id of the input becomes a vector.

    An id beyond the table gives NaN, as with Keras on JAX; one from -input_dim to -1 counts from
    the end. Ids given as floating-point numbers lose what is behind the point.

    Weights: `embeddings` [input_dim, output_dim].

    Args:
        input_dim: How many ids there are.
        output_dim: Size of a vector.
        embeddings_initializer: By name or as an initializer.
        embeddings_regularizer: By name, as a regularizer, or None.
        mask_zero: Must be False: the layers of the engine know no masks.
        name: Unique in the network.

    Raises:
        ValueError: `mask_zero` is set, or a size is not positive.

    >>> Embedding(100, 8).shape([(20,)])
    (20, 8)
    """

    kind = LayerKind.EMBEDDING

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        *,
        embeddings_initializer: str | Initializer = "uniform",
        embeddings_regularizer: str | Regularizer | None = None,
        mask_zero: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if mask_zero:
            raise ValueError(
                "Embedding has no mask_zero=True here: the layers of the engine know no masks; "
                "set it to False, so that id 0 is a value like any other."
            )
        if input_dim <= 0 or output_dim <= 0:
            raise ValueError(
                f"Embedding needs positive sizes; got input_dim={input_dim}, "
                f"output_dim={output_dim}."
            )
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.embeddings_initializer = initializers.get(embeddings_initializer)
        self.embeddings_regularizer = regularizers.get(embeddings_regularizer)

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        return (*single(inputs, self), self.output_dim)

    def build(self, inputs: Sequence[Shape], rng: np.random.Generator) -> dict[str, Array]:
        size = (self.input_dim, self.output_dim)
        return {"embeddings": self.embeddings_initializer(size, rng)}

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        ids = single(inputs, self).astype(np.intp)
        table, last = weights["embeddings"], self.input_dim
        if ids.size and (ids.max() >= last or ids.min() < -last):
            beyond = (ids >= last) | (ids < -last)
            output = table[np.where(beyond, 0, ids)]
            output[beyond] = np.nan
            return Forward(output, (ids, beyond))
        return Forward(table[ids], (ids, None))

    def backward(
        self, gradient: Array, saved: tuple[Array, Array | None], weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        ids, beyond = saved
        rows = ids.reshape(-1, 1) % self.input_dim
        width = self.output_dim
        values = gradient if beyond is None else np.where(beyond[..., None], 0, gradient)
        # Three times as fast as numpy.add.at, and summed in float64.
        cells = (rows * width + np.arange(width)).reshape(-1)
        size = self.input_dim * width
        table = np.bincount(cells, values.reshape(-1), size).astype(gradient.dtype)
        back = np.zeros(ids.shape, gradient.dtype)  # no derivative with respect to an id
        return [back], {"embeddings": table.reshape(self.input_dim, width)}
