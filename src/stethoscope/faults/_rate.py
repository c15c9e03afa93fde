"""A learning rate that is too high, too low or 0."""

from __future__ import annotations

import math

from stethoscope.faults._base import Findings, set_to
from stethoscope.rules._output import heads
from stethoscope.types import Fix, Slot, Stage, Stat
from stethoscope.vocabulary import TargetKind

GOOD_RATIO = 1e-2  # first steps of runs that learn well: swept over rates, the best ones are here
FAR_OFF = 0.1  # beyond the bound of the rule by a factor of ten: a figure against the rate
LEAST_CUT = 3.0  # a rate that blew up is at least this factor too high


def lower_rate(findings: Findings) -> Fix:
    """A rate with which the steps are of a usual size, from the run's own first steps."""
    spec = findings.program.optimizers[0]
    now = findings.measured.rates[0]
    rate = two_digits(min(stable_rate(findings), now / LEAST_CUT))
    return set_to(
        "optimizer.learning_rate",
        rate,
        spec.rate_source or spec.source,
        f"learning_rate {now:.4g} -> {rate:g} (from the size of the first steps)",
    )


def stable_rate(findings: Findings) -> float:
    """The learning rate that brings the first step of the fastest kernel to `GOOD_RATIO`.

    The first gradient does not depend on the rate, so the ratio is exactly proportional to it.
    Where the targets are larger than the first outputs, the weights have to grow until the output
    is as large, each of the n kernels by the n-th root; the step is held against the weight that
    it leads to.
    """
    first = findings.measured.first_ratio()
    if first is None or not first[1] > 0:
        return findings.measured.rates[0] / LEAST_CUT
    growth: float = max(_stretch(findings), 1.0) ** (1 / len(findings.measured.ratios))
    return findings.measured.rates[0] * GOOD_RATIO * growth / first[1]


def two_digits(value: float) -> float:
    """Two significant digits: what a person would type."""
    if value == 0 or not math.isfinite(value):
        return value
    return float(f"{value:.1e}")


def _stretch(findings: Findings) -> float:
    """How many times larger real-valued targets are than the first outputs; 1 when not known."""
    for head in heads(findings.program):
        target, layer = head.target, head.layer
        if target is None or layer is None or head.loss.target_kind is not TargetKind.REAL:
            continue
        slot = Slot(layer.path, "", Stage.OUTPUT)
        count = findings.measured.first(slot, Stat.COUNT)
        size = findings.measured.first(slot, Stat.NORM) / math.sqrt(max(count, 1.0))
        if size > 0:
            return math.hypot(target.mean or 0.0, target.std or 0.0) / size
    return 1.0
