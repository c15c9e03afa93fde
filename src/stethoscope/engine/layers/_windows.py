"""Windows that slide over arrays: where they lie, what is padded, and which values each one sees.

Everything here has the channels last, [samples, *lengths, channels], and any number of lengths
between; a layer whose data has the channels first hands over a transposed view.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from stethoscope.engine.layers._spatial import Pairs

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Placed:
    """Windows over lengths that are known.

    Attributes:
        outputs: How many windows there are along each length.
        pads: Cells before and after each length.
        corners: For each cell of a window, which cells of the padded array all windows see there.
        steps: Between windows, along each length.
        gaps: Between the cells of a window, along each length.
        size: Cells of a window, along each length.
    """

    outputs: tuple[int, ...]
    pads: Pairs
    corners: tuple[tuple[slice, ...], ...]
    steps: tuple[int, ...]
    gaps: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def padded(self) -> bool:
        """Whether any cell is added."""
        return any(before or after for before, after in self.pads)

    def pad(self, x: Array, value: float = 0.0) -> Array:
        """The array with its padding; the very array where there is none."""
        if not self.padded:
            return x
        lengths = x.shape[1:-1]
        whole = [n + a + b for n, (a, b) in zip(lengths, self.pads, strict=True)]
        shape = (len(x), *whole, x.shape[-1])
        wide = np.zeros(shape, x.dtype) if value == 0 else np.full(shape, value, x.dtype)
        self.crop(wide, lengths)[...] = x
        return wide

    def crop(self, wide: Array, lengths: tuple[int, ...]) -> Array:
        """The view of a padded array without its padding."""
        if not self.padded:
            return wide
        inner = [slice(a, a + n) for n, (a, _) in zip(lengths, self.pads, strict=True)]
        return wide[(slice(None), *inner)]

    def zeros(self, samples: int, lengths: tuple[int, ...], channels: int, dtype: Any) -> Array:
        """An array of the padded shape."""
        whole = [n + a + b for n, (a, b) in zip(lengths, self.pads, strict=True)]
        return np.zeros((samples, *whole, channels), dtype)

    def view(self, wide: Array, groups: int = 1) -> Array:
        """What every window sees, without a copy: [groups, samples, *outputs, *size, channels].

        Args:
            wide: The padded array.
            groups: Parts that its channels are cut into.
        """
        sample, *along, channel = wide.strides
        each = wide.shape[-1] // groups
        steps = [s * n for s, n in zip(along, self.steps, strict=True)]
        gaps = [s * n for s, n in zip(along, self.gaps, strict=True)]
        shape = (groups, len(wide), *self.outputs, *self.size, each)
        strides = (each * channel, sample, *steps, *gaps, channel)
        return as_strided(wide, shape, strides, writeable=False)


@dataclasses.dataclass(frozen=True)
class Windows:
    """Windows of one size, on a grid.

    Attributes:
        size: Cells along each length.
        strides: Steps between windows.
        dilation: Steps between the cells of a window.
        padding: "valid" for none, "same" for as many outputs as there are strides in the length,
            "causal" for windows that end at their position, or the cells before and after.
    """

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: str | Pairs = "valid"

    def place(self, lengths: tuple[int, ...]) -> Placed:
        """Lays the windows over an array of these lengths.

        >>> Windows((3,), (2,), (1,), "same").place((8,)).pads
        ((0, 1),)

        Raises:
            ValueError: Not even one window fits.
        """
        return _place(self, lengths)


@functools.lru_cache(maxsize=1024)
def _place(windows: Windows, lengths: tuple[int, ...]) -> Placed:
    outputs, pads = [], []
    for i, length in enumerate(lengths):
        step = windows.strides[i]
        reach = (windows.size[i] - 1) * windows.dilation[i]  # from the first cell to the last
        if windows.padding == "same":
            missing = max((-(-length // step) - 1) * step + reach + 1 - length, 0)
            pair = (missing // 2, missing - missing // 2)
        elif windows.padding == "causal":
            pair = (reach, 0)
        else:
            pair = (0, 0) if isinstance(windows.padding, str) else windows.padding[i]
        outputs.append((length + sum(pair) - reach - 1) // step + 1)
        pads.append(pair)
    if min(outputs, default=1) < 1:
        raise ValueError(
            f"windows of {windows.size} cells, dilated by {windows.dilation}, do not fit into"
            f" lengths {lengths}; make them smaller, or pad."
        )
    corners = []
    for cell in itertools.product(*map(range, windows.size)):
        starts = [c * gap for c, gap in zip(cell, windows.dilation, strict=True)]
        along = zip(starts, outputs, windows.strides, strict=True)
        seen = (slice(first, first + (n - 1) * step + 1, step) for first, n, step in along)
        corners.append((slice(None), *seen))
    return Placed(
        tuple(outputs),
        tuple(pads),
        tuple(corners),
        windows.strides,
        windows.dilation,
        windows.size,
    )


def blocks(samples: int, each: int, most: int) -> Iterator[slice]:
    """Cuts a batch into parts whose working memory is bounded.

    Args:
        samples: In the batch.
        each: Elements of working memory for a sample.
        most: Elements for a part; a part has at least one sample.

    >>> [(part.start, part.stop) for part in blocks(5, 10, 25)]
    [(0, 2), (2, 4), (4, 6)]
    """
    size = max(1, most // max(each, 1))
    for first in range(0, samples, size):
        yield slice(first, first + size)
