"""Targets that the last activation cannot give."""

from __future__ import annotations

from stethoscope.program import DataSpec
from stethoscope.rules._output import Head
from stethoscope.vocabulary import Expects, TargetKind


def needed_range(head: Head) -> tuple[float, float, str] | None:
    """The range that the output must be able to reach, and whose range that is."""
    if head.loss.expects is Expects.VALUES and head.target is not None:
        if head.loss.target_kind is not TargetKind.REAL:
            return None
        if head.target.min is None or head.target.max is None:
            return None
        return head.target.min, head.target.max, "targets"
    return None


def unreachable_share(target: DataSpec, low: float, high: float) -> float:
    """A lower bound on the share of targets outside [low, high], from mean, range and spread.

    With the mean itself outside, the share follows from the extreme value: if a share s lies
    outside, the mean of the rest is at most `high`, so s >= (mean - high) / (max - high).
    """
    if target.mean is None or target.min is None or target.max is None:
        return 0.0
    above = (target.mean - high) / (target.max - high) if target.max > high else 0.0
    below = (low - target.mean) / (low - target.min) if target.min < low else 0.0
    return max(above, below, 0.0)
