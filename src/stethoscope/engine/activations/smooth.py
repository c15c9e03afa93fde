"""Activations with an exponential, a root or the error function in them."""

from __future__ import annotations

import math

import numpy as np

from stethoscope.engine.activations._base import Activation, Array
from stethoscope.engine.activations.gaussian import cumulative, density

SELU_ALPHA = 1.6732632423543772848170429916717  # Klambauer et al. (2017), section 2
SELU_SCALE = 1.0507009873554804934193349852946
GELU_CUBIC = 0.044715  # Hendrycks and Gimpel (2016), section 2

_LARGEST = {4: 87.0, 8: 708.0}  # itemsize -> where exp(x) is still finite


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)) in a new array, without overflow."""
    y: Array = np.maximum(x, -_LARGEST[x.dtype.itemsize])
    np.negative(y, out=y)
    np.exp(y, out=y)
    y += 1
    return np.reciprocal(y, out=y)


def sigmoid() -> Activation:
    """The logistic function 1 / (1 + exp(-x))."""

    def backward(gradient: Array, _x: Array, y: Array) -> Array:
        slope: Array = 1 - y
        slope *= y
        slope *= gradient
        return slope

    return Activation("sigmoid", logistic, backward)


def tanh() -> Activation:
    """The hyperbolic tangent."""

    def backward(gradient: Array, _x: Array, y: Array) -> Array:
        slope: Array = y * y
        np.subtract(1, slope, out=slope)
        slope *= gradient
        return slope

    return Activation("tanh", np.tanh, backward)


def tanh_shrink() -> Activation:
    """`x - tanh(x)`."""

    def forward(x: Array) -> Array:
        y: Array = np.tanh(x)
        return np.subtract(x, y, out=y)

    return Activation(
        "tanh_shrink", forward, lambda gradient, x, y: gradient * np.square(np.subtract(x, y))
    )


def exponential() -> Activation:
    """exp(x)."""
    return Activation("exponential", np.exp, lambda gradient, _x, y: gradient * y)


def elu(alpha: float = 1.0) -> Activation:
    """`x` where x > 0, alpha * (exp(x) - 1) elsewhere."""

    def forward(x: Array) -> Array:
        y: Array = np.minimum(x, 0)
        np.expm1(y, out=y)
        y *= alpha
        y += np.maximum(x, 0)
        return y

    def backward(gradient: Array, x: Array, y: Array) -> Array:
        slope: Array = np.minimum(y, 0)
        slope += alpha
        np.copyto(slope, 1, where=x > 0)
        slope *= gradient
        return slope

    return Activation("elu", forward, backward, {"alpha": alpha})


def selu() -> Activation:
    """The scaled ELU of Klambauer et al. (2017): it keeps mean 0 and variance 1."""
    inner = elu(SELU_ALPHA)

    def forward(x: Array) -> Array:
        y = inner.forward(x)
        y *= SELU_SCALE
        return y

    def backward(gradient: Array, x: Array, y: Array) -> Array:
        slope = inner.backward(gradient, x, y / SELU_SCALE)
        slope *= SELU_SCALE
        return slope

    return Activation("selu", forward, backward)


def celu(alpha: float = 1.0) -> Activation:
    """`x` where x > 0, alpha * (exp(x / alpha) - 1) elsewhere."""

    def forward(x: Array) -> Array:
        y: Array = np.minimum(x, 0)
        y /= alpha
        np.expm1(y, out=y)
        y *= alpha
        y += np.maximum(x, 0)
        return y

    def backward(gradient: Array, _x: Array, y: Array) -> Array:
        slope: Array = np.minimum(y, 0)
        slope /= alpha
        slope += 1
        slope *= gradient
        return slope

    return Activation("celu", forward, backward, {"alpha": alpha})


def softplus() -> Activation:
    """log(1 + exp(x))."""

    def backward(gradient: Array, _x: Array, y: Array) -> Array:
        slope: Array = -y
        np.expm1(slope, out=slope)  # the logistic function of x is 1 - exp(-y)
        slope *= gradient
        return np.negative(slope, out=slope)

    return Activation("softplus", _softplus, backward)


def _softplus(x: Array) -> Array:
    y: Array = np.abs(x)
    np.negative(y, out=y)
    np.exp(y, out=y)
    np.log1p(y, out=y)
    y += np.maximum(x, 0)
    return y


def log_sigmoid() -> Activation:
    """log(1 / (1 + exp(-x)))."""

    def forward(x: Array) -> Array:
        y = _softplus(-x)
        return np.negative(y, out=y)

    def backward(gradient: Array, _x: Array, y: Array) -> Array:
        slope: Array = np.expm1(y)
        slope *= gradient
        return np.negative(slope, out=slope)

    return Activation("log_sigmoid", forward, backward)


def softsign() -> Activation:
    """`x / (1 + |x|)`."""

    def backward(gradient: Array, x: Array, _y: Array) -> Array:
        size: Array = np.abs(x)
        size += 1
        np.square(size, out=size)
        return np.divide(gradient, size, out=size)

    return Activation("softsign", lambda x: x / (1 + np.abs(x)), backward)


def squareplus(b: float = 4) -> Activation:
    """(x + sqrt(x^2 + b)) / 2."""

    def forward(x: Array) -> Array:
        y: Array = np.sqrt(x * x + b)
        y += x
        y /= 2
        return y

    def backward(gradient: Array, x: Array, _y: Array) -> Array:
        slope: Array = x / np.sqrt(x * x + b)
        slope += 1
        slope /= 2
        slope *= gradient
        return slope

    return Activation("squareplus", forward, backward, {"b": b})


def silu() -> Activation:
    """`x * sigmoid(x)`, also called swish."""

    def forward(x: Array) -> Array:
        y = logistic(x)
        y *= x
        return y

    def backward(gradient: Array, x: Array, y: Array) -> Array:
        gate = logistic(x)
        slope: Array = 1 - gate
        slope *= y
        slope += gate
        slope *= gradient
        return slope

    return Activation("silu", forward, backward)


def mish() -> Activation:
    """`x * tanh(softplus(x))`."""

    def forward(x: Array) -> Array:
        y = np.tanh(_softplus(x))
        y *= x
        return y

    def backward(gradient: Array, x: Array, _y: Array) -> Array:
        gate = np.tanh(_softplus(x))
        slope: Array = 1 - gate * gate
        slope *= logistic(x)
        slope *= x
        slope += gate
        slope *= gradient
        return slope

    return Activation("mish", forward, backward)


def gelu(approximate: bool = False) -> Activation:
    """`x * P(Z <= x)` for a standard normal Z.

    Args:
        approximate: Take (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2 for the probability.
    """
    root = math.sqrt(2 / math.pi)

    def bent(x: Array) -> Array:
        t: Array = x * x
        t *= GELU_CUBIC * root
        t += root
        t *= x
        return np.tanh(t, out=t)

    def forward(x: Array) -> Array:
        if not approximate:
            y = cumulative(x)
            y *= x
            return y
        y = bent(x)
        y += 1
        y *= x
        y /= 2
        return y

    def backward(gradient: Array, x: Array, _y: Array) -> Array:
        if not approximate:
            slope = density(x)
            slope *= x
            slope += cumulative(x)
        else:
            t = bent(x)
            inner: Array = x * x
            inner *= 3 * GELU_CUBIC * root
            inner += root
            slope = (1 - t * t) * inner * x
            slope += 1 + t
            slope /= 2
        slope *= gradient
        return slope

    return Activation("gelu", forward, backward, {"approximate": approximate})
