"""Layers in a row that saturate."""

from __future__ import annotations

from stethoscope.program import LayerSpec, Program
from stethoscope.rules._output import heads
from stethoscope.vocabulary import AFFINE, PASS_THROUGH, LayerKind

LONGEST = {"sigmoid": 4, "hard_sigmoid": 4, "softsign": 8, "tanh": 8, "hard_tanh": 8}
"""Layers in a row from which a chain is told: a sigmoid takes 3/4 or more, a tanh about half."""


def saturating_chain(program: Program, first: LayerSpec) -> list[LayerSpec]:
    """The layers with the activation of `first` that follow each other from it on.

    Only linear maps and layers that hand values on may lie between: a normalization or a second
    path (a shortcut) ends the chain. The output is none of them: its activation is what the loss
    takes, and a crossentropy makes up for its slope.
    """
    outputs = {head.layer.path for head in heads(program) if head.layer is not None}
    found: list[LayerSpec] = []
    layer: LayerSpec | None = first
    while layer is not None and layer.path not in outputs and len(found) <= len(program.layers):
        saturates = layer.activation in LONGEST and layer.kind is not LayerKind.RECURRENT
        if saturates and layer.activation == first.activation:
            found.append(layer)
        elif not found or saturates or not _hands_on(layer):
            break
        after = program.successors(layer.path)
        layer = program.layer(after[0]) if len(after) == 1 else None
    return found


def _hands_on(layer: LayerSpec) -> bool:
    """Whether a layer between two activations is linear or hands values on."""
    return layer.kind in (*AFFINE, *PASS_THROUGH) and layer.activation in ("linear", None)
