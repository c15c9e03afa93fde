"""Activations that mix the values along one axis, which counts the batch axis as Keras does."""

from __future__ import annotations

import numpy as np

from stethoscope.engine.activations._base import Activation, Array
from stethoscope.engine.activations.smooth import logistic


def softmax(axis: int = -1) -> Activation:
    """Powers exp(x) that sum to 1 over `axis`."""

    def forward(x: Array) -> Array:
        powers: Array = x - x.max(axis=axis, keepdims=True)
        np.exp(powers, out=powers)
        powers /= powers.sum(axis=axis, keepdims=True)
        return powers

    def backward(gradient: Array, _x: Array, y: Array) -> Array:
        back: Array = gradient * y
        back -= y * back.sum(axis=axis, keepdims=True)
        return back

    return Activation("softmax", forward, backward, {"axis": axis})


def log_softmax(axis: int = -1) -> Activation:
    """The logarithm of softmax(x)."""

    def forward(x: Array) -> Array:
        y: Array = x - x.max(axis=axis, keepdims=True)
        y -= np.log(np.exp(y).sum(axis=axis, keepdims=True))
        return y

    def backward(gradient: Array, _x: Array, y: Array) -> Array:
        back: Array = np.exp(y)
        back *= gradient.sum(axis=axis, keepdims=True)
        return np.subtract(gradient, back, out=back)

    return Activation("log_softmax", forward, backward, {"axis": axis})


def sparsemax(axis: int = -1) -> Activation:
    """max(x - t, 0), with the t that Keras 3.15 takes.

    Of n values in the support, sorted downwards, Keras's t sums the n running sums where
    Martins and Astudillo (2016, algorithm 1) have the last of them. The outputs therefore sum to
    1 only where the support is a single value; a model must mean the same here as there.
    """

    def support(x: Array) -> tuple[Array, Array, Array, Array]:
        order = np.argsort(-x, axis=axis, kind="stable")
        ranked = np.take_along_axis(x, order, axis=axis)
        sums = np.cumsum(ranked, axis=axis)
        shape = [1] * x.ndim
        shape[axis] = -1
        rank = np.arange(1, x.shape[axis] + 1, dtype=x.dtype).reshape(shape)
        inside = ranked - (sums - 1) / rank > 0
        return order, sums, rank, inside

    def forward(x: Array) -> Array:
        _order, sums, _rank, inside = support(x)
        size = inside.sum(axis=axis, keepdims=True).astype(x.dtype)
        least = ((sums * inside).sum(axis=axis, keepdims=True) - 1) / size
        y: Array = np.maximum(x - least, 0)
        return y

    def backward(gradient: Array, x: Array, y: Array) -> Array:
        order, _sums, rank, inside = support(x)
        size = inside.sum(axis=axis, keepdims=True).astype(x.dtype)
        # The i-th largest value is in the running sums from i to the size of the support.
        shares = np.zeros_like(x)
        np.put_along_axis(shares, order, inside * (size + 1 - rank) / size, axis=axis)
        back: Array = gradient * (y > 0)
        back -= shares * back.sum(axis=axis, keepdims=True)
        return back

    return Activation("sparsemax", forward, backward, {"axis": axis})


def glu(axis: int = -1) -> Activation:
    """`a * sigmoid(b)`, where a and b are the two halves of x along `axis`."""

    def halves(x: Array) -> tuple[Array, Array]:
        if x.shape[axis] % 2:
            raise ValueError(
                f"glu halves axis {axis}, whose size must be even; got shape {x.shape}."
            )
        a, b = np.split(x, 2, axis=axis)
        return a, b

    def forward(x: Array) -> Array:
        a, b = halves(x)
        y = logistic(b)
        y *= a
        return y

    def backward(gradient: Array, x: Array, y: Array) -> Array:
        _a, b = halves(x)
        gate = logistic(b)
        return np.concatenate([gradient * gate, gradient * y * (1 - gate)], axis=axis)

    return Activation("glu", forward, backward, {"axis": axis}, halved=axis)
