"""What the last layer gives its loss: shared by the rules on outputs, losses and targets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from stethoscope.program import DataSpec, LayerSpec, LossSpec, Program
from stethoscope.rules._base import activation_place, loss_place
from stethoscope.rules._baseline import target_of
from stethoscope.types import Place
from stethoscope.vocabulary import AFFINE, PASS_THROUGH, LayerKind, TargetKind

_OVER_CLASSES = (TargetKind.CLASS_IDS, TargetKind.DISTRIBUTION)
_DECIDING = (*AFFINE, LayerKind.ACTIVATION, LayerKind.RECURRENT)
"""Kinds whose activation says what range the output has; a sum or a custom layer says nothing."""


@dataclasses.dataclass(frozen=True)
class Head:
    """One loss with what it is given.

    Attributes:
        index: Of the loss in the program.
        loss: The loss.
        layer: The layer whose output is the prediction; None when not traced.
        activation: Of that output; None when unknown.
        target: Facts of its targets; None when not seen.
        units: Size of the prediction's last axis; None when unknown.
    """

    index: int
    loss: LossSpec
    layer: LayerSpec | None
    activation: str | None
    target: DataSpec | None
    units: int | None

    @property
    def selects(self) -> bool:
        """Whether the program may leave targets out of the loss, by weights or a mask of its own.

        What the loss cannot take of its targets may then be what never reaches it.
        """
        weights = self.loss.config.get("sample_weight")
        by_hand = self.loss.type == "hand-written" and self.loss.weighted
        return bool(weights) or by_hand or self.loss.reduction == "none"

    def place(self, program: Program) -> Place:
        """The activation of the output layer, or the loss where the layer is unknown."""
        if self.layer is not None:
            return activation_place(program, self.layer.path)
        return loss_place(program, self.index)


def heads(program: Program) -> Iterator[Head]:
    """Every loss of the program with the layer, activation and target it works on."""
    outputs = program.output_layers()
    for index, loss in enumerate(program.losses):
        layer = program.layer(loss.output) if loss.output else None
        traced = "computed" in loss.config  # of values that no layer gave as they are
        if layer is None and not traced and len(program.losses) == 1 and len(outputs) == 1:
            layer = outputs[0]
        layer = _acting(program, layer)
        target = target_of(program, loss)
        if len(program.targets) == len(program.losses):
            target = program.targets[index]
        known = layer is not None and layer.kind in _DECIDING
        activation = layer.activation if layer is not None and known else None
        yield Head(index, loss, layer, activation, target, _units(loss, layer))


def _acting(program: Program, layer: LayerSpec | None) -> LayerSpec | None:
    """The layer that decides the range: what comes behind it hands values on, or averages them."""
    seen: set[str] = set()
    while layer is not None and layer.kind in PASS_THROUGH:
        before = program.predecessors(layer.path)
        if len(before) != 1 or layer.path in seen or not before[0]:
            return layer
        seen.add(layer.path)
        layer = program.layer(before[0])
    return layer


def _units(loss: LossSpec, layer: LayerSpec | None) -> int | None:
    shape = loss.prediction_shape or (layer.output_shape if layer else None)
    if shape and len(shape) > 1:
        axis = loss.class_axis if loss.class_axis is not None else -1
        return shape[axis] if -len(shape) <= axis < len(shape) else shape[-1]
    if shape and len(shape) == 1:  # one sample without a batch axis, or one number a sample
        return shape[0] if loss.target_kind in _OVER_CLASSES else 1
    units = layer.config.get("units", layer.config.get("out_features")) if layer else None
    return int(units) if isinstance(units, int) else None
