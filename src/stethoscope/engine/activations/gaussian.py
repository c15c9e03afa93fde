"""The standard normal distribution, which NumPy lacks the error function for.

With t = 2 / (2 + z), the complementary error function of z >= 0 is t * exp(-z^2 + p(t)) for a
smooth p (the form of Press et al., Numerical Recipes, 3rd edition, section 6.2.2). The polynomial
is fitted here, once, to `math.erfc`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from stethoscope.engine.activations._base import Array

FAR = 26.0  # erfc(26) is the last that is no subnormal number in float64
DEGREES = {4: 10, 8: 28}  # itemsize -> where the fit reaches the rounding of the dtype


def cumulative(x: Array) -> Array:
    """P(Z <= x)."""
    z: Array = np.abs(x)
    z /= math.sqrt(2)
    np.minimum(z, FAR, out=z)
    t: Array = 2 / (z + 2)
    low, coefficients = _polynomial(DEGREES[x.dtype.itemsize])
    u: Array = t - (1 + low) / 2  # the interval of t becomes [-1, 1]
    u *= 2 / (1 - low)
    p = np.full_like(u, coefficients[0])
    for coefficient in coefficients[1:]:
        p *= u
        p += coefficient
    np.square(z, out=z)
    p -= z
    np.maximum(p, -87 if x.dtype.itemsize == 4 else -708, out=p)  # no underflow
    np.exp(p, out=p)
    p *= t
    p /= 2  # P(Z <= -|x|)
    np.subtract(1, p, out=p, where=x > 0)
    return p


def density(x: Array) -> Array:
    """exp(-x^2 / 2) / sqrt(2 pi)."""
    y: Array = np.minimum(np.abs(x), FAR / 2 if x.dtype.itemsize == 4 else FAR)
    np.square(y, out=y)
    y /= -2
    np.exp(y, out=y)
    y /= math.sqrt(2 * math.pi)
    return y


@functools.cache
def _polynomial(degree: int) -> tuple[float, list[float]]:
    """The lower end of the interval of t, and the coefficients of p from the highest power."""
    low = 2 / (2 + FAR)

    def p(u: Array) -> Any:
        values = []
        for t in (u * (1 - low) + 1 + low) / 2:
            z = 2 / t - 2
            values.append(math.log(math.erfc(z) / t) + z * z)
        return np.array(values)

    series = np.polynomial.Chebyshev(np.polynomial.chebyshev.chebinterpolate(p, degree))
    coefficients = series.convert(kind=np.polynomial.Polynomial).coef
    return low, [float(c) for c in coefficients[::-1]]
