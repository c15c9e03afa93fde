"""Inputs or targets on a scale that the network cannot handle."""

from __future__ import annotations

import math

from stethoscope.program import DataSpec
from stethoscope.types import Change, Fix, Op, SourceRef

PIXEL = 255  # the largest of 8 bits
LEAST_PIXEL = 128  # no pixel of many brighter than that: values of another kind
MANY = 64  # columns that are listed one by one, though one figure would do for all
ALIKE = 2.0  # columns whose size is within that factor of all of them are on one scale
GOOD = (0.1, 3.0)  # a column of a deviation above and a size below that is left as it is


def scaling(data: DataSpec, path: str, source: SourceRef | None) -> Fix:
    """A fix that brings data to a mean near 0 and a standard deviation near 1.

    Pixels are divided by 255; columns that are on scales of their own are standardized, each with
    its measured mean and deviation.
    """
    if _are_pixels(data):
        return Fix(f"divide {path} by {PIXEL}", Change(Op.SCALE, path, 1 / PIXEL, source))
    if data.columns and not (len(data.columns) > MANY and _alike(data)):
        columns = {
            str(i): {"mean": c.mean, "std": c.std}
            for i, c in enumerate(data.columns)
            if c.std > 0 and (math.hypot(c.mean, c.std) > GOOD[1] or c.std < GOOD[0])
        }
        told = [f"{i} ({c['mean']:.4g}, {c['std']:.4g})" for i, c in list(columns.items())[:6]]
        names = ", ".join(told) + (" and more" if len(columns) > 6 else "")
        word = "column" if len(columns) == 1 else "columns"
        return Fix(
            f"standardize {path}: subtract the mean and divide by the standard deviation (both in "
            f"brackets) in {word} {names}",
            Change(Op.WRAP, path, {"standardize": columns}, source),
        )
    mean, std = data.mean or 0.0, data.std or 1.0
    return Fix(
        f"standardize {path}: subtract {mean:.4g}, divide by {std:.4g}",
        Change(Op.WRAP, path, {"standardize": {"mean": mean, "std": std}}, source),
    )


def _are_pixels(data: DataSpec) -> bool:
    """Whether samples are images of 8 bits: two axes of whole numbers, or three.

    A window of a series has two axes too, and as a rule values between the whole numbers.
    """
    sides = [size for size in data.shape or () if size > 1]
    image = len(data.shape or ()) >= 3 or bool(data.integer_valued)
    low, high = data.min or 0.0, data.max or 0.0
    return image and len(sides) >= 2 and low >= 0 and LEAST_PIXEL < high <= PIXEL


def _alike(data: DataSpec) -> bool:
    """Whether one mean and one deviation serve all columns; one that never varies needs none."""
    mean, std = data.mean or 0.0, data.std or 1.0
    return all(
        std / ALIKE <= c.std <= std * ALIKE and abs(c.mean - mean) <= std
        for c in data.columns
        if c.std > 0
    )


def index_of(path: str | None) -> int:
    """The index in a path such as `data.input[1]`; 0 without one."""
    digits = (path or "").rpartition("[")[2].rstrip("]")
    return int(digits) if digits.isdigit() else 0
