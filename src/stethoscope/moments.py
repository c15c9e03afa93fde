"""Means, spreads and best constant predictions of data that comes in batches.

Batches are merged by the pairwise formula of Chan, Golub and LeVeque (1979): the spread of values
far from 0 (times, years, prices) is not lost, as it is in "mean of squares less squared mean".
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from stethoscope.program import ConstantErrors
from stethoscope.stats import FloatArray

POSITIONS = 4096  # of a sample, spread evenly: more say nothing new of a mean over all of them
BUFFER = 2**20  # elements kept to find the medians: 256 rows of all positions, then none


@dataclasses.dataclass(frozen=True)
class Moments:
    """Of each column: how many known (finite) values, their range, mean and squared deviations.

    A column without a known value has a range of (inf, -inf).
    """

    count: FloatArray
    low: FloatArray
    high: FloatArray
    mean: FloatArray
    deviations: FloatArray

    @staticmethod
    def of(values: FloatArray) -> Moments:
        """Of the columns of an array [rows, columns]."""
        known = np.isfinite(values)
        if known.all() and len(values):
            mean = values.mean(axis=0)
            apart = np.square(values - mean).sum(axis=0)
            count = np.full(len(mean), float(len(values)))
            return Moments(count, values.min(axis=0), values.max(axis=0), mean, apart)
        count = known.sum(axis=0).astype(float)
        total = np.where(known, values, 0.0).sum(axis=0)
        mean = total / np.maximum(count, 1)
        deviations = np.square(np.where(known, values - mean, 0.0)).sum(axis=0)
        low = np.where(known, values, np.inf).min(axis=0)
        return Moments(count, low, np.where(known, values, -np.inf).max(axis=0), mean, deviations)

    def merge(self, other: Moments) -> Moments:
        """Of both together."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        between = other.mean - self.mean
        return Moments(
            count,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.mean + between * share,
            self.deviations + other.deviations + np.square(between) * self.count * share,
        )

    @property
    def std(self) -> FloatArray:
        """Standard deviation of each column; 0 without a known value."""
        variance: FloatArray = self.deviations / np.maximum(self.count, 1)
        return np.sqrt(variance)


class BestConstant:
    """What the best prediction scores that is the same for every sample, position by position."""

    def __init__(self) -> None:
        self._shape: tuple[int, ...] | None = None
        self._varies = False
        self._moments: Moments | None = None
        self._first: list[FloatArray] = []
        self._middle: FloatArray | None = None
        self._absolute = 0.0
        self._known = 0

    def add(self, values: npt.NDArray[np.float64]) -> None:
        """Takes a batch; the first axis is the samples, what is not finite is no value."""
        self._varies = self._varies or self._shape not in (None, values.shape[1:])
        if self._varies or values.ndim == 0:
            return
        self._shape = values.shape[1:]
        rows = values.reshape(len(values), -1)
        rows = rows[:, :: math.ceil(rows.shape[1] / POSITIONS)]
        now = Moments.of(rows)
        self._moments = now if self._moments is None else self._moments.merge(now)
        if self._middle is not None:
            self._add_absolute(rows, self._middle)
            return
        self._first.append(rows)
        if sum(one.size for one in self._first) + rows.size > BUFFER:
            self._middle = _medians(self._first)
            for one in self._first:
                self._add_absolute(one, self._middle)
            self._first = []

    def _add_absolute(self, rows: FloatArray, middle: FloatArray) -> None:
        apart = np.abs(rows - middle)
        known = np.isfinite(apart)
        self._absolute += float(apart[known].sum())
        self._known += int(known.sum())

    def errors(self) -> ConstantErrors | None:
        """The scores so far; None where samples differ in shape, or nothing was seen."""
        if self._varies or self._moments is None or not self._moments.count.any():
            return None
        known = self._moments.count > 0
        absolute, count = self._absolute, self._known
        if self._first:
            apart = np.abs(np.concatenate(self._first) - _medians(self._first))
            absolute, count = float(np.nansum(apart)), int(np.isfinite(apart).sum())
        binary = None
        if self._moments.low[known].min() >= 0 and self._moments.high[known].max() <= 1:
            binary = float(_bernoulli(self._moments.mean[known]).mean())
        squared = float(np.square(self._moments.std[known]).mean())
        return ConstantErrors(squared, absolute / max(count, 1), binary)


def _medians(rows: list[FloatArray]) -> FloatArray:
    values = np.concatenate(rows)
    values = np.where(np.isfinite(values), values, np.nan)
    known = ~np.isnan(values).all(axis=0)
    middle = np.zeros(values.shape[1])
    middle[known] = np.nanmedian(values[:, known], axis=0)
    return middle


def _bernoulli(p: FloatArray) -> FloatArray:
    """Entropy of a coin of each probability."""
    inside = np.clip(p, 1e-300, 1 - 1e-16)
    entropy: FloatArray = -inside * np.log(inside) - (1 - inside) * np.log1p(-inside)
    return np.where((p <= 0) | (p >= 1), 0.0, entropy)
