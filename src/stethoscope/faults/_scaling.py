"""Inputs or targets on a scale that the network cannot handle."""

from __future__ import annotations

import math

from stethoscope.program import DataSpec
from stethoscope.types import Change, Fix, Op, SourceRef


def scaling(data: DataSpec, path: str, source: SourceRef | None) -> Fix:
    """A fix that brings data to a mean near 0 and a standard deviation near 1.

    Pixels (whole numbers or not, from 0 to at most 255) are divided by 255; columns that are on
    scales of their own are standardized, each with its measured mean and deviation.
    """
    low, high = data.min or 0.0, data.max or 0.0
    image = data.shape is not None and (len(data.shape) >= 2 or data.shape[-1:] > (64,))
    if image and low >= 0 and 16 < high <= 255:
        return Fix(f"divide {path} by 255", Change(Op.SCALE, path, 1 / 255, source))
    if data.columns and len(data.columns) <= 64:
        columns = {
            str(i): {"mean": c.mean, "std": c.std}
            for i, c in enumerate(data.columns)
            if c.std > 0 and (math.hypot(c.mean, c.std) > 3 or c.std < 0.1)
        }
        names = ", ".join(list(columns)[:6]) + (" and more" if len(columns) > 6 else "")
        return Fix(
            f"standardize {path}: subtract mean and divide by standard deviation in columns "
            f"{names}",
            Change(Op.WRAP, path, {"standardize": columns}, source),
        )
    mean, std = data.mean or 0.0, data.std or 1.0
    return Fix(
        f"standardize {path}: subtract {mean:.4g}, divide by {std:.4g}",
        Change(Op.WRAP, path, {"standardize": {"mean": mean, "std": std}}, source),
    )


def index_of(path: str | None) -> int:
    digits = (path or "").rpartition("[")[2].rstrip("]")
    return int(digits) if digits.isdigit() else 0
