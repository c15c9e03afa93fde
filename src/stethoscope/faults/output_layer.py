"""Endings of a network that contradict its loss or its targets."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.faults._base import (
    BLOW_UP,
    CERTAIN,
    LIKELY,
    NO_GRADIENT,
    NO_LEARNING,
    POSSIBLE,
    Fault,
    Findings,
    Suspect,
    set_activation,
    set_to,
)
from stethoscope.faults._head import Fitting, fitting
from stethoscope.rules._output import Head, heads
from stethoscope.types import Change, Fix, Op, Symptom
from stethoscope.vocabulary import Expects

_EFFECTS = BLOW_UP | NO_LEARNING | NO_GRADIENT | frozenset({"dead-units", "update-ratio-too-large"})


class SingleUnitSoftmax(Fault):
    """Softmax over one unit is constant."""

    name = "single-unit-softmax"
    group = "structure"
    shown_by = frozenset({"single-unit-softmax"})
    effects = _EFFECTS | frozenset({"output-range", "output-range-touched", "saturated-activation"})

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("single-unit-softmax"):
            spec = findings.program.layer(symptom.place.layer or "")
            if spec is None:
                continue
            head = _head_of(findings, spec.path)
            fit = fitting(head) if head else None
            activation = fit.activation if fit and fit.activation != "softmax" else "sigmoid"
            words = fit.why if fit else "one unit"
            if fit is None or fit.units in (None, 1):
                fixes = [set_activation(spec, activation, words)]
            else:
                fixes = [_widen(findings, head, fit)] if head else []
            why = [("How many units does softmax run over?", "1"), ("What are the targets?", words)]
            yield self.suspect([symptom], confidence=0.99, fixes=fixes, why=why, fatal=True)


class OutputLossMismatch(Fault):
    """The loss takes probabilities and the last layer gives none."""

    name = "output-loss-mismatch"
    group = "structure"
    shown_by = frozenset({"output-loss-mismatch", "competing-labels"})
    effects = _EFFECTS | frozenset({"output-range-touched"})

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("output-loss-mismatch", "competing-labels"):
            head = _head_at(findings, symptom)
            if head is None or head.layer is None:
                continue
            need = str(next(e.bound for e in symptom.evidence if e.relation == "!="))
            fixes = [set_activation(head.layer, need, f"{head.loss.type} takes it")]
            if head.activation == "linear":
                fixes.append(
                    set_to(
                        "loss.from_logits",
                        True,
                        head.loss.source,
                        f"or tell {head.loss.type} that it gets logits",
                    )
                )
            sure = CERTAIN if symptom.name == "output-loss-mismatch" else POSSIBLE
            why = [
                (f"What does {head.loss.type} take?", str(head.loss.expects)),
                ("What does the last activation give?", head.activation or "unknown"),
            ]
            yield self.suspect([symptom], confidence=sure, fixes=fixes, why=why)


class DoubleActivation(Fault):
    """The loss applies softmax (or sigmoid) itself, to what already went through it."""

    name = "double-activation"
    group = "structure"
    shown_by = frozenset({"double-activation"})
    effects = NO_LEARNING | NO_GRADIENT

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("double-activation"):
            head = _head_at(findings, symptom)
            if head is None:
                continue
            if head.layer is not None:
                fixes = [set_activation(head.layer, "linear", f"{head.loss.type} takes logits")]
            else:
                change = Change(Op.REMOVE, "loss.input.activation", None, symptom.place.source)
                fixes = [Fix("remove the softmax before the loss", change)]
            why = [
                (f"What does {head.loss.type} take?", "logits"),
                ("What is it given?", f"the output of {head.activation or 'a softmax'}"),
            ]
            yield self.suspect([symptom], confidence=CERTAIN, fixes=fixes, why=why, fatal=True)


class OutputRangeMismatch(Fault):
    """The last activation cannot give what the targets are."""

    name = "output-range-mismatch"
    group = "structure"
    shown_by = frozenset({"output-range", "output-range-touched"})
    effects = _EFFECTS | frozenset({"unscaled-target", "saturated-activation"})

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("output-range", "output-range-touched"):
            head = _head_at(findings, symptom)
            if head is None or head.layer is None:
                continue
            fit = fitting(head)
            activation = fit.activation if fit else "linear"
            if head.loss.expects is Expects.VALUES:
                activation = "linear"
            fixes = [set_activation(head.layer, activation, fit.why if fit else "targets are real")]
            sure = CERTAIN if symptom.name == "output-range" else POSSIBLE
            why = [("Can the last activation give the targets?", f"no: {symptom.message}")]
            yield self.suspect(
                [symptom],
                confidence=sure,
                fixes=fixes,
                why=why,
                fatal=symptom.name == "output-range",
            )


class OutputWidthMismatch(Fault):
    """The output has too few units for the classes."""

    name = "output-width-mismatch"
    group = "structure"
    shown_by = frozenset({"output-width"})
    effects = _EFFECTS

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("output-width"):
            head = _head_at(findings, symptom)
            fit = fitting(head) if head else None
            if head is None or fit is None or fit.units is None:
                continue
            why = [("Is there a unit for each class?", f"no: {symptom.message}")]
            yield self.suspect(
                [symptom],
                confidence=CERTAIN,
                fixes=[_widen(findings, head, fit)],
                why=why,
                fatal=True,
            )


class LossTaskMismatch(Fault):
    """The loss is for another kind of target."""

    name = "loss-task-mismatch"
    group = "structure"
    shown_by = frozenset({"value-loss-on-classes", "class-loss-on-values"})
    effects = (
        NO_LEARNING | BLOW_UP | NO_GRADIENT | frozenset({"output-range", "output-loss-mismatch"})
    )

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("value-loss-on-classes", "class-loss-on-values"):
            head = _head_at(findings, symptom)
            fit = fitting(head) if head else None
            if head is None or fit is None:
                continue
            change = Change(Op.SET, "loss.name", fit.loss, head.loss.source)
            also: tuple[Change, ...] = ()
            title = f"loss {head.loss.type} -> {fit.loss} ({fit.why})"
            if head.layer is not None and head.activation not in (fit.activation, None):
                path = f"layers[{head.layer.path}].activation"
                source = head.layer.activation_source or head.layer.source
                also = (Change(Op.SET, path, fit.activation, source),)
                title += f", with {fit.activation} on {head.layer.path}"
            sure = CERTAIN if symptom.name == "class-loss-on-values" else LIKELY
            why = [("What are the targets?", fit.why), ("What is the loss for?", symptom.message)]
            yield self.suspect(
                [symptom],
                confidence=sure,
                fixes=[Fix(title, change, also)],
                why=why,
                fatal=symptom.name == "class-loss-on-values",
            )


def _widen(findings: Findings, head: Head, fit: Fitting) -> Fix:
    producer = findings.program.producer(head.layer.path) if head.layer else None
    path = producer.path if producer else "output"
    source = producer.source if producer else head.loss.source
    first = Change(Op.SET, f"layers[{path}].units", fit.units, source)
    also = [Change(Op.SET, "loss.name", fit.loss, head.loss.source)]
    if head.layer is not None and head.activation != fit.activation:
        where = head.layer.activation_source or head.layer.source
        also.append(Change(Op.SET, f"layers[{head.layer.path}].activation", fit.activation, where))
    return Fix(
        f"{fit.units} units with {fit.activation} and {fit.loss} ({fit.why})", first, tuple(also)
    )


def _head_at(findings: Findings, symptom: Symptom) -> Head | None:
    """The head that a symptom speaks of."""
    found = list(heads(findings.program))
    for head in found:
        if head.layer is not None and head.layer.path == symptom.place.layer:
            return head
    index = (symptom.place.path or "").partition("[")[2].partition("]")[0]
    position = int(index) if symptom.place.layer is None and index.isdigit() else 0
    return found[position] if position < len(found) else None


def _head_of(findings: Findings, layer: str) -> Head | None:
    return next(
        (h for h in heads(findings.program) if h.layer is not None and h.layer.path == layer), None
    )
