"""What a predictor that ignores the input would score: the figure a run has to beat."""

from __future__ import annotations

import math
from collections.abc import Callable

from stethoscope.program import DataSpec, LossSpec, Program
from stethoscope.vocabulary import LOSSES, TargetKind

TARGETS_TO_BELIEVE = 256  # or 20 batches: below that the prior of the classes is mostly noise


def trivial_loss(program: Program) -> tuple[float, str] | None:
    """The loss of the best constant prediction, and its name in words.

    None where it cannot be known: several losses, an unknown or weighted one, a sum over the
    batch, or targets that were not seen well enough.
    """
    if len(program.losses) != 1:
        return None
    loss = program.losses[0]
    target = target_of(program, loss)
    if target is None or loss.name is None or loss.weighted:
        return None
    if loss.reduction not in ("mean", "sum_over_batch_size", None, "auto", "batchmean"):
        return None
    if not (target.complete or target.rows_seen >= TARGETS_TO_BELIEVE or target.believable):
        return None
    kind = LOSSES[loss.name].baseline if loss.name in LOSSES else None
    if kind == "entropy":
        return _entropy(target)
    if kind == "binary_entropy":
        return _binary_entropy(target)
    if kind == "variance" and target.std is not None:
        variance = _mean_of(target, "std", lambda s: s * s, target.std**2)
        if loss.config.get("root"):
            return math.sqrt(variance), "predicting the mean gives"
        return variance, "predicting the mean gives"
    if kind == "absolute_deviation" and target.std is not None:
        deviation = _mean_of(target, "std", lambda s: s, target.std)
        return deviation, "predicting the mean gives at most"
    return None


def target_of(program: Program, loss: LossSpec) -> DataSpec | None:
    """The facts of a loss's target: the program's when there is one only, else the call's."""
    if len(program.targets) == 1 and len(program.losses) == 1:
        return program.targets[0]
    return loss.target


def classes_of(target: DataSpec) -> int | None:
    """How many classes the targets show; None when they are no classes."""
    if target.one_hot and target.shape:
        return target.shape[-1]
    if target.integer_valued and target.class_counts:
        return sum(1 for _, count in target.class_counts if count)
    return None


def is_class_ids(target: DataSpec) -> bool:
    """Whether the targets look like class ids: whole, non-negative, few kinds for their number.

    Whole numbers that are spread widely (counts, ages, prices) are values, not ids: ids fill
    the range from 0 or 1 without large gaps.
    """
    if not target.integer_valued or target.distinct is None or target.min is None:
        return False
    if target.max is None or target.min < 0 or target.one_hot:
        return False
    width = target.max - min(target.min, 1.0) + 1
    few = target.distinct <= max(2, min(100, target.rows_seen // 5))
    return few and target.distinct >= 2 and target.distinct >= 0.5 * width


def chance(program: Program) -> float | None:
    """The accuracy of always naming the commonest class."""
    if len(program.losses) != 1:
        return None
    loss = program.losses[0]
    target = target_of(program, loss)
    if target is None or not (target.complete or target.rows_seen >= TARGETS_TO_BELIEVE):
        return None
    if loss.target_kind is TargetKind.BINARY and target.mean is not None:
        if target.distinct is None or target.distinct > 2:
            return None
        return max(target.mean, 1 - target.mean)
    counts = [count for _, count in target.class_counts if count]
    return max(counts) / sum(counts) if counts else None


def _entropy(target: DataSpec) -> tuple[float, str] | None:
    shares = [float(count) for _, count in target.class_counts if count]
    if not shares and target.rows_sum_to_one:
        shares = [c.mean for c in target.columns if c.mean > 0]
    total = sum(shares)
    if not total:
        return None
    entropy = -sum(s / total * math.log(s / total) for s in shares)
    if entropy < 1e-6:  # one class only: nothing can beat that
        return None
    return entropy, "predicting the class frequencies gives"


def _binary_entropy(target: DataSpec) -> tuple[float, str] | None:
    if target.mean is None or target.min is None or target.max is None:
        return None
    if target.min < 0 or target.max > 1:
        return None
    return _mean_of(target, "mean", _bernoulli, _bernoulli(target.mean)), (
        "predicting the frequency of 1 gives"
    )


def _bernoulli(p: float) -> float:
    if p <= 0 or p >= 1:
        return 0.0
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


def _mean_of(target: DataSpec, field: str, of: Callable[[float], float], fallback: float) -> float:
    if not target.columns:
        return fallback
    return float(sum(of(getattr(c, field)) for c in target.columns) / len(target.columns))
