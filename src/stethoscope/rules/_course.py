"""The course of the loss and of the metric: flat, rising, no better than a constant."""

from __future__ import annotations

import math

from stethoscope.program import Program

LEAST_STEPS = 30  # below that a flat stretch is noise
CHECK_EVERY = 10  # steps between two looks at the whole course: a look costs a trend test


def least_steps(program: Program) -> int:
    """Steps before the course of a loss may accuse."""
    planned = program.fit.planned_steps
    return max(LEAST_STEPS, math.ceil(0.05 * planned)) if planned else LEAST_STEPS
