"""Activation functions and their derivatives, as pure functions over arrays.

Names and settings are those of Keras 3, so that a model means the same in both; at a kink the
derivative is the one that JAX takes. Each public function here makes one `Activation`:

>>> import numpy as np
>>> leaky_relu(negative_slope=0.5).forward(np.array([-1.0, 2.0])).tolist()
[-0.5, 2.0]
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from stethoscope.engine.activations._base import Activation
from stethoscope.engine.activations.axiswise import glu, log_softmax, softmax, sparsemax
from stethoscope.engine.activations.piecewise import (
    hard_shrink,
    hard_sigmoid,
    hard_silu,
    hard_tanh,
    leaky_relu,
    linear,
    relu,
    relu6,
    soft_shrink,
    sparse_plus,
    sparse_sigmoid,
    threshold,
)
from stethoscope.engine.activations.smooth import (
    celu,
    elu,
    exponential,
    gelu,
    log_sigmoid,
    mish,
    selu,
    sigmoid,
    silu,
    softplus,
    softsign,
    squareplus,
    tanh,
    tanh_shrink,
)

hard_swish = hard_silu
swish = silu

__all__ = [
    "Activation",
    "celu",
    "elu",
    "exponential",
    "gelu",
    "get",
    "glu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_shrink",
    "softmax",
    "softplus",
    "softsign",
    "sparse_plus",
    "sparse_sigmoid",
    "sparsemax",
    "squareplus",
    "swish",
    "tanh",
    "tanh_shrink",
    "threshold",
]


def get(activation: str | Activation | None) -> Activation:
    """The activation of a name; None is "linear".

    Raises:
        ValueError: There is none of this name, or it has settings without a default.

    >>> import numpy as np
    >>> get("relu").forward(np.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    if isinstance(activation, Activation):
        return activation
    if activation is None:
        return linear()
    if activation not in _MAKERS:
        known = ", ".join(sorted(_MAKERS))
        raise ValueError(f"unknown activation {activation!r}; known are {known}.")
    maker = _MAKERS[activation]
    needed = [
        name
        for name, parameter in inspect.signature(maker).parameters.items()
        if parameter.default is parameter.empty
    ]
    if needed:
        call = f"activations.{activation}({', '.join(f'{name}=...' for name in needed)})"
        raise ValueError(f"activation {activation!r} needs settings; give {call} instead.")
    return maker()


_MAKERS: dict[str, Callable[..., Activation]] = {
    name: globals()[name] for name in __all__ if name not in ("Activation", "get")
}
