"""Hidden layers without an activation, or with too many that saturate."""

from __future__ import annotations

from stethoscope.faults._base import (
    Findings,
)


def is_shut(findings: Findings) -> bool:
    """Whether a whole layer is dead and the output no longer depends on the input.

    Nothing upstream of the layer gets a gradient then: the arithmetic forbids learning.
    """
    entire = [s for s in findings.of("dead-units") if float(s.evidence[0].value) == 1.0]
    return bool(entire) and bool(findings.of("collapsed-output"))
