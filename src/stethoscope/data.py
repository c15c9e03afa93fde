"""Facts of inputs, targets and predictions, gathered batch by batch into a `DataSpec`."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from stethoscope.moments import BestConstant, Moments
from stethoscope.program import ColumnFacts, DataSpec
from stethoscope.types import SourceRef

MAX_DISTINCT = 1000
MAX_COLUMNS = 1024
SUM_TOLERANCE = 1e-3  # rows of float16 probabilities still count as summing to 1


class DataProfile:
    """Accumulates the facts of one input, target or prediction. Keeps no sample.

    Args:
        name: Name of the input or target; "" when there is one only.
        shuffled: Whether batches come in random order; None when unknown.
        source: The call that handed it over; None when it was not seen.
        ignore: Label that the loss leaves out: it enters no fact; None when there is none.
    """

    def __init__(
        self,
        name: str = "",
        shuffled: bool | None = None,
        source: SourceRef | None = None,
        ignore: float | None = None,
    ) -> None:
        self._source = source
        self._ignore = ignore
        self._name = name
        self._shuffled = shuffled
        self._rows = self._batches = 0
        self._nonfinite = 0
        self._all: Moments | None = None
        self._beyond = 0.0
        self._best_constant = BestConstant()
        self._integer = True
        self._sums_to_one: bool | None = None
        self._one_hot: bool | None = None
        self._distinct: set[float] | None = set()
        self._counts: dict[float, int] = {}
        self._columns: Moments | None = None
        self._shape: tuple[int, ...] | None = None
        self._batch_shape: tuple[int, ...] | None = None
        self._dtype: str | None = None

    @property
    def batches(self) -> int:
        """How many batches were added."""
        return self._batches

    def add(self, batch: npt.ArrayLike, dtype: str | None = None) -> None:
        """Adds one batch; the first axis is the samples.

        Args:
            batch: Any numeric array; one that is not numeric only sets shape and dtype.
            dtype: The framework's name of the element type, where NumPy has another.
        """
        values: npt.NDArray[Any] = np.asarray(batch)
        self._batch_shape = values.shape
        self._shape = values.shape[1:]
        self._dtype = dtype or str(values.dtype)
        self._batches += 1
        self._rows += len(values) if values.ndim else 1
        if values.size == 0 or values.dtype.kind not in "biufV":
            return
        values = values.astype(np.float64)
        left_out = 0
        if self._ignore is not None:
            ignored = values == self._ignore
            left_out = int(ignored.sum())
            values[ignored] = np.nan  # a copy of ours; it counts as no element
        finite = np.isfinite(values)
        self._nonfinite += int(values.size - finite.sum()) - left_out
        known = values if finite.all() else values[finite]
        if known.size == 0:
            return
        now = Moments.of(known.reshape(-1, 1))
        self._all = now if self._all is None else self._all.merge(now)
        self._best_constant.add(values)
        self._beyond += float(np.abs(known - np.clip(known, 0.0, 1.0)).sum())
        self._integer = self._integer and bool(np.all(known == np.floor(known)))
        self._rows_facts(values)
        self._distinct_facts(known)
        self._column_facts(values)

    def spec(self, complete: bool = False) -> DataSpec:
        """The facts so far."""
        spec = DataSpec(
            name=self._name,
            shape=self._shape,
            batch_shape=self._batch_shape,
            dtype=self._dtype,
            rows_seen=self._rows,
            batches_seen=self._batches,
            complete=complete,
            shuffled=self._shuffled,
            source=self._source,
        )
        if self._all is None:
            return dataclasses.replace(spec, nonfinite_share=1.0 if self._nonfinite else 0.0)
        count, low, high = (float(v[0]) for v in (self._all.count, self._all.low, self._all.high))
        return dataclasses.replace(
            spec,
            min=low + 0.0,  # -0 is 0
            max=high + 0.0,
            mean=float(self._all.mean[0]),
            std=float(self._all.std[0]),
            nonfinite_share=self._nonfinite / (count + self._nonfinite),
            integer_valued=self._integer,
            distinct=None if self._distinct is None else len(self._distinct),
            class_counts=tuple(sorted(self._counts.items())) if self._has_classes else (),
            rows_sum_to_one=self._sums_to_one,
            one_hot=self._one_hot,
            constant=low == high,
            columns=self._column_specs(),
            beyond_unit=self._beyond / count,
            best_constant=self._best_constant.errors(),
        )

    @property
    def _has_classes(self) -> bool:
        return bool(self._one_hot) or (self._integer and self._distinct is not None)

    def _rows_facts(self, values: npt.NDArray[np.float64]) -> None:
        if values.ndim < 2 or values.shape[-1] < 2:
            return
        with np.errstate(invalid="ignore"):
            sums = np.abs(values.sum(axis=-1) - 1) < SUM_TOLERANCE
            adds_up = bool(np.all(values >= 0) and np.all(sums))
        hot = adds_up and bool(np.all((values == 0) | (values == 1)))
        self._sums_to_one = adds_up and self._sums_to_one is not False
        was_hot = self._one_hot is not False
        self._one_hot = hot and was_hot
        if self._one_hot:
            for index, count in enumerate(values.reshape(-1, values.shape[-1]).sum(axis=0)):
                self._counts[float(index)] = self._counts.get(float(index), 0) + int(count)
        elif was_hot:
            self._counts = {}

    def _distinct_facts(self, known: npt.NDArray[np.float64]) -> None:
        if self._distinct is None:
            return
        known = known.ravel()
        start = known[: 4 * MAX_DISTINCT]  # tells it of most real values, without sorting them all
        many = known.size > start.size and np.unique(start).size > MAX_DISTINCT
        kinds, counts = np.unique(start if many else known, return_counts=True)
        self._distinct.update(kinds.tolist())
        if len(self._distinct) > MAX_DISTINCT:
            self._distinct = None
            if not self._one_hot:
                self._counts = {}
        elif not self._one_hot:
            for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True):
                self._counts[kind] = self._counts.get(kind, 0) + count

    def _column_facts(self, values: npt.NDArray[np.float64]) -> None:
        if values.ndim == 1:
            values = values[:, None]
        if values.ndim != 2 or values.shape[1] > MAX_COLUMNS:
            return
        now, before = Moments.of(values), self._columns
        alike = before is not None and len(before.count) == values.shape[1]
        self._columns = before.merge(now) if before is not None and alike else now

    def _column_specs(self) -> tuple[ColumnFacts, ...]:
        """Facts of each column; NaN for the range and mean of one without a known value."""
        if self._columns is None:
            return ()
        found, known = self._columns, self._columns.count > 0
        unknown = ColumnFacts(math.nan, math.nan, math.nan, 0.0)  # one NaN, which equals itself
        rows = zip(found.low, found.high, found.mean, found.std, known, strict=True)
        return tuple(
            ColumnFacts(float(a), float(b), float(m), float(s)) if seen else unknown
            for a, b, m, s, seen in rows
        )
