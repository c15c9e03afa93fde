"""One step of a run as the rules see it, live and offline alike."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stethoscope.program import Program
from stethoscope.stats import NONFINITE, POSITION, FloatArray
from stethoscope.types import Phase, Slot, Stage, Stat


class RowKind(enum.StrEnum):
    """A step of the optimizer, or the end of an epoch (validation figures)."""

    STEP = "step"
    EPOCH = "epoch"


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that happened at a step and is no statistic.

    Kinds: `nonfinite` (payload: layer, param, stage, rows, what) and `severity` (payload: fault,
    path, from, to).
    """

    kind: str
    payload: Mapping[str, Any] = dataclasses.field(default_factory=dict)


slot_of = functools.lru_cache(maxsize=1024)(Slot)  # the scalars of a run are few


class Slots:
    """The numbered slots of a trace: append-only, tensors and scalars apart."""

    def __init__(self) -> None:
        self._number: dict[Slot, int] = {}
        self._count = [0, 0]  # tensors, scalars
        self._by_stage: dict[tuple[Stage, Phase], list[tuple[Slot, int]]] = {}

    def number(self, slot: Slot) -> int | None:
        """Number of `slot` within its kind; None when it was never recorded."""
        return self._number.get(slot)

    def add(self, slot: Slot) -> int:
        """Numbers a new slot, or returns the number it has."""
        number = self._number.get(slot)
        if number is None:
            kind = int(slot.stage.is_scalar)
            number = self._number[slot] = self._count[kind]
            self._count[kind] += 1
            self._by_stage.setdefault((slot.stage, slot.phase), []).append((slot, number))
        return number

    def of(self, stage: Stage, phase: Phase = Phase.TRAIN) -> list[tuple[Slot, int]]:
        """The slots of one stage with their numbers, in the order of their first appearance."""
        return self._by_stage.get((stage, phase), [])

    def tensors(self) -> int:
        """How many tensor slots there are."""
        return self._count[0]

    def scalars(self) -> int:
        """How many scalar slots there are."""
        return self._count[1]


@dataclasses.dataclass(frozen=True)
class Row:
    """Everything recorded at one step.

    Attributes:
        order: Place in the global order of rows, from 0.
        step, epoch, batch: From 0.
        kind: Step or end of an epoch.
        program: The revision in force.
        slots: The slots of the trace (shared by its rows).
        scalars: [scalar slots]; NaN where not recorded.
        stats: [tensor slots, TENSOR_STATS] of a probed step; None otherwise.
        events: What happened at this step.
    """

    order: int
    step: int
    epoch: int
    batch: int
    kind: RowKind
    program: Program
    slots: Slots
    scalars: FloatArray
    stats: FloatArray | None = None
    events: tuple[Event, ...] = ()

    @property
    def probed(self) -> bool:
        """Whether full statistics were taken."""
        return self.stats is not None

    @functools.cached_property
    def counts_nonfinite(self) -> bool:
        """Whether a tensor was seen that holds a NaN or an infinity."""
        return self.stats is not None and bool((self.stats[:, NONFINITE] > 0).any())

    def get(self, slot: Slot, stat: Stat = Stat.VALUE) -> float:
        """One recorded number; NaN when it was not recorded."""
        number = self.slots.number(slot)
        if number is None:
            return float("nan")
        if slot.stage.is_scalar:
            return float(self.scalars[number]) if number < len(self.scalars) else float("nan")
        if self.stats is None or number >= len(self.stats):
            return float("nan")
        return float(self.stats[number, POSITION[stat]])

    def scalar(
        self, stage: Stage, layer: str = "", param: str = "", phase: Phase = Phase.TRAIN
    ) -> float:
        """A LOSS, METRIC or HYPER value of this step; NaN when it was not recorded."""
        return self.get(slot_of(layer, param, stage, phase))

    def each(
        self, stage: Stage, stat: Stat = Stat.VALUE, phase: Phase = Phase.TRAIN
    ) -> Iterator[tuple[Slot, float]]:
        """The recorded values of one statistic at one stage, slot by slot."""
        values = self.scalars if stage.is_scalar else self.stats
        if values is None:
            return
        if not stage.is_scalar:
            values = values[:, POSITION[stat]]
        for slot, number in self.slots.of(stage, phase):
            if number < len(values) and (value := float(values[number])) == value:
                yield slot, value  # NaN would be: not recorded


class Block:
    """Probed rows of one run that follow each other, as arrays.

    Nothing but their numbers tells them apart: no event, one revision of the Program, the same
    tensors in each.

    Args:
        rows: At least one, in order.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self.program = rows[0].program
        self.slots = rows[0].slots
        self._stages: dict[Stage, tuple[list[Slot], FloatArray]] = {}

    def of(self, stage: Stage, *stats: Stat) -> tuple[list[Slot], list[FloatArray]]:
        """The tensors of a stage, and of each statistic a [rows, tensors]; NaN: not recorded."""
        if stage not in self._stages:
            known = [(slot, n) for slot, n in self.slots.of(stage) if n < self._stats.shape[1]]
            numbers = [number for _, number in known]
            self._stages[stage] = [slot for slot, _ in known], self._stats[:, numbers]
        slots, seen = self._stages[stage]
        return slots, [seen[:, :, POSITION[stat]] for stat in stats]

    @functools.cached_property
    def counts_nonfinite(self) -> bool:
        """As of a `Row`, in any of them."""
        return bool((self._stats[:, :, NONFINITE] > 0).any())

    @functools.cached_property
    def _stats(self) -> FloatArray:
        return np.stack([row.stats for row in self.rows if row.stats is not None])
