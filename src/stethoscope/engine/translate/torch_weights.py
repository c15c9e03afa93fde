"""Where torch keeps the weights of the engine: names, and the order of axes."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from stethoscope.engine.layers._base import Array, Shape


@dataclasses.dataclass(frozen=True)
class Held:
    """Where a weight of the engine is kept in torch.

    Attributes:
        tensor: A parameter or a buffer.
        axes: Order of its axes in the engine; None: they are the same.
        spread: The engine's weight has further axes of size 1.
    """

    tensor: Any
    axes: tuple[int, ...] | None = None
    spread: bool = False

    def read(self, shape: Shape, tensor: Any = None) -> Array:
        """The engine's weight, or what an optimizer keeps for it.

        Args:
            shape: Of the weight in the engine.
            tensor: What to read; None stands for the weight itself.

        Raises:
            ValueError: It has another shape.
        """
        value = np.asarray((self.tensor if tensor is None else tensor).detach().cpu())
        if self.axes is not None:
            value = value.transpose(self.axes)
        fits = value.size == math.prod(shape) if self.spread else value.shape == shape
        if not fits:
            raise ValueError(f"its input needs a weight of shape {shape}; it has {value.shape}.")
        return np.array(value.reshape(shape), order="C")

    def back(self, array: Array) -> Any:
        """The array as a tensor of torch, in torch's order."""
        value = array if self.axes is None else array.transpose(np.argsort(self.axes))
        own = self.tensor.detach()
        return own.new_tensor(np.array(value.reshape(tuple(own.shape)), order="C"))


def weights_of(module: Any) -> dict[str, Held]:
    """The engine's name of each weight of a module, and where torch keeps it."""
    kind, found = type(module).__name__, {}
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    if kind == "Embedding":
        return {"embeddings": Held(weight)}
    if kind == "PReLU":
        return {"alpha": Held(weight, spread=True)}
    norm = "Norm" in kind
    if weight is not None:
        # [outputs, inputs, *lengths]; in the engine the other way round, the lengths first
        axes = (*range(2, weight.ndim), 1, 0)
        found["gamma" if norm else "kernel"] = Held(weight, None if norm else axes)
    if bias is not None:
        found["beta" if norm else "bias"] = Held(bias)
    if kind.startswith("BatchNorm"):
        found["moving_mean"] = Held(module.running_mean)
        found["moving_variance"] = Held(module.running_var)
    return found
