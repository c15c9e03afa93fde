"""The statistics of one torch tensor: the fast version of `stats.describe`.

Only reductions that run at memory speed are used, and the costly ones only where the cheap ones
say that they can matter. Whatever is not a plain finite tensor goes the slow, exact way.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stethoscope import stats
from stethoscope.stats import POSITION, FloatArray
from stethoscope.types import Stat

_MEAN, _STD, _MIN, _MAX = (POSITION[s] for s in (Stat.MEAN, Stat.STD, Stat.MIN, Stat.MAX))
_NORM, _ZERO, _DEAD = (POSITION[s] for s in (Stat.NORM, Stat.ZERO_SHARE, Stat.DEAD_SHARE))
_SATURATED, _SAMPLE = POSITION[Stat.SATURATED_SHARE], POSITION[Stat.SAMPLE_STD]
_NAN, _INF, _COUNT = (POSITION[s] for s in (Stat.NAN_COUNT, Stat.INF_COUNT, Stat.COUNT))

CANCELLATION = 1e-3  # below this share of the mean square, a difference of float32 sums is noise
LARGEST_SQUARE = 1e30  # norms of float32 elements beyond its root overflow
SMALLEST_SQUARE = 1e-30
EXACT_BELOW = 64  # elements: below, a handful of float64 operations costs no more


def measurable(tensor: object) -> bool:
    """Whether statistics of `tensor` can be taken: dense, real, with values, of no transform."""
    return (
        isinstance(tensor, Tensor)
        and tensor.layout is torch.strided
        and not tensor.is_meta
        and not tensor.is_quantized
        and not tensor.is_complex()
        and not tensor.is_nested
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def dense(tensor: Tensor) -> Tensor:
    """The values of a sparse tensor (a gradient of an embedding); others as they are."""
    if tensor.layout is torch.sparse_coo:
        return tensor.detach().coalesce().values()
    return tensor


def array(tensor: Tensor) -> Any:
    """The values as NumPy takes them."""
    with torch._C.DisableTorchFunction():
        tensor = tensor.detach()
        if tensor.dtype in (torch.bfloat16, torch.float16):
            tensor = tensor.float()
        return tensor.cpu().numpy()


def describe(
    tensor: Tensor,
    *,
    saturation: tuple[float, float] | None = None,
    unit_axis: int | None = None,
) -> FloatArray:
    """All statistics of one tensor; see `stats.describe`, which it equals up to rounding.

    Args:
        tensor: Any shape, device and real dtype; strided (see `measurable`).
        saturation: Interval outside which a pre-activation counts as saturated.
        unit_axis: Axis of the units or channels; None for weights and gradients.

    Returns:
        float64 vector in the order of `stats.TENSOR_STATS`.
    """
    with torch._C.DisableTorchFunction(), torch.no_grad():
        x = tensor.detach()
        if not x.is_floating_point():
            x = x.double()
        elif x.element_size() < 4:
            x = x.float()
        count = x.numel()
        if count == 0:
            return stats.describe(x.cpu().numpy(), saturation=saturation, unit_axis=unit_axis)
        low_, high_ = torch.aminmax(x)
        low, high = low_.item(), high_.item()
        # NaN shows in both; infinities in one; sums of squares must fit their dtype.
        largest = max(abs(low), abs(high))
        if not largest < math.inf:
            return _exact(x, saturation, unit_axis)
        if x.dtype is torch.float32 and not _fits(largest):
            x = x.double()
        row = stats.empty()
        norm = torch.linalg.vector_norm(x).item()
        mean = x.sum().item() / count
        zeros = _count(x, 0.0, 0.0) if low <= 0 <= high else 0
        row[_COUNT], row[_NAN], row[_INF] = count, 0, 0
        row[_MIN], row[_MAX], row[_MEAN], row[_NORM] = low, high, mean, norm
        row[_STD] = _spread(x, mean, norm, low, high)
        row[_ZERO] = zeros / count
        if saturation is not None:
            row[_SATURATED] = _outside(x, saturation, low, high)
        if unit_axis is not None and x.ndim >= 2:
            row[_DEAD] = _dead(x, unit_axis % x.ndim, zeros, low)
            row[_SAMPLE] = _sample_std(x, norm)
        return row


def _exact(x: Tensor, saturation: tuple[float, float] | None, unit_axis: int | None) -> FloatArray:
    return stats.describe(x.cpu().numpy(), saturation=saturation, unit_axis=unit_axis)


def _fits(largest: float) -> bool:
    """Whether squares neither overflow nor vanish in float32."""
    square = largest * largest
    return square == 0 or SMALLEST_SQUARE < square < LARGEST_SQUARE


def _spread(x: Tensor, mean: float, norm: float, low: float, high: float) -> float:
    """Population standard deviation."""
    if low == high:
        return 0.0
    count = x.numel()
    variance = norm * norm / count - mean * mean
    if count < EXACT_BELOW or variance < CANCELLATION * mean * mean:
        y = x.double()
        return float(torch.linalg.vector_norm(y - y.mean())) / math.sqrt(count)
    return math.sqrt(variance)


def _outside(x: Tensor, interval: tuple[float, float], low: float, high: float) -> float:
    bottom, top = interval
    if low > bottom and high < top:
        return 0.0
    outside = 0
    if low <= bottom:
        outside += _count(x, None, bottom)
    if high >= top:
        outside += _count(x, top, None)
    return outside / x.numel()


def _count(x: Tensor, low: float | None, high: float | None) -> int:
    """How many elements lie in [low, high]; zeros by [0, 0]. Bounds as in `stats.describe`.

    NumPy compares and counts 4 to 40 times faster than torch on a CPU: torch branches on values.
    """
    values = x.numpy() if x.device.type == "cpu" else x
    mask: Any
    if low is not None:
        mask = values == low if high is not None else values >= low
    else:
        assert high is not None
        mask = values <= high
    return int(np.count_nonzero(mask) if isinstance(mask, np.ndarray) else mask.sum())


def _dead(x: Tensor, axis: int, zeros: int, low: float) -> float:
    """Share of units that are 0 everywhere: at least one whole unit must be zeros for that."""
    units = x.shape[axis]
    if zeros * units < x.numel():
        return 0.0
    others = [i for i in range(x.ndim) if i != axis]
    peak = torch.amax(x, others)
    dead = peak == 0 if low >= 0 else (peak == 0) & (torch.amin(x, others) == 0)
    return int(torch.count_nonzero(dead)) / units


def _sample_std(x: Tensor, norm: float) -> float:
    """Root mean square, over elements, of the standard deviation across samples."""
    count = x.numel()
    middle = x.mean(0)
    common = torch.linalg.vector_norm(middle).item()
    square = norm * norm / count
    variance = square - common * common / middle.numel()
    if count < EXACT_BELOW or variance < CANCELLATION * square:
        y = x.double()
        return float(torch.linalg.vector_norm(y - y.mean(0))) / math.sqrt(count)
    return math.sqrt(variance)
