"""What faults compute their values from: the first and the latest figures of a run, bounded."""

from __future__ import annotations

import math

import numpy as np

from stethoscope.agreement import CORRELATION
from stethoscope.row import Row, RowKind, Slots
from stethoscope.rules._nonfinite import is_frozen
from stethoscope.rules._series import Series
from stethoscope.rules._updates import update_ratios
from stethoscope.stats import POSITION, TENSOR_STATS, FloatArray
from stethoscope.types import Slot, Stage, Stat

EARLY_PROBES = 8
RATE = "learning_rate"  # what adapters call it; with a number behind it for further groups
LOST = 1e-3  # of its highest value: where a decay ends, not where it works
_COUNT = POSITION[Stat.COUNT]
_HARMFUL = (Stage.LOSS, Stage.WEIGHT_GRAD, Stage.UPDATE, Stage.WEIGHT)
"""Where a number that is not finite does harm. Inputs, targets and activations may be masked, and
the gradient of an output may overflow under a loss scaler in a step that is then skipped."""


class Measurements:
    """A fold over rows that keeps, per tensor, its first and its latest statistics.

    Attributes:
        loss: The training loss of every step.
        agreement: Correlation of predictions and targets, of each step where it was seen.
        targets: Root mean square of real-valued targets of each probed step, by their slot.
        rates: First and latest learning rate of the first parameter group.
        rate: Latest learning rate of the group that has the largest.
        rate_lost: Step since when that is below `LOST` of what it was at its highest; None while it
            is not.
        ratios: Update over weight of each kernel on the first `EARLY_PROBES` probed steps.
        steps, probes: How many were seen.
        nonfinite_step: Step of the first non-finite loss, gradient or weight; None when all was
            finite.
    """

    def __init__(self) -> None:
        self.loss = Series()
        self.agreement = Series()
        self.targets: dict[Slot, Series] = {}
        self.rates: tuple[float, float] = (math.nan, math.nan)
        self.rate = math.nan
        self.rate_lost: int | None = None
        self.ratios: dict[Slot, list[float]] = {}
        self.steps = 0
        self.probes = 0
        self.nonfinite_step: int | None = None
        self._highest_rate = 0.0
        self._slots = Slots()
        self._first: FloatArray = np.empty((0, len(TENSOR_STATS)))
        self._last = self._first
        self._whole = False  # every tensor that was seen so far has its first vector

    def add(self, row: Row) -> None:
        """Takes the next row."""
        if row.kind is RowKind.EPOCH:
            return
        self.steps = max(self.steps, row.step + 1)
        for slot, value in row.each(Stage.LOSS):
            if slot.layer == slot.param == "":
                self.loss.add(value)
            elif slot.param == CORRELATION:
                self.agreement.add(value)
        rates = []
        for slot, value in row.each(Stage.HYPER):
            if slot.param == RATE:
                self.rates = (value if math.isnan(self.rates[0]) else self.rates[0], value)
            if slot.param.startswith(RATE):
                rates.append(value)
        if rates:
            self.rate = max(rates)
            self._highest_rate = max(self._highest_rate, self.rate)
            if self.rate > LOST * self._highest_rate:
                self.rate_lost = None
            elif self.rate_lost is None:
                self.rate_lost = row.step
        if self.nonfinite_step is None and self._is_nonfinite(row):
            self.nonfinite_step = row.step
        if row.stats is None:
            return
        self.probes += 1
        self._keep(row.slots, row.stats)
        for slot, norm in row.each(Stage.TARGET, Stat.NORM):
            count = max(row.get(slot, Stat.COUNT), 1.0)
            self.targets.setdefault(slot, Series()).add(norm / math.sqrt(count))
        if self.probes <= EARLY_PROBES:
            for slot, ratio in update_ratios(row):
                self.ratios.setdefault(slot, []).append(ratio)

    def _keep(self, slots: Slots, stats: FloatArray) -> None:
        """Takes the first and the latest vector of each tensor."""
        self._slots = slots
        missing = len(stats) - len(self._first)
        if missing > 0:
            unseen = np.full((missing, len(TENSOR_STATS)), np.nan)
            self._first = np.concatenate([self._first, unseen])
            self._last = np.concatenate([self._last, unseen])
        seen = stats[:, _COUNT] == stats[:, _COUNT]  # NaN: not recorded
        if missing > 0 or not self._whole:
            new = seen & np.isnan(self._first[: len(stats), _COUNT])
            self._first[: len(stats)][new] = stats[new]
            self._whole = not bool(np.isnan(self._first[:, _COUNT]).any())
        if len(stats) == len(self._last) and seen.all():
            self._last = stats
        else:
            self._last = self._last.copy()
            self._last[: len(stats)][seen] = stats[seen]

    def first(self, slot: Slot, stat: Stat) -> float:
        """A statistic at the first probe of a tensor; NaN when it was not recorded."""
        return self._of(self._first, slot, stat)

    def last(self, slot: Slot, stat: Stat) -> float:
        """A statistic at the latest probe of a tensor; NaN when it was not recorded."""
        return self._of(self._last, slot, stat)

    def moved(self, share: float) -> bool:
        """Whether a weight changed by a share of its spread since its first probe.

        One that starts at 0 has none: the smallest step would count.
        """
        for slot in self.slots(Stage.WEIGHT):
            spread = max(self.first(slot, Stat.STD), abs(self.first(slot, Stat.MEAN)))
            if not spread > 0:
                continue
            for stat in (Stat.MEAN, Stat.STD, Stat.MIN, Stat.MAX):
                if abs(self.last(slot, stat) - self.first(slot, stat)) > share * spread:
                    return True
        return False

    def slots(self, stage: Stage) -> list[Slot]:
        """The tensors that were seen at a stage, in the order of their first appearance."""
        return [
            slot
            for slot, number in self._slots.of(stage)
            if number < len(self._first) and not math.isnan(self._first[number, _COUNT])
        ]

    def first_ratio(self) -> tuple[Slot, float] | None:
        """The kernel that moved most, in share of its size, in the first probed step."""
        if not self.ratios:
            return None
        slot = max(self.ratios, key=lambda s: self.ratios[s][0])
        return slot, self.ratios[slot][0]

    @staticmethod
    def _is_nonfinite(row: Row) -> bool:
        for event in row.events:
            ours = event.kind == "nonfinite" and event.payload.get("phase", "train") == "train"
            if ours and event.payload.get("stage") in _HARMFUL:
                return True
        for stage in _HARMFUL[1:] if row.counts_nonfinite else ():
            for slot, count in row.each(stage, Stat.NAN_COUNT):
                if is_frozen(row, slot):
                    continue
                if count + row.get(slot, Stat.INF_COUNT) > 0:
                    return True
        return False

    def _of(self, known: FloatArray, slot: Slot, stat: Stat) -> float:
        number = self._slots.number(slot)
        if number is None or slot.stage.is_scalar or number >= len(known):
            return math.nan
        return float(known[number, POSITION[stat]])
