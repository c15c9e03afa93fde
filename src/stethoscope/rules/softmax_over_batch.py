"""Softmax runs over the samples of a batch."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import ONE_HOT
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule, activation_place
from stethoscope.types import Evidence, Symptom, SymptomClass


class SoftmaxAxis(ProgramRule):
    """Softmax runs over the samples of a batch.

    What it detects: a softmax over axis 0 of an output with a batch axis.

    Why it is bad: the outputs of one sample depend on the others of its batch and do not sum to 1.

    How to fix: softmax over the last axis (dim=-1).

    False alarms: contrastive losses normalize over the batch on purpose, in the loss, which is not
    a layer of the model.

    References: PyTorch's warning on an implicit softmax dimension; NeuraLint.
    """

    code = "S013"
    name = "softmax-over-batch"
    kind = SymptomClass.CONTRADICTION
    healthy = ONE_HOT
    faulty = ONE_HOT.but(softmax_axis=0)

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a layer."""
        for spec in program.output_layers():
            axis = spec.config.get("axis", spec.config.get("dim"))
            if spec.activation not in ("softmax", "log_softmax") or not isinstance(axis, int):
                continue
            rank = len(spec.output_shape) if spec.output_shape else 0
            if rank < 2 or axis % rank != 0:
                continue
            evidence = [Evidence(f"axis of {spec.path}", axis, -1, "!=")]
            yield self.symptom(
                activation_place(program, spec.path),
                evidence,
                "Softmax runs over axis 0, the samples of the batch, not over the classes.",
            )
