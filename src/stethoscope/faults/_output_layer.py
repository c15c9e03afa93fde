"""Endings of a network that contradict its loss or its targets."""

from __future__ import annotations

from typing import Any

from stethoscope.faults._base import (
    BLOW_UP,
    NO_GRADIENT,
    NO_LEARNING,
    Findings,
)
from stethoscope.faults._head import Fitting
from stethoscope.rules._base import loss_path
from stethoscope.rules._output import Head, heads
from stethoscope.types import Change, Fix, Op, Symptom, SymptomClass

EFFECTS = BLOW_UP | NO_LEARNING | NO_GRADIENT | frozenset({"dead-units", "update-ratio-too-large"})


def widen(findings: Findings, head: Head, fit: Fitting) -> Fix:
    producer = findings.program.producer(head.layer.path) if head.layer else None
    path = producer.path if producer else "output"
    source = producer.source if producer else head.loss.source
    first = Change(Op.SET, f"layers[{path}].units", fit.units, source)
    also = [
        Change(Op.SET, loss_path(findings.program, head.index, "name"), fit.loss, head.loss.source)
    ]
    if head.layer is not None and head.activation != fit.activation:
        where = head.layer.activation_source or head.layer.source
        also.append(Change(Op.SET, f"layers[{head.layer.path}].activation", fit.activation, where))
    return Fix(
        f"{fit.units} units with {fit.activation} and {fit.loss} ({fit.why})", first, tuple(also)
    )


def claim(head: Head | None, *, fatal: bool = True) -> dict[str, Any]:
    """Arguments of a suspect whose symptom says that the loss cannot take its targets.

    That is certain, unless targets may be left out of the loss: then it waits for harm.
    """
    if head is not None and head.selects:
        return {"kind": SymptomClass.SUSPICION, "fatal": False}
    return {"fatal": fatal}


def head_at(findings: Findings, symptom: Symptom) -> Head | None:
    """The head that a symptom speaks of."""
    found = list(heads(findings.program))
    for head in found:
        if head.layer is not None and head.layer.path == symptom.place.layer:
            return head
    index = (symptom.place.path or "").partition("[")[2].partition("]")[0]
    position = int(index) if symptom.place.layer is None and index.isdigit() else 0
    return found[position] if position < len(found) else None
