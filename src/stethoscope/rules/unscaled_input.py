"""The inputs are large, or their columns differ widely in scale."""

from __future__ import annotations

import math
from collections.abc import Iterable

from stethoscope.example import CLASSIFIER
from stethoscope.program import LayerSpec, Program
from stethoscope.rules._base import ProgramRule, data_place
from stethoscope.rules._scale import rms
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import AFFINE, PASS_THROUGH, LayerKind


class UnscaledInput(ProgramRule):
    """The inputs are large, or their columns differ widely in scale.

    What it detects: the root mean square of the inputs is above 10, or that of one column is
    above 1 and more than 100 times that of the median column, where all first layers are linear
    maps or recurrent: one that takes ids or normalizes silences the rule for every input.

    Why it is bad: initial weights are made for inputs near 1. Pre-activations grow with the inputs,
    activations saturate or die, and one learning rate cannot fit all columns.

    How to fix: standardize the columns (mean 0, standard deviation 1), or divide pixels by 255.

    False alarms: batch normalization after the first layer often heals it: a suspicion, told only
    when the run is harmed.

    References: UMLAUT (CHI'21); DeepDiagnosis (ICSE'22) "normalise"; LeCun, Efficient BackProp 4.3.
    """

    code = "D003"
    name = "unscaled-input"
    kind = SymptomClass.SUSPICION
    healthy = CLASSIFIER.but(steps=400)
    faulty = healthy.but(input_scale=300.0)

    large = 10.0  # He and Glorot initialization assume 1; ten times that saturates a sigmoid
    spread = 100.0  # columns further apart than this need rates further apart than one rate can be

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom an input."""
        first = _first_acting(program)
        if any(spec.kind not in (*AFFINE, LayerKind.RECURRENT) for spec in first):
            return
        for index, data in enumerate(program.inputs):
            size = rms(data)
            if size is None or size == 0:
                continue
            place = data_place(program, "input", index)
            sizes = sorted(math.hypot(c.mean, c.std) for c in data.columns if c.std > 0)
            middle = sizes[len(sizes) // 2] if sizes else size
            if size > self.large:
                evidence = [
                    Evidence("root mean square of the inputs", size, self.large, ">"),
                    Evidence(
                        "range of the inputs", f"{data.min:.4g}..{data.max:.4g}", "-1..1", "!="
                    ),
                ]
                yield self.symptom(
                    place,
                    evidence,
                    f"The inputs run from {data.min:.4g} to {data.max:.4g}; initial weights are "
                    "made for inputs near 1.",
                )
            elif sizes and sizes[-1] > self.spread * max(middle, 1e-12) and sizes[-1] > 1:
                evidence = [
                    Evidence(
                        "largest column over the median one", sizes[-1] / middle, self.spread, ">"
                    )
                ]
                yield self.symptom(
                    place, evidence, "The columns of the inputs differ widely in scale."
                )


def _first_acting(program: Program) -> list[LayerSpec]:
    """The first layers that work on the values of the inputs, behind those that only reshape."""
    if not program.edges:
        return list(program.layers[:1])
    queue, seen, found = list(program.successors("")), set[str](), []
    while queue:
        path = queue.pop(0)
        spec = program.layer(path)
        if spec is None or path in seen:
            continue
        seen.add(path)
        if spec.kind in PASS_THROUGH or (spec.kind is LayerKind.OTHER and not spec.params):
            queue.extend(program.successors(path))
        else:
            found.append(spec)
    return found
