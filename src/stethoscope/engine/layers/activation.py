"""Activations as layers of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stethoscope.engine.activations import Activation as Function
from stethoscope.engine.layers._base import Array, Forward, Layer, Mode, Shape, Weights, single
from stethoscope.vocabulary import LayerKind


class Activation(Layer):
    """An activation function as a step of its own: what comes in is its pre-activation.

    >>> Activation("relu").shape([(3,)])
    (3,)
    """

    kind = LayerKind.ACTIVATION

    def __init__(self, activation: str | Function, *, name: str | None = None) -> None:
        super().__init__(activation=activation, name=name)

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        shape: Shape = single(inputs, self)
        return shape

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        return Forward(single(inputs, self))

    def backward(
        self, gradient: Array, saved: Any, weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        return [gradient], {}
