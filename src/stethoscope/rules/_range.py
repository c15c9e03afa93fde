"""Targets that the last activation cannot give."""

from __future__ import annotations

from stethoscope.program import DataSpec
from stethoscope.rules._output import Head
from stethoscope.vocabulary import Expects, TargetKind

_OTHER_SCALE = ("cosine_similarity", "poisson", "gaussian_nll")
"""Losses whose prediction is a direction or a parameter, not an estimate of the target."""


def needed_range(head: Head) -> tuple[float, float] | None:
    """The range of real-valued targets that the output must be able to reach."""
    if head.loss.expects is Expects.VALUES and head.target is not None:
        if head.loss.target_kind is not TargetKind.REAL or head.loss.name in _OTHER_SCALE:
            return None
        if head.target.min is None or head.target.max is None:
            return None
        return head.target.min, head.target.max
    return None


LEAST_SHARE = 0.1  # noise around the end of a range leaves less than that outside


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


def is_out_of_range(target: DataSpec, low: float, high: float) -> bool:
    """Whether a good part of the targets cannot be reached, as far as they can be believed.

    From a few batches only a range that lies outside altogether is believed: a mean may move.
    """
    if target.min is None or target.max is None:
        return False
    if not target.believable:
        return target.min > high or target.max < low
    return unreachable_share(target, low, high) > LEAST_SHARE
