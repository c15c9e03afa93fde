"""Which tensor of a step was the first to hold a NaN or an infinity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stethoscope.stats import FloatArray, nonfinite
from stethoscope.types import Slot, Stage

MAX_ROWS = 16  # enough to look the samples up

# What a step reads comes before what it computes; within a stage the order of seeing counts.
_ORDER = (
    (Stage.INPUT,),
    (Stage.TARGET,),
    (Stage.WEIGHT,),
    (Stage.PRE_ACTIVATION, Stage.OUTPUT),
    (Stage.LOSS,),
    (Stage.OUTPUT_GRAD,),
    (Stage.WEIGHT_GRAD,),
    (Stage.UPDATE,),
)
_RANK = {stage: i for i, stages in enumerate(_ORDER) for stage in stages}


def first_nonfinite(
    observations: Sequence[tuple[Slot, FloatArray]],
) -> tuple[Slot, FloatArray] | None:
    """The most upstream observation that counts a non-finite element; None when all are finite.

    Args:
        observations: Of one step; those of one stage in the order in which they were computed.
    """
    bad = [one for one in observations if nonfinite(one[1]) > 0]
    return min(bad, key=lambda one: _RANK.get(one[0].stage, len(_ORDER)), default=None)


def bad_rows(values: npt.NDArray[Any]) -> list[int]:
    """Indices along the first axis that hold a non-finite element, at most `MAX_ROWS`."""
    if values.ndim == 0 or values.size == 0 or values.dtype.kind != "f":
        return []
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    return [int(i) for i in np.flatnonzero(bad)[:MAX_ROWS]]
