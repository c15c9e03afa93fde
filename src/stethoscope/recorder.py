"""The recorder: an adapter hands it what it saw, step by step; rows come out.

It holds the numbers of the current step only. Statistics are computed by the adapter, on the
framework's own tensors; the recorder never sees one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stethoscope.program import Program
from stethoscope.row import Event, Row, RowKind, Slots, slot_of
from stethoscope.stats import TENSOR_STATS, FloatArray, nonfinite
from stethoscope.trace import TraceWriter
from stethoscope.types import Phase, Slot, Stage


class Recorder:
    """Collects one step and turns it into a `Row`.

    Args:
        program: What is known before the first step.
        writer: Where rows are stored; None keeps nothing on disk.
        on_row: Called with each finished row.
    """

    def __init__(
        self,
        program: Program,
        writer: TraceWriter | None = None,
        on_row: Callable[[Row], None] | None = None,
    ) -> None:
        self.slots = Slots()
        self.rows_written = 0
        self._program = program
        self._unsaved_program = True
        self._writer = writer
        self._on_row = on_row
        self._stats: dict[int, FloatArray] = {}
        self._table: FloatArray | None = None
        self._known: tuple[Slot, ...] = ()
        self._numbers: list[int] = []
        self._scalars: dict[int, float] = {}
        self._events: list[Event] = []

    @property
    def program(self) -> Program:
        """The revision in force."""
        return self._program

    def revise(self, **changes: Any) -> None:
        """Replaces fields of the Program, from the row of the current step on."""
        self.replace_program(dataclasses.replace(self._program, **changes))

    def replace_program(self, program: Program) -> None:
        """Puts another Program in the place of the one in force, from the current step's row on."""
        if program != self._program:
            self._program = program
            self._unsaved_program = True

    def observe(self, slot: Slot, statistics: FloatArray) -> None:
        """Records the statistics (in the order of `TENSOR_STATS`) of one tensor.

        A second observation of a slot in one step (a shared layer, an accumulated micro-batch)
        replaces the first only when it holds more non-finite elements.
        """
        self._spread()
        number = self.slots.add(slot)
        seen = self._stats.get(number)
        if seen is None or nonfinite(statistics) > nonfinite(seen):
            self._stats[number] = statistics

    def observe_all(self, slots: tuple[Slot, ...], statistics: FloatArray) -> None:
        """Records the statistics of many tensors; as `observe` does, one after the other.

        Args:
            slots: Of the tensors; the same object as at the last step costs least.
            statistics: [tensors, `TENSOR_STATS`]; not written into afterwards.
        """
        if slots is not self._known:
            self._known, self._numbers = slots, [self.slots.add(slot) for slot in slots]
        if self._stats or self._table is not None or len(set(self._numbers)) < len(slots):
            for slot, vector in zip(slots, statistics, strict=True):
                self.observe(slot, vector)
        else:
            self._table = statistics

    def _spread(self) -> None:
        """One vector for each tensor, where they came as a table."""
        if self._table is not None:
            self._stats = dict(zip(self._numbers, self._table, strict=True))
            self._table = None

    def scalar(
        self,
        stage: Stage,
        value: float,
        layer: str = "",
        param: str = "",
        phase: Phase = Phase.TRAIN,
    ) -> None:
        """Records a LOSS, METRIC or HYPER value; the last one of a step counts.

        A non-finite loss or metric is also an event, since NaN in a row means *not recorded*.
        """
        value = float(value)
        if not math.isfinite(value):
            self.event("nonfinite", stage=stage, layer=layer, param=param, phase=phase, value=value)
        self._scalars[self.slots.add(slot_of(layer, param, stage, phase))] = value

    def event(self, kind: str, **payload: Any) -> None:
        """Records something that happened in the current step."""
        self._events.append(Event(kind, payload))

    def end_step(self, step: int, epoch: int = 0, batch: int = 0) -> Row:
        """Closes the current optimizer step; it is a probed row when a tensor was observed."""
        return self._finish(step, epoch, batch, RowKind.STEP)

    def end_epoch(self, step: int, epoch: int) -> Row:
        """Closes an epoch: what was recorded since the last step is validation."""
        return self._finish(step, epoch, 0, RowKind.EPOCH)

    @property
    def pending(self) -> bool:
        """Whether something was recorded since the last row."""
        seen = self._stats or self._table is not None
        return bool(seen or self._scalars or self._events)

    def _finish(self, step: int, epoch: int, batch: int, kind: RowKind) -> Row:
        scalars = np.full(self.slots.scalars(), np.nan)
        for number, value in self._scalars.items():
            scalars[number] = value
        stats = None
        if self._stats or self._table is not None:
            stats = np.full((self.slots.tensors(), len(TENSOR_STATS)), np.nan)
            if self._table is not None:
                stats[self._numbers] = self._table
            for number, vector in self._stats.items():
                stats[number] = vector
        order, events = self.rows_written, tuple(self._events)
        row = Row(
            order, step, epoch, batch, kind, self._program, self.slots, scalars, stats, events
        )
        self.rows_written += 1
        self._stats, self._table, self._scalars, self._events = {}, None, {}, []
        if self._writer is not None:
            if self._unsaved_program:
                self._writer.program(order, self._program)
                self._unsaved_program = False
            self._writer.row(row)
        if self._on_row is not None:
            self._on_row(row)
        return row
