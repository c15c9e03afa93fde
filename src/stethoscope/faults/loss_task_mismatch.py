"""The loss is for another kind of target."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.faults._base import (
    BLOW_UP,
    CERTAIN,
    LIKELY,
    NO_GRADIENT,
    NO_LEARNING,
    Fault,
    Findings,
    Suspect,
)
from stethoscope.faults._head import fitting
from stethoscope.faults._output_layer import claim, head_at
from stethoscope.rules._base import loss_path
from stethoscope.types import Change, Fix, Op


class LossTaskMismatch(Fault):
    """The loss is for another kind of target."""

    name = "loss-task-mismatch"
    group = "structure"
    shown_by = frozenset({"value-loss-on-classes", "class-loss-on-values"})
    effects = (
        NO_LEARNING | BLOW_UP | NO_GRADIENT | frozenset({"output-range", "output-loss-mismatch"})
    )
    healthy = REGRESSOR
    faulty = REGRESSOR.but(loss="binary_crossentropy", from_logits=True)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("value-loss-on-classes", "class-loss-on-values"):
            head = head_at(findings, symptom)
            fit = fitting(head) if head else None
            if head is None or fit is None:
                continue
            change = Change(
                Op.SET, loss_path(findings.program, head.index, "name"), fit.loss, head.loss.source
            )
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
                **claim(head, fatal=symptom.name == "class-loss-on-values"),
            )
