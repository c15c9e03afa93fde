"""Which activation, loss and width fit the targets that were seen."""

from __future__ import annotations

import dataclasses

from stethoscope.rules._baseline import classes_of, is_class_ids
from stethoscope.rules._output import Head


@dataclasses.dataclass(frozen=True)
class Fitting:
    """The ending of a network that fits its targets.

    Attributes:
        activation: Of the last layer, for a loss on probabilities.
        loss: Canonical name.
        units: Of the last layer; None to leave it.
        why: What the targets are, in words.
    """

    activation: str
    loss: str
    units: int | None
    why: str


def fitting(head: Head) -> Fitting | None:
    """The ending for the targets of `head`; None when they were not seen."""
    target = head.target
    if target is None or target.min is None or target.max is None:
        return None
    if target.one_hot:
        classes = classes_of(target)
        return Fitting(
            "softmax", "categorical_crossentropy", classes, f"targets are {classes} one-hot classes"
        )
    zero_one = target.integer_valued and target.min >= 0 and target.max <= 1
    if zero_one and (head.units or 1) == 1:
        return Fitting("sigmoid", "binary_crossentropy", 1, "targets are 0 or 1")
    if zero_one and target.shape and target.shape[-1:] == (head.units,):
        return Fitting(
            "sigmoid", "binary_crossentropy", head.units, "a row may hold several labels"
        )
    if target.rows_sum_to_one:
        return Fitting("softmax", "categorical_crossentropy", None, "target rows sum to 1")
    if is_class_ids(target):
        classes = int(target.max) + 1
        return Fitting(
            "softmax",
            "sparse_categorical_crossentropy",
            classes,
            f"targets are ids of {classes} classes",
        )
    return Fitting(
        "linear", "mse", None, f"targets are real values, {target.min:.4g} to {target.max:.4g}"
    )
