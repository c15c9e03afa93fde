"""Activations made of pieces: ReLU and its kin.

A mask multiplies the gradient instead of selecting it: `numpy.where` takes ten times as long.
"""

from __future__ import annotations

import numpy as np

from stethoscope.engine.activations._base import Activation, Array


def linear() -> Activation:
    """The identity; it hands on the very array."""
    return Activation("linear", lambda x: x, lambda gradient, _x, _y: gradient)


def relu(
    negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0
) -> Activation:
    """The larger of x and 0.

    Args:
        negative_slope: y = negative_slope * (x - threshold) below `threshold`.
        max_value: No y is above it; None sets no bound.
        threshold: y = x only above it. The derivative at it is 0.
    """
    if not negative_slope and max_value is None and not threshold:
        return Activation(
            "relu", lambda x: np.maximum(x, 0), lambda gradient, _x, y: gradient * (y > 0)
        )
    if negative_slope and max_value is None and not threshold:
        return leaky_relu(negative_slope)
    if not negative_slope and max_value == 6 and not threshold:
        return relu6()

    def forward(x: Array) -> Array:
        y: Array = np.maximum(x, 0)
        if threshold:
            np.copyto(y, 0, where=~(x > threshold))
        if max_value is not None:
            np.minimum(y, max_value, out=y)
        if negative_slope:
            below = np.minimum(x - threshold, 0)
            below *= negative_slope
            y += below
        return y

    def backward(gradient: Array, x: Array, _y: Array) -> Array:
        slope = (x > threshold).astype(x.dtype)
        if max_value is not None:
            slope *= x <= max_value
            # Keras takes relu6 for 6; at any other bound JAX halves the derivative.
            slope[x == max_value] *= 0.0 if max_value == 6 and not threshold else 0.5
        if negative_slope:
            slope += negative_slope * (x < threshold)
        slope *= gradient
        return slope

    settings = {
        "negative_slope": negative_slope,
        "max_value": max_value,
        "threshold": threshold,
    }
    return Activation("relu", forward, backward, settings)


def relu6() -> Activation:
    """`x` between 0 and 6, the nearer of them outside; the derivative at both is 0."""
    return Activation(
        "relu6",
        lambda x: np.clip(x, 0, 6),
        lambda gradient, _x, y: gradient * ((y > 0) & (y < 6)),
    )


def leaky_relu(negative_slope: float = 0.2) -> Activation:
    """`x` where x >= 0, negative_slope * x elsewhere; the derivative at 0 is 1."""

    def forward(x: Array) -> Array:
        if 0 <= negative_slope <= 1:
            y: Array = x * negative_slope
            return np.maximum(x, y, out=y)
        return x * slope(x)

    def slope(x: Array) -> Array:
        factor: Array = (x < 0).astype(x.dtype)
        factor *= negative_slope - 1
        factor += 1
        return factor

    def backward(gradient: Array, x: Array, _y: Array) -> Array:
        back = slope(x)
        back *= gradient
        return back

    return Activation("leaky_relu", forward, backward, {"negative_slope": negative_slope})


def hard_sigmoid() -> Activation:
    """`x / 6 + 1/2`, held between 0 and 1."""

    def forward(x: Array) -> Array:
        y: Array = x + 3
        np.clip(y, 0, 6, out=y)
        y /= 6
        return y

    return Activation(
        "hard_sigmoid", forward, lambda gradient, _x, y: gradient * ((y > 0) & (y < 1)) / 6
    )


def hard_silu() -> Activation:
    """`x * hard_sigmoid(x)`."""
    gate = hard_sigmoid()

    def forward(x: Array) -> Array:
        y = gate.forward(x)
        y *= x
        return y

    def backward(gradient: Array, x: Array, _y: Array) -> Array:
        opened = gate.forward(x)
        slope = gate.backward(x, x, opened)
        slope += opened
        slope *= gradient
        return slope

    return Activation("hard_silu", forward, backward)


def hard_tanh() -> Activation:
    """`x` held between -1 and 1; the derivative at both is 1."""
    return Activation(
        "hard_tanh",
        lambda x: np.clip(x, -1, 1),
        lambda gradient, x, _y: gradient * ((x >= -1) & (x <= 1)),
    )


def hard_shrink(threshold: float = 0.5) -> Activation:
    """`x` where |x| > threshold, 0 elsewhere."""
    return Activation(
        "hard_shrink",
        lambda x: x * (np.abs(x) > threshold),
        lambda gradient, x, _y: gradient * (np.abs(x) > threshold),
        {"threshold": threshold},
    )


def soft_shrink(threshold: float = 0.5) -> Activation:
    """`x` moved towards 0 by `threshold`, 0 where it would cross it."""
    return Activation(
        "soft_shrink",
        lambda x: x - np.clip(x, -threshold, threshold),
        lambda gradient, x, _y: gradient * (np.abs(x) > threshold),
        {"threshold": threshold},
    )


def threshold(threshold: float, default_value: float) -> Activation:
    """`x` where x > threshold, `default_value` elsewhere."""

    def forward(x: Array) -> Array:
        y = x.copy()
        np.copyto(y, default_value, where=~(x > threshold))
        return y

    return Activation(
        "threshold",
        forward,
        lambda gradient, x, _y: gradient * (x > threshold),
        {"threshold": threshold, "default_value": default_value},
    )


def sparse_plus() -> Activation:
    """0 up to -1, x from 1 on, and the parabola (x + 1)^2 / 4 between."""

    def forward(x: Array) -> Array:
        y: Array = np.clip(x, -1, 1)
        y += 1
        np.square(y, out=y)
        y /= 4
        y += np.maximum(x, 1) - 1  # 0 up to 1
        return y

    return Activation(
        "sparse_plus", forward, lambda gradient, x, _y: gradient * (np.clip(x, -1, 1) + 1) / 2
    )


def sparse_sigmoid() -> Activation:
    """(x + 1) / 2, held between 0 and 1; the derivative at both ends is 1/4."""

    def backward(gradient: Array, x: Array, _y: Array) -> Array:
        size = np.abs(x)
        back: Array = gradient * (size <= 1) / 2
        back[size == 1] /= 2  # JAX halves a derivative between the two sides of a bound
        return back

    return Activation("sparse_sigmoid", lambda x: (np.clip(x, -1, 1) + 1) / 2, backward)
