"""A fully connected layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stethoscope.engine import initializers, regularizers
from stethoscope.engine.activations import Activation
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


class Dense(Layer):
    """y = x W + b over the last axis.

    Weights: `kernel` [features, units] and `bias` [units].

    Args:
        units: Size of the output's last axis.
        activation: Applied to the output; None applies none.
        use_bias: Whether there is a bias.
        kernel_initializer, bias_initializer: By name or as an initializer.
        kernel_regularizer, bias_regularizer: By name, as a regularizer, or None.
        name: Unique in the network.

    >>> Dense(4).shape([(8,)])
    (4,)
    """

    kind = LayerKind.DENSE

    def __init__(
        self,
        units: int,
        activation: str | Activation | None = None,
        *,
        use_bias: bool = True,
        kernel_initializer: str | Initializer = "glorot_uniform",
        bias_initializer: str | Initializer = "zeros",
        kernel_regularizer: str | Regularizer | None = None,
        bias_regularizer: str | Regularizer | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(activation=activation, name=name)
        self.units = count(units, "Dense units")
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        shape: Shape = single(inputs, self)
        if not shape:
            raise ValueError(f"{self.called} needs features; got inputs of shape (batch,).")
        return (*shape[:-1], self.units)

    def build(self, inputs: Sequence[Shape], rng: np.random.Generator) -> dict[str, Array]:
        kernel = self.kernel_initializer((single(inputs, self)[-1], self.units), rng)
        if not self.use_bias:
            return {"kernel": kernel}
        return {"kernel": kernel, "bias": self.bias_initializer((self.units,), rng)}

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = single(inputs, self)
        output = x @ weights["kernel"]
        if self.use_bias:
            output += weights["bias"]
        return Forward(output, x)

    def backward(
        self, gradient: Array, saved: Array, weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        rows = gradient.reshape(-1, self.units)
        gradients = {"kernel": saved.reshape(-1, saved.shape[-1]).T @ rows}
        if self.use_bias:
            gradients["bias"] = rows.sum(axis=0)
        return [gradient @ weights["kernel"].T], gradients
