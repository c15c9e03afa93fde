"""Layers that join several values into one."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import numpy as np

from stethoscope.engine.layers._base import Array, Forward, Layer, Mode, Shape, Weights
from stethoscope.vocabulary import LayerKind


class _Elementwise(Layer):
    """Joins its inputs one after the other; an axis of size 1 fits every size."""

    kind = LayerKind.MERGE

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if not inputs:
            raise ValueError(f"{self.called} needs at least one input; got none.")
        rank = max(map(len, inputs))
        aligned = [(1,) * (rank - len(shape)) + tuple(shape) for shape in inputs]
        try:
            return tuple(np.broadcast_shapes(*aligned))
        except ValueError:
            raise ValueError(
                f"{self.called} needs inputs of one shape, or with axes of size 1; "
                f"got {list(inputs)}."
            ) from None

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        shapes = [x.shape for x in inputs]
        if len(set(map(len, shapes))) > 1:  # the axes that are missing come after the batch axis
            rank = max(map(len, shapes))
            inputs = [x.reshape(len(x), *(1,) * (rank - x.ndim), *x.shape[1:]) for x in inputs]
        partial = [inputs[0]]
        for x in inputs[1:]:
            partial.append(self.join(partial[-1], x))
        return Forward(self.finish(partial[-1], len(inputs)), (partial, list(inputs), shapes))

    def backward(
        self, gradient: Array, saved: tuple[list[Array], list[Array], list[Shape]], weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        partial, inputs, shapes = saved
        flowing = self.finish(gradient, len(inputs))
        found: list[Array] = []
        for before, x in zip(partial[-2::-1], inputs[:0:-1], strict=True):
            flowing, of_x = self.part(flowing, before, x)
            flowing = _reduced(flowing, before.shape)
            found.append(_reduced(of_x, x.shape))
        found.append(flowing)
        pairs = zip(reversed(found), shapes, strict=True)
        return [array.reshape(shape) for array, shape in pairs], {}

    def finish(self, joined: Array, count: int) -> Array:
        """The output, of all inputs joined; linear, so that it is its own derivative."""
        return joined

    @abc.abstractmethod
    def join(self, a: Array, b: Array) -> Array:
        """Two values joined."""

    @abc.abstractmethod
    def part(self, gradient: Array, a: Array, b: Array) -> tuple[Array, Array]:
        """The gradients of the two."""


class Add(_Elementwise):
    """The sum of its inputs.

    >>> Add().shape([(3,), (3,)])
    (3,)
    """

    def join(self, a: Array, b: Array) -> Array:
        return np.asarray(a + b)

    def part(self, gradient: Array, a: Array, b: Array) -> tuple[Array, Array]:
        return gradient, gradient


class Average(_Elementwise):
    """The mean of its inputs.

    >>> Average().shape([(3,), (3,)])
    (3,)
    """

    def finish(self, joined: Array, count: int) -> Array:
        return np.asarray(joined / count)

    def join(self, a: Array, b: Array) -> Array:
        return np.asarray(a + b)

    def part(self, gradient: Array, a: Array, b: Array) -> tuple[Array, Array]:
        return gradient, gradient


class Subtract(_Elementwise):
    """The first of two inputs minus the second.

    >>> Subtract().shape([(3,), (3,)])
    (3,)
    """

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if len(inputs) != 2:
            raise ValueError(f"{self.called} needs two inputs; got {len(inputs)}.")
        return super().shape(inputs)

    def join(self, a: Array, b: Array) -> Array:
        return np.asarray(a - b)

    def part(self, gradient: Array, a: Array, b: Array) -> tuple[Array, Array]:
        return gradient, -gradient


class Multiply(_Elementwise):
    """The product of its inputs.

    >>> Multiply().shape([(3,), (1,)])
    (3,)
    """

    def join(self, a: Array, b: Array) -> Array:
        return np.asarray(a * b)

    def part(self, gradient: Array, a: Array, b: Array) -> tuple[Array, Array]:
        return gradient * b, gradient * a


class Maximum(_Elementwise):
    """The largest of its inputs, place by place; equal ones share the derivative.

    >>> Maximum().shape([(3,), (3,)])
    (3,)
    """

    def join(self, a: Array, b: Array) -> Array:
        return np.asarray(np.maximum(a, b))

    def part(self, gradient: Array, a: Array, b: Array) -> tuple[Array, Array]:
        share = _share(a > b, a == b, gradient)
        return gradient * share, gradient * (1 - share)


class Minimum(_Elementwise):
    """The smallest of its inputs, place by place; equal ones share the derivative.

    >>> Minimum().shape([(3,), (3,)])
    (3,)
    """

    def join(self, a: Array, b: Array) -> Array:
        return np.asarray(np.minimum(a, b))

    def part(self, gradient: Array, a: Array, b: Array) -> tuple[Array, Array]:
        share = _share(a < b, a == b, gradient)
        return gradient * share, gradient * (1 - share)


class Concatenate(Layer):
    """Its inputs one after the other along an axis.

    Args:
        axis: Counts the batch axis.
        name: Unique in the network.

    >>> Concatenate().shape([(4, 3), (4, 2)])
    (4, 5)
    """

    kind = LayerKind.MERGE

    def __init__(self, axis: int = -1, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.axis = axis

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        rank = len(inputs[0]) + 1 if inputs else 0
        axis = self.axis % rank if -rank <= self.axis < rank else 0
        rests = {(*shape[: axis - 1], *shape[axis:]) for shape in inputs} if axis else set()
        if len(rests) != 1 or len(set(map(len, inputs))) != 1:
            raise ValueError(
                f"{self.called} needs inputs that differ along axis {self.axis} only, "
                f"which is not the batch axis; got {list(inputs)}."
            )
        joined = list(inputs[0])
        joined[axis - 1] = sum(shape[axis - 1] for shape in inputs)
        return tuple(joined)

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        ends = np.cumsum([x.shape[self.axis] for x in inputs])[:-1]
        return Forward(np.concatenate(inputs, axis=self.axis), ends)

    def backward(
        self, gradient: Array, saved: Array, weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        return list(np.split(gradient, saved, axis=self.axis)), {}


class Dot(Layer):
    """The products of two inputs, summed over one axis of each.

    Args:
        axes: That axis, or one for each input; they count the batch axis.
        name: Unique in the network.

    >>> Dot(axes=1).shape([(3,), (3,)]), Dot(axes=(2, 1)).shape([(4, 3), (3, 5)])
    ((1,), (4, 5))
    """

    kind = LayerKind.MERGE

    def __init__(self, axes: int | Sequence[int], *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.axes = axes if isinstance(axes, int) else tuple(axes)

    def shape(self, inputs: Sequence[Shape]) -> Shape:
        if len(inputs) != 2:
            raise ValueError(f"{self.called} needs two inputs; got {len(inputs)}.")
        a, b = ((0, *shape) for shape in inputs)
        first, second = self._placed(len(a), len(b))
        if not (0 < first < len(a) and 0 < second < len(b) and a[first] == b[second]):
            raise ValueError(
                f"{self.called} needs axes {self.axes} of one size, which are not the batch "
                f"axis; got {list(inputs)}."
            )
        rest = [*a[1:first], *a[first + 1 :], *b[1:second], *b[second + 1 :]]
        return tuple(rest) or (1,)

    def forward(self, inputs: Sequence[Array], weights: Weights, mode: Mode) -> Forward:
        first, second = self._placed(inputs[0].ndim, inputs[1].ndim)
        a, b = np.moveaxis(inputs[0], first, -1), np.moveaxis(inputs[1], second, -1)
        rows, columns = (x.reshape(len(x), -1, x.shape[-1]) for x in (a, b))
        product = rows @ columns.swapaxes(1, 2)
        shape = (*a.shape[:-1], *b.shape[1:-1])
        output = product.reshape(shape if len(shape) > 1 else (len(a), 1))
        return Forward(output, (rows, columns, a.shape, b.shape))

    def backward(
        self, gradient: Array, saved: tuple[Array, Array, Shape, Shape], weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        rows, columns, a, b = saved
        first, second = self._placed(len(a), len(b))
        products = gradient.reshape(len(rows), rows.shape[1], columns.shape[1])
        of_a = (products @ columns).reshape(a)
        of_b = (products.swapaxes(1, 2) @ rows).reshape(b)
        return [np.moveaxis(of_a, -1, first), np.moveaxis(of_b, -1, second)], {}

    def _placed(self, first: int, second: int) -> tuple[int, int]:
        """Both axes counted from the front, for inputs of these ranks."""
        a, b = (self.axes, self.axes) if isinstance(self.axes, int) else self.axes
        return a + first if a < 0 else a, b + second if b < 0 else b


def _share(ahead: Array, level: Array, like: Array) -> Array:
    """1 where `ahead`, half where `level`, else 0."""
    share = ahead.astype(like.dtype)
    share += level * np.asarray(0.5, like.dtype)
    return share


def _reduced(gradient: Array, shape: Shape) -> Array:
    """Summed over the axes along which a value of `shape` was repeated."""
    if gradient.shape == shape:
        return gradient
    axes = tuple(i for i, size in enumerate(shape) if size == 1 and gradient.shape[i] != 1)
    reduced: Array = gradient.sum(axis=axes, keepdims=True)
    return reduced
