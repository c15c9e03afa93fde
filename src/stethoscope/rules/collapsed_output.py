"""The model gives the same output for every sample."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stethoscope.example import BINARY
from stethoscope.program import Program
from stethoscope.row import Block, Row
from stethoscope.rules._base import BoolArray, StreakRule
from stethoscope.types import Evidence, Slot, Stage, Stat, SymptomClass


class CollapsedOutput(StreakRule):
    """The model gives the same output for every sample.

    What it detects: on 10 probed steps in a row, the standard deviation across the samples of the
    output is below 1/1000 of what the targets vary by (of the outputs' own scale where the targets
    are classes).

    Why it is bad: the output does not depend on the input any more.

    How to fix: this is an effect: look for the cause upstream (dead units, a rate too large, an
    activation that cannot move).

    False alarms: the first steps of a network that starts at 0; batches of one sample are left out.

    References: TheDeepChecker "constant output".
    """

    code = "F005"
    name = "collapsed-output"
    kind = SymptomClass.EVENT
    needs = frozenset({Stage.OUTPUT})
    stage = Stage.OUTPUT
    streak = 10
    healthy = BINARY.but(output_activation="sigmoid", from_logits=False)
    faulty = healthy.but(output_activation="softmax")

    share = 1e-3  # a trained classifier varies by a tenth or more, a fresh one by a hundredth

    def may(self, block: Block) -> tuple[list[Slot], BoolArray]:
        """Where an output varies too little."""
        slots, (varies, low, high) = block.of(self.stage, Stat.SAMPLE_STD, Stat.MIN, Stat.MAX)
        scale = _scale_of_targets(block.program) or np.maximum(np.abs(low), np.abs(high))
        read = _read(block.program)
        return slots, (varies <= self.share * scale) & [slot.layer in read for slot in slots]

    def check(self, row: Row, slot: Slot) -> tuple[Sequence[Evidence], str] | None:
        """Spread across samples of an output layer."""
        if slot.layer not in _read(row.program):
            return None
        varies = row.get(slot, Stat.SAMPLE_STD)
        scale = _scale_of_targets(row.program)
        if scale is None:
            scale = max(abs(row.get(slot, Stat.MIN)), abs(row.get(slot, Stat.MAX)))
        if not math.isfinite(varies):
            return None
        if scale > 0 and varies > self.share * scale:
            return None
        bound = self.share * scale
        relation = "<" if varies < bound else "="  # 0 where the output itself is 0
        evidence = [Evidence(f"spread of {slot.layer} across samples", varies, bound, relation)]
        return evidence, f"The output {slot.layer} is the same for every sample."


def _read(program: Program) -> set[str]:
    """The output layers; none of them where a batch is one sample."""
    rows = program.inputs[0].batch_shape if program.inputs else None
    if rows and rows[0] < 2:
        return set()
    return {
        spec.path
        for spec in program.output_layers()
        if not (spec.output_shape and spec.output_shape[0] == 1)
    }


def _scale_of_targets(program: Program) -> float | None:
    """What real-valued targets vary by; None where the outputs' own scale has to do."""
    targets = program.targets
    if len(targets) == 1 and targets[0].std and not targets[0].integer_valued:
        return targets[0].std
    return None
