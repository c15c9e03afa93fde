"""Optimizers with Keras's names, formulas and defaults."""

from __future__ import annotations

from stethoscope.engine.optimizers._base import Optimizer, Schedule
from stethoscope.engine.optimizers.adam import Adam, Adamax, AdamW, Nadam
from stethoscope.engine.optimizers.adaptive import Adadelta, Adagrad, RMSprop
from stethoscope.engine.optimizers.sgd import SGD, Lion

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lion",
    "Nadam",
    "Optimizer",
    "RMSprop",
    "Schedule",
    "get",
]


def get(optimizer: str | Optimizer) -> Optimizer:
    """The optimizer of a name, in any case, with its defaults.

    Raises:
        ValueError: There is none of this name.

    >>> get("Adam").rate
    0.001
    """
    if isinstance(optimizer, Optimizer):
        return optimizer
    if not isinstance(optimizer, str) or optimizer.lower() not in _NAMED:
        known = ", ".join(sorted(_NAMED))
        raise ValueError(f"unknown optimizer {optimizer!r}; known are {known}.")
    return _NAMED[optimizer.lower()]()


_NAMED = {
    kind.name: kind for kind in (SGD, Adadelta, Adagrad, Adam, AdamW, Adamax, Lion, Nadam, RMSprop)
}
