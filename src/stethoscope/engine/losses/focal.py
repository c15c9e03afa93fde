"""Crossentropies that weigh down what is already predicted well."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stethoscope.engine.losses._base import Array, Loss, MeanLoss, Pull
from stethoscope.engine.losses.probabilistic import binary, normalized, smooth


class BinaryFocalCrossentropy(MeanLoss):
    """The binary crossentropy times (1 - q)^gamma, q being the probability of the true class.

    Args:
        apply_class_balancing: Weigh class 1 by alpha and class 0 by 1 - alpha.
        alpha: See there.
        gamma: 0 is the crossentropy itself.
        from_logits: The prediction is a logit.
        label_smoothing: Share s by which targets are moved: t (1 - s) + s / 2.
        axis: Over which the mean is.
        reduction: See `Loss`.

    Source: Lin et al., "Focal Loss for Dense Object Detection", 2017, section 3.
    """

    name = "focal_binary_crossentropy"
    exact = True

    def __init__(
        self,
        apply_class_balancing: bool = False,
        alpha: float = 0.25,
        gamma: float = 2.0,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str = "sum_over_batch_size",
    ) -> None:
        super().__init__(reduction)
        self.apply_class_balancing = apply_class_balancing
        self.alpha = alpha
        self.gamma = gamma
        self.from_logits = from_logits
        self.label_smoothing = label_smoothing
        self.axis = axis

    def elements(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        target = smooth(target, self.label_smoothing, classes=2)
        p = prediction
        if self.from_logits:
            small = np.exp(-np.abs(p))
            p = np.where(p >= 0, 1, small) / (1 + small)
        plain, pull_plain = binary(target, p)
        missing = 1 - (target * p + (1 - target) * (1 - p))
        factor = missing**self.gamma
        if self.apply_class_balancing:
            balance = target * self.alpha + (1 - target) * (1 - self.alpha)
        else:
            balance = np.ones_like(target)

        def pull(cotangent: float | Array) -> Array:
            slope = (1 - 2 * target) * (self.gamma * missing ** (self.gamma - 1))
            gradient: Array = balance * (pull_plain(1.0) * factor + plain * slope) * cotangent
            return gradient * (p * (1 - p)) if self.from_logits else gradient

        return balance * factor * plain, pull


class CategoricalFocalCrossentropy(Loss):
    """-sum(alpha (1 - p)^gamma t log p).

    Args:
        alpha: One factor, or one for each class.
        gamma: 0 is the crossentropy itself, times alpha.
        from_logits: The prediction is a vector of logits.
        label_smoothing: Share s by which targets are moved: t (1 - s) + s / classes.
        axis: Of the classes.
        reduction: See `Loss`.
    """

    name = "focal_categorical_crossentropy"
    exact = True

    def __init__(
        self,
        alpha: float | Sequence[float] = 0.25,
        gamma: float = 2.0,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str = "sum_over_batch_size",
    ) -> None:
        super().__init__(reduction)
        self.alpha = alpha if isinstance(alpha, int | float) else tuple(alpha)
        self.gamma = gamma
        self.from_logits = from_logits
        self.label_smoothing = label_smoothing
        self.axis = axis

    def compute(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        axis, gamma = self.axis, self.gamma
        target = smooth(target, self.label_smoothing, target.shape[-1])
        alpha = np.asarray(self.alpha, prediction.dtype)
        y = prediction
        if self.from_logits:
            y = np.exp(prediction - prediction.max(axis=axis, keepdims=True))
            y = y / y.sum(axis=axis, keepdims=True)
        p, back = normalized(y, axis)
        plain = -target * np.log(p)
        factor = alpha * (1 - p) ** gamma
        values: Array = (factor * plain).sum(axis=axis)

        def pull(cotangent: float | Array) -> Array:
            slope = alpha * (gamma * (1 - p) ** (gamma - 1))
            gradient = back(-(factor * target / p + slope * plain) * cotangent)
            if self.from_logits:
                gradient = y * (gradient - (gradient * y).sum(axis=axis, keepdims=True))
            return gradient

        return values, pull
