"""Layers that join several values into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stethoscope.engine.layers._base import Array, Forward, Layer, Mode, Shape, Weights
from stethoscope.vocabulary import LayerKind


class Add(Layer):
    """The sum of its inputs, which must have one shape.

    >>> Add().shape([(3,), (3,)])
    (3,)
    """

    kind = LayerKind.MERGE

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if len(set(inputs)) != 1:
            raise ValueError(f"Add {self.name!r} needs inputs of one shape; got {list(inputs)}.")
        return inputs[0]

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        return Forward(np.sum(inputs, axis=0), len(inputs))

    def backward(
        self, gradient: Array, saved: Any, weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        return [gradient] * saved, {}
