"""A loss or metric over a whole run in bounded memory, and tests of it against its own noise.

The series is kept as at most `BLOCKS` blocks of equal length with their means; when they are
full, neighbours merge. So a million steps cost what a thousand do, and a test always looks at
the whole run.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from stethoscope.stats import FloatArray

BLOCKS = 128  # enough for a trend test on the last third, small enough to fold at every step
CLEAR = 4.0  # standard errors: neighbouring blocks are correlated, so 2 would not be enough
EARLY = 32


@dataclasses.dataclass
class Series:
    """One scalar series.

    Attributes:
        count: Finite values taken.
        nonfinite: Values that were NaN or infinite.
        early: The first `EARLY` finite values, as they were.
    """

    count: int = 0
    nonfinite: int = 0
    early: list[float] = dataclasses.field(default_factory=list)
    _length: int = 1
    _means: list[float] = dataclasses.field(default_factory=list)
    _sum: float = 0.0
    _filled: int = 0
    _array: FloatArray | None = None

    def add(self, value: float) -> None:
        """Takes the value of the next step."""
        if not math.isfinite(value):
            self.nonfinite += 1
            return
        self.count += 1
        if len(self.early) < EARLY:
            self.early.append(value)
        self._sum += value
        self._filled += 1
        if self._filled < self._length:
            return
        self._array = None
        self._means.append(self._sum / self._length)
        self._sum, self._filled = 0.0, 0
        if len(self._means) == BLOCKS:
            pairs = zip(self._means[::2], self._means[1::2], strict=True)
            self._means = [(a + b) / 2 for a, b in pairs]
            self._length *= 2

    @property
    def means(self) -> FloatArray:
        """Block means in order."""
        if self._array is None:
            self._array = np.asarray(self._means)
        return self._array

    @property
    def block(self) -> int:
        """Steps in one block."""
        return self._length

    def tail(self, share: float = 1 / 3) -> FloatArray:
        """The block means of the last `share` of the run; at least one where there is any."""
        means = self.means
        return means[-max(1, math.ceil(len(means) * share)) :]

    def level(self, share: float = 1 / 3) -> tuple[float, float]:
        """Mean and standard error over the last `share` of the run."""
        tail = self.tail(share)
        if len(tail) == 0:
            return math.nan, math.nan
        mean = float(np.add.reduce(tail)) / len(tail)
        if len(tail) < 2:
            return mean, math.inf
        apart = tail - mean
        return mean, math.sqrt(float(np.dot(apart, apart)) / (len(tail) - 1) / len(tail))

    def start(self) -> float:
        """Level of the first steps: the mean of the first 3 % (at least one, at most 5 values)."""
        if not self.early:
            return math.nan
        width = self._start_width
        return math.fsum(self.early[:width]) / width

    @property
    def _start_width(self) -> int:
        return min(5, max(1, self.count // 30))

    def risen(self, by: float = 0.2) -> bool:
        """Whether the last third is above the first steps: by a share, beyond the noise of both.

        The first steps are few, so their noise counts most; it is taken from the last third, block
        by block. A rise that a fall has followed since is over.
        """
        level, error = self.level()
        if not math.isfinite(error):
            return False
        first = self.start()
        width = self._start_width
        noise = error * math.sqrt(len(self.tail()) * self._length / width)
        slope, clear = self.trend()
        high = level > first + CLEAR * math.hypot(error, noise) + by * max(abs(first), 1e-3)
        return high and not (slope < 0 and clear < -CLEAR)

    def trend(self, share: float = 0.5) -> tuple[float, float]:
        """Slope per step over the last `share` of the run, and how many standard errors it is."""
        tail = self.tail(share)
        if len(tail) < 6:  # four degrees of freedom are the least for a usable error
            return math.nan, 0.0
        x = np.arange(len(tail)) - (len(tail) - 1) / 2
        mean = float(np.add.reduce(tail)) / len(tail)
        apart, spread = tail - mean, float(np.dot(x, x))
        slope = float(np.dot(x, apart)) / spread
        residual = apart - slope * x
        error = math.sqrt(float(np.dot(residual, residual)) / (len(tail) - 2) / spread)
        if error <= 1e-12 * max(abs(mean), 1e-30):
            return slope / self._length, 0.0 if slope == 0 else math.copysign(math.inf, slope)
        return slope / self._length, slope / error
