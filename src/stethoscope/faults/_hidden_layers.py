"""Hidden layers without an activation, or with too many that saturate."""

from __future__ import annotations

from stethoscope.faults._base import Findings
from stethoscope.rules._output import heads
from stethoscope.rules._series import Series

LATEST = 0.1  # of the run: an output that has just come to rest had losses before
LEFT = 0.05  # of the first losses: an output that died early leaves what the targets are


def is_shut(findings: Findings) -> bool:
    """Whether a whole layer is dead and the output no longer depends on the input.

    Nothing upstream of the layer gets a gradient then: the arithmetic forbids learning. An output
    that is 0 because all that was asked of it is met (the hinge of a margin) rests.
    """
    entire = {s.place.layer for s in findings.of("dead-units") if s.evidence[0].value == 1.0}
    if _is_met(findings.measured.loss):
        entire -= {head.layer.path for head in heads(findings.program) if head.layer is not None}
    return bool(entire) and bool(findings.of("collapsed-output"))


def _is_met(loss: Series) -> bool:
    """Whether hardly anything is left of the loss."""
    level, _ = loss.level(LATEST)
    return level < LEFT * loss.start()
