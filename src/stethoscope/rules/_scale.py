"""Inputs and targets on a scale that a fresh network cannot handle."""

from __future__ import annotations

import math

from stethoscope.program import DataSpec


def rms(data: DataSpec) -> float | None:
    if data.mean is None or data.std is None:
        return None
    return math.hypot(data.mean, data.std)
