"""A softmax over a single unit."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import BINARY
from stethoscope.program import LayerSpec, Program
from stethoscope.rules._base import ProgramRule, activation_place
from stethoscope.types import Evidence, Symptom, SymptomClass


class SingleUnitSoftmax(ProgramRule):
    """Softmax is applied over an axis of length 1.

    What it detects: an output whose activation is softmax and whose softmax axis has one entry.

    Why it is bad: softmax of one number is 1 whatever the number is; the output is constant and
    every gradient upstream is exactly 0.

    How to fix: use a sigmoid for a binary target, no activation for a real-valued one, or one
    unit per class.

    False alarms: attention over one position, or a gate over one expert, inside a model: only
    outputs are read.

    References: DeepDiagnosis (ICSE'22), motivating example; NeuraLint.
    """

    code = "S001"
    name = "single-unit-softmax"
    kind = SymptomClass.CONTRADICTION
    healthy = BINARY.but(output_activation="sigmoid", from_logits=False)
    faulty = healthy.but(output_activation="softmax")

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a layer."""
        for spec in program.output_layers() or program.layers[-1:]:
            if spec.activation not in ("softmax", "log_softmax") or _width(spec) != 1:
                continue
            evidence = [Evidence(f"units of {spec.path} under softmax", 1, 2, "<")]
            yield self.symptom(
                activation_place(program, spec.path),
                evidence,
                "Softmax over one unit is 1.0 whatever the weights are, so nothing can be learned.",
            )


def _width(spec: LayerSpec) -> int | None:
    axis = spec.config.get("axis", spec.config.get("dim", -1))
    if not spec.output_shape:
        units = spec.config.get("units", spec.config.get("out_features"))
        return int(units) if isinstance(units, int) else None
    if not isinstance(axis, int) or not -len(spec.output_shape) <= axis < len(spec.output_shape):
        axis = -1
    if axis % len(spec.output_shape) == 0:
        return None  # over the batch: softmax-axis speaks
    return spec.output_shape[axis]
