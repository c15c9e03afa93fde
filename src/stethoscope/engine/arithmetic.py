"""Operations whose derivative at a kink or at zero is a convention: here that of Keras on JAX.

Where two arguments of a minimum or maximum are equal, each gets half of the gradient; saturated
outputs (a probability of exactly 1, a tanh of exactly -1) do meet such a point in training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

EPSILON = 1e-7  # keras.config.epsilon()


def clip(x: Array, low: float, high: float) -> tuple[Array, Array | None]:
    """The values limited to [low, high], and the derivative of that; None stands for all ones.

    >>> clip(np.array([-1.0, 0.0, 0.5]), 0.0, 1.0)
    (array([0. , 0. , 0.5]), array([0. , 0.5, 1. ]))
    >>> clip(np.array([0.2, 0.5]), 0.0, 1.0)
    (array([0.2, 0.5]), None)
    """
    if x.size and x.min() > low and x.max() < high:  # the usual case, without a new array
        return x, None
    inside: Array = 0.5 * (np.sign(x - low) + np.sign(high - x))
    limited: Array = np.minimum(np.maximum(x, low), high)
    return limited, inside


def positive(x: Array) -> Array:
    """The derivative of max(x, 0): 1, at exactly 0 a half, and 0."""
    share: Array = 0.5 * (np.sign(x) + 1)
    return share


def sign(x: Array) -> Array:
    """The derivative of |x|: 1, also at exactly 0, or -1.

    >>> sign(np.array([-2.0, 0.0, 2.0]))
    array([-1.,  1.,  1.])
    """
    one = x.dtype.type(1)
    found: Array = np.where(x >= 0, one, -one)
    return found


def unit(x: Array, axis: int) -> tuple[Array, Callable[[Array], Array]]:
    """Vectors along `axis` scaled to length 1, and how a gradient goes back through that.

    A vector shorter than `EPSILON` is divided by `EPSILON`; the derivative at 0 is NaN.

    >>> unit(np.array([3.0, 4.0]), -1)[0]
    array([0.6, 0.8])
    """
    with np.errstate(divide="ignore"):
        inverse = 1 / np.sqrt(np.square(x).sum(axis=axis, keepdims=True))
    limited: Array = np.minimum(inverse, 1 / EPSILON)

    def back(gradient: Array) -> Array:
        along = (gradient * x).sum(axis=axis, keepdims=True) * (inverse == limited)
        result: Array = gradient * limited - x * (along * inverse**3)
        return result

    return x * limited, back
