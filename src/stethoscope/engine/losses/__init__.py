"""Losses with Keras's names, defaults and semantics, and their derivatives."""

from __future__ import annotations

import re

from stethoscope.engine.losses._base import Loss
from stethoscope.engine.losses.focal import BinaryFocalCrossentropy, CategoricalFocalCrossentropy
from stethoscope.engine.losses.hinge import CategoricalHinge, Hinge, SquaredHinge
from stethoscope.engine.losses.probabilistic import (
    BinaryCrossentropy,
    CategoricalCrossentropy,
    KLDivergence,
    SparseCategoricalCrossentropy,
)
from stethoscope.engine.losses.regression import (
    CosineSimilarity,
    Huber,
    LogCosh,
    MeanAbsoluteError,
    MeanAbsolutePercentageError,
    MeanSquaredError,
    MeanSquaredLogarithmicError,
    Poisson,
)

__all__ = [
    "BinaryCrossentropy",
    "BinaryFocalCrossentropy",
    "CategoricalCrossentropy",
    "CategoricalFocalCrossentropy",
    "CategoricalHinge",
    "CosineSimilarity",
    "Hinge",
    "Huber",
    "KLDivergence",
    "LogCosh",
    "Loss",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanSquaredError",
    "MeanSquaredLogarithmicError",
    "Poisson",
    "SparseCategoricalCrossentropy",
    "SquaredHinge",
    "get",
]


def get(loss: str | Loss) -> Loss:
    """The loss of a name, with its defaults.

    Args:
        loss: A class's name ("MeanSquaredError"), its function's ("mean_squared_error"), a short
            one ("mse"), or a loss, which is returned.

    Raises:
        ValueError: There is none of this name.

    >>> get("mse").name, get("KLDivergence").name
    ('mse', 'kl_divergence')
    """
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in _NAMED:
        known = ", ".join(sorted({kind.name for kind in _NAMED.values()}))
        raise ValueError(f"unknown loss {loss!r}; known are {known}.")
    return _NAMED[loss]()


def _names(kind: type[Loss]) -> set[str]:
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
    return {kind.__name__, snake, kind.name, *kind.aliases}


_NAMED: dict[str, type[Loss]] = {
    name: kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Loss) and kind is not Loss
    for name in _names(kind)
}
