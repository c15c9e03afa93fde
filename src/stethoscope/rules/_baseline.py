"""What a predictor that ignores the input would score: the figure a run has to beat."""

from __future__ import annotations

import dataclasses
import math

from stethoscope.program import DataSpec, LossSpec, Program
from stethoscope.vocabulary import LOSSES, TargetKind

TARGETS_TO_BELIEVE = 256  # or 20 batches: below that a spread is mostly noise
TARGETS_A_CLASS = 20  # the entropy of fewer is too low by over 1/40 nat (Miller 1955)
NOTHING = 1e-6  # a constant prediction is as good as perfect: no loss can be below that
SURE = 2.0  # standard errors of a figure that is known from a sample


@dataclasses.dataclass(frozen=True)
class Baseline:
    """The loss of the best prediction that ignores the input, between two bounds.

    Attributes:
        low: It is at least that: only a loss below it shows that the input is used. -inf where
            nothing is known.
        high: It is at most that: only a loss that is not below it shows that it is not.
        words: How it is called.
    """

    low: float
    high: float
    words: str


def trivial_loss(program: Program) -> Baseline | None:
    """The loss of the best constant prediction.

    None where it cannot be known: several losses, an unknown or weighted one, a sum over the
    batch, or targets that were not seen well enough. And where it says nothing: a residual that is
    trained towards a constant (as a rule 0) is no prediction, and a loss near 0 is then what is
    wanted.
    """
    known = _trivial_loss(program)
    if known is not None and known.high < NOTHING and _is_residual(program, program.losses[0]):
        return None
    return known


def _is_residual(program: Program, loss: LossSpec) -> bool:
    """Whether what the loss takes was computed from the model's outputs, by no layer of its own."""
    if "computed" in loss.config:
        return True
    return loss.output is not None and program.producer(loss.output) is None


def _trivial_loss(program: Program) -> Baseline | None:
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
        if loss.target_kind is TargetKind.DISTRIBUTION and not target.rows_sum_to_one:
            return None  # rows that are weighted, as by a return
        return _entropy(target, _units(loss))
    if target.std is None:
        return None
    known = target.best_constant
    if kind == "binary_entropy":
        return _binary_entropy(target)
    if kind == "variance":
        found = _between(
            target, known.squared if known else None, target.std**2, "predicting the mean"
        )
        if not loss.config.get("root"):
            return found
        return Baseline(math.sqrt(max(found.low, 0.0)), math.sqrt(found.high), found.words)
    if kind == "absolute_deviation":
        # the mean absolute deviation is at most the standard deviation
        return _between(
            target, known.absolute if known else None, target.std, "predicting the median"
        )
    return None


def _between(target: DataSpec, known: float | None, at_most: float, words: str) -> Baseline:
    """A spread that is known, up to the noise of a sample, or a bound of it."""
    if known is None:
        return Baseline(-math.inf, at_most, f"{words} gives at most")
    noise = 0.0 if target.complete else math.sqrt(2 / max(target.rows_seen, 2))
    return Baseline(known * max(1 - SURE * noise, 0.0), known, f"{words} gives")


def _units(loss: LossSpec) -> int | None:
    """Classes that the prediction has a score for; None when its shape is unknown."""
    shape = loss.prediction_shape
    if not shape or len(shape) < 2:
        return None
    axis = -1 if loss.class_axis is None else loss.class_axis
    return shape[axis] if -len(shape) <= axis < len(shape) else None


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
    if not counts:
        return None
    if target.complete or sum(counts) >= TARGETS_A_CLASS * len(counts):
        return max(counts) / sum(counts)
    units = _units(loss)
    return 1 / units if units else None  # the commonest class has that share at least


def _entropy(target: DataSpec, units: int | None) -> Baseline | None:
    words = "predicting the class frequencies gives"
    counts = [count for _, count in target.class_counts if count]
    shares = [float(count) for count in counts]
    if not shares and target.rows_sum_to_one:
        shares = [c.mean for c in target.columns if c.mean > 0]
    total = sum(shares)
    if not total:
        return None
    shares = [s / total for s in shares]
    entropy = -sum(s * math.log(s) for s in shares)
    if entropy < 1e-6:  # one class only: nothing can beat that
        return None
    rows = sum(counts) or target.rows_seen
    if target.complete:
        return Baseline(entropy, entropy, words)
    # The entropy of a sample is too low, by one part in twice the rows for each class but one.
    variance = sum(s * math.log(s) ** 2 for s in shares) - entropy**2
    low = entropy - SURE * math.sqrt(max(variance, 0.0) / rows)
    if rows >= TARGETS_A_CLASS * max(len(shares), units or 0):
        return Baseline(low, entropy + (len(shares) - 1) / (2 * rows), words)
    if units is None or units < len(shares):
        return None
    return Baseline(low, math.log(units), f"{words} at most")


def _binary_entropy(target: DataSpec) -> Baseline | None:
    if target.mean is None or target.min is None or target.max is None:
        return None
    if target.min < 0 or target.max > 1:
        return None
    known = target.best_constant.binary if target.best_constant else None
    return _between(target, known, _bernoulli(target.mean), "predicting the frequency of 1")


def _bernoulli(p: float) -> float:
    if p <= 0 or p >= 1:
        return 0.0
    return -p * math.log(p) - (1 - p) * math.log(1 - p)
