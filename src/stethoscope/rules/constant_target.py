"""Every target is the same."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule, data_place
from stethoscope.types import Evidence, Symptom, SymptomClass


class ConstantTarget(ProgramRule):
    """Every target is the same.

    What it detects: one distinct value in all targets, once enough of them were seen.

    Why it is bad: a constant prediction is perfect; the input does not matter.

    How to fix: look at how the targets are read, cast or divided.

    False alarms: the "real" and "fake" targets of a GAN are constant by design: a suspicion.

    References: TheDeepChecker.
    """

    code = "D006"
    name = "constant-target"
    kind = SymptomClass.SUSPICION
    healthy = REGRESSOR
    faulty = REGRESSOR.but(target_scale=0.0, target_offset=2.0)

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a target."""
        for index, target in enumerate(program.targets):
            if target.constant and target.believable and target.rows_seen > 1:
                evidence = [Evidence("distinct targets", 1, 2, "<")]
                yield self.symptom(
                    data_place(program, "target", index),
                    evidence,
                    f"All {target.rows_seen} targets are {target.min:g}.",
                )
