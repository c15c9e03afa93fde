"""Activations with settings or weights of their own, as layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stethoscope.engine import activations, initializers, regularizers
from stethoscope.engine.initializers import Initializer
from stethoscope.engine.layers._base import Array, Forward, Layer, Mode, Shape, Weights, single
from stethoscope.engine.regularizers import Regularizer
from stethoscope.vocabulary import LayerKind


class _Function(Layer):
    """A function as a step of its own: what comes in is its pre-activation."""

    kind = LayerKind.ACTIVATION

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        shape: Shape = single(inputs, self)
        return shape

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        return Forward(single(inputs, self))

    def backward(
        self, gradient: Array, saved: Any, weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        return [gradient], {}


class ReLU(_Function):
    """The larger of x and 0.

    Args:
        max_value: No output is above it; None sets no bound.
        negative_slope: y = negative_slope * (x - threshold) below `threshold`.
        threshold: y = x only above it.
        name: Unique in the network.

    Raises:
        ValueError: A setting is negative.

    >>> ReLU(max_value=6).activation.forward(np.array([-1.0, 7.0])).tolist()
    [0.0, 6.0]
    """

    def __init__(
        self,
        max_value: float | None = None,
        negative_slope: float = 0.0,
        threshold: float = 0.0,
        *,
        name: str | None = None,
    ) -> None:
        for setting, value in [
            ("max_value", max_value),
            ("negative_slope", negative_slope),
            ("threshold", threshold),
        ]:
            if value is not None and value < 0:
                raise ValueError(f"ReLU needs a {setting} of at least 0; got {value}.")
        function = activations.relu(negative_slope, max_value, threshold)
        super().__init__(activation=function, name=name)
        self.max_value = max_value
        self.negative_slope = negative_slope
        self.threshold = threshold


class LeakyReLU(_Function):
    """`x` where x >= 0, negative_slope * x elsewhere.

    Args:
        negative_slope: At least 0. (As a function, `activations.leaky_relu`, it is 0.2.)
        name: Unique in the network.

    Raises:
        ValueError: The slope is negative.
    """

    def __init__(self, negative_slope: float = 0.3, *, name: str | None = None) -> None:
        if negative_slope < 0:
            raise ValueError(f"LeakyReLU needs a slope of at least 0; got {negative_slope}.")
        super().__init__(activation=activations.leaky_relu(negative_slope), name=name)
        self.negative_slope = negative_slope


class ELU(_Function):
    """`x` where x > 0, alpha * (exp(x) - 1) elsewhere.

    Args:
        alpha: Minus the output far below 0.
        name: Unique in the network.
    """

    def __init__(self, alpha: float = 1.0, *, name: str | None = None) -> None:
        super().__init__(activation=activations.elu(alpha), name=name)
        self.alpha = alpha


class Softmax(_Function):
    """Powers exp(x) that sum to 1 over an axis.

    Args:
        axis: Counts the batch axis.
        name: Unique in the network.
    """

    def __init__(self, axis: int = -1, *, name: str | None = None) -> None:
        super().__init__(activation=activations.softmax(axis), name=name)
        self.axis = axis


class PReLU(Layer):
    """`x` where x > 0, alpha * x elsewhere, with a trained alpha for each unit.

    Weights: `alpha`, of the input's shape without the batch axis and 1 along `shared_axes`.

    Args:
        alpha_initializer: By name or as an initializer.
        alpha_regularizer: By name, as a regularizer, or None.
        shared_axes: Axes along which alpha is the same; the first after the batch axis is 1.
        name: Unique in the network.

    >>> PReLU(shared_axes=[1]).build([(8, 3)], np.random.default_rng(0))["alpha"].shape
    (1, 3)
    """

    kind = LayerKind.ACTIVATION
    cell_activation = activations.Activation(
        "prelu", lambda x: x, lambda gradient, _x, _y: gradient
    )
    """What the program calls it; the arithmetic needs the weight and is below."""

    def __init__(
        self,
        alpha_initializer: str | Initializer = "zeros",
        alpha_regularizer: str | Regularizer | None = None,
        shared_axes: int | Sequence[int] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self.alpha_initializer = initializers.get(alpha_initializer)
        self.alpha_regularizer = regularizers.get(alpha_regularizer)
        axes = [shared_axes] if isinstance(shared_axes, int) else shared_axes or ()
        self.shared_axes = tuple(axes)

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        shape: Shape = single(inputs, self)
        beyond = [axis for axis in self.shared_axes if not 1 <= axis <= len(shape)]
        if beyond:
            raise ValueError(
                f"{self.called} needs shared_axes between 1 and {len(shape)}, the axes after "
                f"the batch axis; got {beyond[0]}."
            )
        return shape

    def build(self, inputs: Sequence[Shape], rng: np.random.Generator) -> dict[str, Array]:
        shape = list(single(inputs, self))
        for axis in self.shared_axes:
            shape[axis - 1] = 1
        return {"alpha": self.alpha_initializer(tuple(shape), rng)}

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        x = single(inputs, self)
        output = np.minimum(x, 0)
        output *= weights["alpha"]
        output += np.maximum(x, 0)
        return Forward(output, x)

    def backward(
        self, gradient: Array, saved: Array, weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        of_alpha = (gradient * np.minimum(saved, 0)).sum(axis=(0, *self.shared_axes))
        slope = weights["alpha"] * (saved < 0)
        slope += saved > 0
        slope *= gradient
        return [slope], {"alpha": of_alpha.reshape(weights["alpha"].shape)}
