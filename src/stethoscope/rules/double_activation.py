"""Softmax or sigmoid before a loss, or a last activation, that applies it again."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import CLASSIFIER, Example
from stethoscope.program import LayerSpec, Program
from stethoscope.rules._base import ProgramRule, activation_place
from stethoscope.rules._output import Head, heads
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import PASS_THROUGH, Expects, LayerKind, TargetKind

_SOFTMAXES = ("softmax", "log_softmax")
_SIGMOIDS = ("sigmoid", "hard_sigmoid")


class DoubleActivation(ProgramRule):
    """A loss on logits, or the last softmax, is given probabilities.

    What it detects: the loss expects logits, and the last activation is softmax (sigmoid for a
    binary loss), or every row of the real argument is non-negative and sums to 1; or the last
    softmax or log_softmax (sigmoid for a binary loss) comes straight after another.

    Why it is bad: the loss applies its own softmax to numbers between 0 and 1: the probabilities
    it works with can never be sharper than e to 1, so the loss has a floor and gradients are weak.

    How to fix: remove the activation, or use the loss on probabilities.

    False alarms: log_softmax before a loss on logits changes nothing and is not accused.

    References: UMLAUT (CHI'21); NeuraLint; PyTorch forum's commonest classifier mistake.
    """

    code = "S004"
    name = "double-activation"
    kind = SymptomClass.CONTRADICTION
    healthy = CLASSIFIER
    faulty = Example(output_activation="softmax")

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a loss."""
        for head in heads(program):
            inner = squashed_before(program, head)
            if inner is not None and head.layer is not None:
                name, where = inner.activation or "", head.layer.path
                evidence = [Evidence(f"input of {where}", name, "logits", "!=")]
                yield self.symptom(
                    activation_place(program, inner.path),
                    evidence,
                    f"{where} applies {head.activation} to the output of {name}: probabilities are "
                    "squashed twice.",
                )
            if head.loss.expects is not Expects.LOGITS or not _doubled(head):
                continue
            seen = head.loss.prediction
            name = head.activation or "softmax"
            evidence = [Evidence(f"input of {head.loss.type}", name, "logits", "!=")]
            if seen is not None and seen.min is not None and seen.max is not None:
                size = max(abs(seen.min), abs(seen.max))
                evidence.append(Evidence(f"largest input of {head.loss.type}", size, 1, "<"))
            yield self.symptom(
                head.place(program),
                evidence,
                f"{head.loss.type} applies {_own(head)} itself, but it is given the output of "
                f"{name}: probabilities are squashed twice.",
            )


def squashed_before(program: Program, head: Head) -> LayerSpec | None:
    """The activation that squashes what the last activation of `head` squashes again."""
    kinds = _SIGMOIDS if head.loss.target_kind is TargetKind.BINARY else _SOFTMAXES
    layer = head.layer
    if layer is None or layer.kind is not LayerKind.ACTIVATION or head.activation not in kinds:
        return None
    seen: set[str] = set()
    while layer is not None and layer.path not in seen:
        seen.add(layer.path)
        before = program.predecessors(layer.path)
        layer = program.layer(before[0]) if len(before) == 1 else None
        if layer is not None and layer.kind not in PASS_THROUGH:
            squashes = layer.activation in ("softmax", *_SIGMOIDS) and not _over_batch(layer)
            return layer if squashes else None
    return None


def _own(head: Head) -> str:
    return "sigmoid" if head.loss.target_kind is TargetKind.BINARY else "softmax"


def _doubled(head: Head) -> bool:
    seen = head.loss.prediction
    if head.loss.target_kind is TargetKind.BINARY:
        return head.activation in ("sigmoid", "hard_sigmoid") or (
            head.activation == "softmax" and (head.units or 0) > 1
        )
    if head.activation == "softmax" and not _over_batch(head.layer):
        return True
    if head.activation in ("sigmoid", "hard_sigmoid"):
        return True
    unknown = head.activation is None or head.activation == "softmax"
    return unknown and seen is not None and bool(seen.rows_sum_to_one) and not seen.one_hot


def _over_batch(layer: LayerSpec | None) -> bool:
    axis = layer.config.get("axis", layer.config.get("dim")) if layer else None
    return axis == 0
