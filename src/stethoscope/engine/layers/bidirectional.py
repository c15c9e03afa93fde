"""A recurrent layer that reads its input in both directions."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stethoscope.engine.layers._base import Array, Forward, Layer, Mode, Shape, Weights
from stethoscope.engine.layers._recurrence import Recurrence
from stethoscope.vocabulary import LayerKind

MODES = ("concat", "sum", "mul", "ave")


class Bidirectional(Layer):
    """A recurrent layer and its mirror image, merged.

    Weights: those of the layer, named `forward_...` and `backward_...`.

    Args:
        layer: What reads; of the backward direction, a copy with `go_backwards` turned.
        merge_mode: How the outputs of one time step are joined: "concat", "sum", "mul" or "ave".
        backward_layer: What reads backwards, if it is not a copy.
        name: Unique in the network.

    Raises:
        ValueError: There is no such merge mode, or both layers read in one direction.

    >>> from stethoscope.engine.layers.recurrent import LSTM
    >>> Bidirectional(LSTM(4)).shape([(10, 3)])
    (8,)
    """

    kind = LayerKind.RECURRENT

    def __init__(
        self,
        layer: Recurrence,
        merge_mode: str = "concat",
        *,
        backward_layer: Recurrence | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if merge_mode not in MODES:
            raise ValueError(
                f"Bidirectional needs a merge_mode of {', '.join(MODES)}; got {merge_mode!r}."
            )
        self.merge_mode = merge_mode
        self.forward_layer = layer
        self.backward_layer = backward_layer or copy.copy(layer)
        if backward_layer is None:
            self.backward_layer.go_backwards = not layer.go_backwards
        ahead, behind = self.forward_layer, self.backward_layer
        if ahead.go_backwards == behind.go_backwards:
            raise ValueError("Bidirectional needs layers that differ in go_backwards.")
        if (ahead.return_sequences, ahead.units) != (behind.return_sequences, behind.units):
            raise ValueError("Bidirectional needs layers equal in return_sequences and units.")
        self.cell_activation = layer.cell_activation

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        shape = self.forward_layer.shape(inputs)
        return (*shape[:-1], 2 * shape[-1]) if self.merge_mode == "concat" else shape

    def build(self, inputs: Sequence[Shape], rng: np.random.Generator) -> dict[str, Array]:
        return {
            prefix + name: value
            for prefix, layer in self._directions
            for name, value in layer.build(inputs, rng).items()
        }

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        ahead, behind = (
            layer.forward(inputs, _of(prefix, weights), mode) for prefix, layer in self._directions
        )
        a, b = ahead.output, self._turned(behind.output)
        if self.merge_mode == "concat":
            output = np.concatenate([a, b], axis=-1)
        elif self.merge_mode == "mul":
            output = a * b
        else:
            output = a + b
            if self.merge_mode == "ave":
                output /= 2
        return Forward(output, (ahead.saved, behind.saved, a, b))

    def backward(
        self, gradient: Array, saved: tuple[Any, Any, Array, Array], weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        *passes, a, b = saved
        if self.merge_mode == "concat":
            parts = np.split(gradient, 2, axis=-1)
        elif self.merge_mode == "mul":
            parts = [gradient * b, gradient * a]
        else:
            parts = [gradient / 2 if self.merge_mode == "ave" else gradient] * 2
        parts[1] = self._turned(parts[1])
        back: list[Array] = []
        gradients: dict[str, Array] = {}
        for (prefix, layer), part, kept in zip(self._directions, parts, passes, strict=True):
            (of_input,), found = layer.backward(part, kept, _of(prefix, weights))
            back.append(of_input)
            gradients |= {prefix + name: value for name, value in found.items()}
        return [back[0] + back[1]], gradients

    def penalties(self) -> Mapping[str, Any]:
        return {
            prefix + name: penalty
            for prefix, layer in self._directions
            for name, penalty in layer.penalties().items()
        }

    @property
    def _directions(self) -> tuple[tuple[str, Recurrence], tuple[str, Recurrence]]:
        return ("forward_", self.forward_layer), ("backward_", self.backward_layer)

    def _turned(self, output: Array) -> Array:
        """A sequence of the backward layer, which is in the order it was read, turned round."""
        return output[:, ::-1] if self.forward_layer.return_sequences else output


def _of(prefix: str, weights: Weights) -> dict[str, Array]:
    return {
        name.removeprefix(prefix): value
        for name, value in weights.items()
        if name.startswith(prefix)
    }
