"""What an activation function of the engine is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Activation:
    """One activation function.

    Attributes:
        name: A name of `vocabulary.ACTIVATIONS`, where it has one.
        forward: x -> y; a new array of the same shape (half of one axis for "glu").
        backward: (gradient of y, x, y) -> gradient of x.
        settings: The arguments it was made with.
        halved: The axis of which y has half the size, where there is one; it counts the batch
            axis.
    """

    name: str
    forward: Callable[[Array], Array]
    backward: Callable[[Array, Array, Array], Array]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)
    halved: int | None = None

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Of y, for x of this shape; both without the batch axis."""
        if self.halved is None:
            return shape
        whole = [0, *shape]
        whole[self.halved] //= 2
        return tuple(whole[1:])
