"""The statistics of one tensor in jax.numpy, to be traced into a probe; see `stethoscope.stats`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from stethoscope.stats import POSITION, TENSOR_STATS
from stethoscope.types import Stat


def describe(
    tensor: Any,
    *,
    saturation: tuple[float, float] | None = None,
    unit_axis: int | None = None,
) -> Any:
    """What `stats.describe` computes, traced.

    Args:
        tensor: Any shape and real dtype.
        saturation: See `stats.describe`.
        unit_axis: See `stats.describe`.

    Returns:
        float32 vector in the order of `TENSOR_STATS`. `count` is exact up to 2**24 elements;
        the caller knows the size and corrects it.
    """
    values = jnp.asarray(tensor)
    if values.dtype != jnp.float64:
        values = values.astype(jnp.float32)
    row: dict[Stat, Any] = {Stat.COUNT: float(values.size)}
    finite = jnp.isfinite(values)
    number = jnp.sum(finite.astype(values.dtype))
    row[Stat.NAN_COUNT] = jnp.sum(jnp.isnan(values).astype(values.dtype))
    row[Stat.INF_COUNT] = values.size - number - row[Stat.NAN_COUNT]
    if values.size:
        row.update(_finite(values, finite, number))
        row.update(_units(values, finite, saturation, unit_axis, number))
    missing = jnp.nan if not values.size else jnp.where(number > 0, 0.0, jnp.nan)
    counted = (Stat.COUNT, Stat.NAN_COUNT, Stat.INF_COUNT)
    return jnp.stack(
        [
            jnp.asarray(row.get(stat, jnp.nan), jnp.float32) + (0.0 if stat in counted else missing)
            for stat in TENSOR_STATS
        ]
    )


def _finite(values: Any, finite: Any, number: Any) -> dict[Stat, Any]:
    known = jnp.where(finite, values, 0)
    # Scaled by the largest magnitude, so that squares and sums of large values do not overflow.
    largest = jnp.max(jnp.abs(known))
    scale = jnp.where(largest > 0, largest, 1)
    # In two steps: the inverse of the largest floats is subnormal, which XLA takes for 0.
    root = jax.lax.rsqrt(scale)
    scaled = known * root * root
    divisor = jnp.maximum(number, 1)
    mean = jnp.sum(scaled) / divisor
    centred = jnp.where(finite, scaled - mean, 0)
    return {
        Stat.MEAN: mean * scale,
        Stat.STD: jnp.sqrt(jnp.sum(jnp.square(centred)) / divisor) * scale,
        Stat.MIN: jnp.min(jnp.where(finite, values, jnp.inf)),
        Stat.MAX: jnp.max(jnp.where(finite, values, -jnp.inf)),
        Stat.NORM: jnp.sqrt(jnp.sum(jnp.square(scaled))) * scale,
        Stat.ZERO_SHARE: jnp.sum((values == 0).astype(values.dtype)) / divisor,
    }


def _units(
    values: Any,
    finite: Any,
    saturation: tuple[float, float] | None,
    unit_axis: int | None,
    number: Any,
) -> dict[Stat, Any]:
    row: dict[Stat, Any] = {}
    if saturation is not None:
        outside = ((values <= saturation[0]) | (values >= saturation[1])) & finite
        row[Stat.SATURATED_SHARE] = jnp.sum(outside.astype(values.dtype)) / jnp.maximum(number, 1)
    if unit_axis is not None and values.ndim >= 2:
        others = tuple(i for i in range(values.ndim) if i != unit_axis % values.ndim)
        row[Stat.DEAD_SHARE] = jnp.mean(jnp.all(values == 0, axis=others).astype(values.dtype))
        spread = jnp.sqrt(jnp.mean(jnp.var(values, axis=0)))
        row[Stat.SAMPLE_STD] = jnp.where(number == values.size, spread, jnp.nan)
    return row


@jax.custom_vjp
def listen(tensor: Any, sink: Any) -> Any:
    """Hands `tensor` on; the gradient with respect to `sink` tells of the tensor's own gradient.

    Args:
        tensor: An output of a layer.
        sink: Zeros of the shape of `tensor`: its gradient is that of the tensor. Or
            `empty_sink()`: its gradient is the statistics of that of the tensor.
    """
    return tensor


def _forward(tensor: Any, sink: Any) -> tuple[Any, bool]:
    return tensor, sink.shape == tensor.shape and sink.dtype == tensor.dtype


def _backward(whole: bool, gradient: Any) -> tuple[Any, Any]:
    return gradient, gradient if whole else describe(gradient)


listen.defvjp(_forward, _backward)


def empty_sink() -> Any:
    """Zeros to listen with."""
    return jnp.zeros(len(TENSOR_STATS), jnp.float32)


COUNT = POSITION[Stat.COUNT]
