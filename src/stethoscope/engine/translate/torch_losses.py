"""Losses with the arithmetic of torch, made from those of torch; torch is not imported."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stethoscope.engine.layers._base import Array
from stethoscope.engine.losses._base import Loss, Pull
from stethoscope.engine.translate import torch_elements, torch_hooks
from stethoscope.engine.translate.settings import TranslationError
from stethoscope.engine.translate.torch_elements import Elements
from stethoscope.vocabulary import Expects


class TorchLoss(Loss):
    """A loss of single elements; the target has the prediction's shape.

    Torch would repeat a target of another shape, and Keras take an axis of size 1 away: neither
    happens here.

    Args:
        name: Of `vocabulary.LOSSES`.
        elements: The loss.
        reduction: "mean", "sum", or "batchmean": the sum over the number of samples.
        settings: Of the original, to be shown.

    Attributes:
        expects: What the prediction must be, where it is not what the name says.
        weighted: Elements do not all count alike.
    """

    weighted = False

    def __init__(
        self,
        name: str,
        elements: Elements,
        reduction: str,
        expects: Expects | None = None,
        **settings: float,
    ) -> None:
        super().__init__("sum" if reduction == "sum" else "mean")
        self.name = name
        self.expects = expects
        self._elements, self._batchmean = elements, reduction == "batchmean"
        vars(self).update(settings)

    def fit(self, target: Array, prediction: Array) -> tuple[Array, Array]:
        if np.shape(target) != prediction.shape:
            raise ValueError(
                f"a loss of torch is translated for targets of the prediction's shape "
                f"{prediction.shape}; got {np.shape(target)}: reshape the targets."
            )
        return np.asarray(target, prediction.dtype), prediction

    def compute(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        elements, slope = self._elements(target, prediction)
        size = float(elements.shape[-1])
        if self.reduction == "sum":
            size = 1.0
        elif self._batchmean:  # the mean over the values divides by more than the samples
            size = 1 / math.prod(elements.shape[1:-1])
        values: Array = elements.sum(axis=-1) / size
        return values, lambda cotangent: slope * (cotangent / size)


class _OfClasses(Loss, abc.ABC):
    """What losses of class ids share: the classes are axis 1.

    Args:
        weight: Of each class, or None.
        ignore_class: An id whose samples do not count.
        share: Label smoothing.
        reduction: "mean": over the weights of the targets' classes; or "sum".
    """

    def __init__(
        self, weight: Array | None, ignore_class: int, share: float, reduction: str
    ) -> None:
        super().__init__(reduction)
        self.ignore_class = ignore_class
        self.label_smoothing = share
        self.axis = 1
        self.weighted = weight is not None
        self._weight_of_class = weight

    def fit(self, target: Array, prediction: Array) -> tuple[Array, Array]:
        target, shape = np.asarray(target), prediction.shape
        expected = (shape[0], *shape[2:])
        if target.shape != expected or not np.issubdtype(target.dtype, np.integer):
            raise ValueError(
                f"{type(self).__name__} of predictions of shape {shape} takes class ids, integers "
                f"of shape {expected}; got {target.dtype} of shape {target.shape}."
            )
        counted = target[target != self.ignore_class]
        if counted.size and not 0 <= counted.min() <= counted.max() < shape[1]:
            raise ValueError(
                f"class ids are from 0 to {shape[1] - 1}, as many as the last layer has units; "
                f"got {counted.min()} to {counted.max()}."
            )
        return target, prediction

    def compute(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        logs, back = self.logs(prediction)
        kinds, classes = prediction.dtype.type, prediction.shape[1]
        ids = np.expand_dims(target, 1)
        shape = (1, classes, *(1,) * (prediction.ndim - 2))
        counted = ids != self.ignore_class
        chosen = (ids == np.arange(classes).reshape(shape)).astype(prediction.dtype)
        chosen *= counted
        weight = self._weight_of_class
        weights = kinds(1) if weight is None else weight.astype(prediction.dtype).reshape(shape)
        total = (chosen * weights).sum()
        if self.label_smoothing:
            chosen *= 1 - self.label_smoothing
            chosen += counted * kinds(self.label_smoothing / classes)
        chosen *= weights
        if self.reduction != "sum":
            # The mean over the values divides by their number: here it is by the weights.
            with np.errstate(invalid="ignore", divide="ignore"):  # no sample counts: NaN, as torch
                chosen *= kinds(target.size) / total
        with np.errstate(invalid="ignore"):
            products = chosen * logs
        products[chosen == 0] = 0  # torch looks the others up not at all, also infinite ones
        values: Array = -products.sum(axis=1)
        return values, lambda cotangent: back(chosen, cotangent)

    @abc.abstractmethod
    def logs(self, prediction: Array) -> tuple[Array, Callable[[Array, float | Array], Array]]:
        """The log-probabilities, and the gradient of -sum(chosen * logs)."""


class TorchCrossEntropy(_OfClasses):
    """CrossEntropyLoss of class ids: -w log softmax(x), over the sum of w."""

    name = "sparse_categorical_crossentropy"
    from_logits = True

    def logs(self, prediction: Array) -> tuple[Array, Callable[[Array, float | Array], Array]]:
        shifted: Array = prediction - prediction.max(axis=1, keepdims=True)
        powers = np.exp(shifted)
        total = powers.sum(axis=1, keepdims=True)
        shifted -= np.log(total)

        def back(chosen: Array, cotangent: float | Array) -> Array:
            gradient: Array = powers * (chosen.sum(axis=1, keepdims=True) / total)
            gradient -= chosen
            gradient *= cotangent
            return gradient

        return shifted, back


class TorchNLL(_OfClasses):
    """NLLLoss of class ids: -w x for log-probabilities x, over the sum of w."""

    name = "nll"

    def logs(self, prediction: Array) -> tuple[Array, Callable[[Array, float | Array], Array]]:
        return prediction, lambda chosen, cotangent: chosen * -cotangent


def read(loss: Any) -> Loss:
    """A loss with the settings of one of torch, whose class it names as `original`.

    Raises:
        TranslationError: The engine has no such loss, or not with these settings.
    """
    kind = type(loss).__name__
    if isinstance(loss, str) or (callable(loss) and hasattr(loss, "__name__")):
        given = repr(loss) if isinstance(loss, str) else f"{loss.__name__}, no object"
        raise TranslationError(
            f"loss {given} cannot be translated: expected a module such as torch.nn.MSELoss()."
        )
    hung = torch_hooks.on_module(loss) if hasattr(loss, "named_parameters") else ""
    if hung:
        raise TranslationError(f"loss {kind} cannot be translated: {hung}.")
    found = _read(loss, kind)
    found.original = kind
    return found


def _read(loss: Any, kind: str) -> Loss:
    if not type(loss).__module__.startswith("torch.nn.modules."):
        raise TranslationError(f"loss {kind} cannot be translated: it is a class of your own.")
    found = None
    reduction, weight = getattr(loss, "reduction", None), getattr(loss, "weight", None)
    if kind in ("CrossEntropyLoss", "NLLLoss") and reduction in ("mean", "sum"):
        weights = None if weight is None else np.array(weight.detach().cpu())
        share = getattr(loss, "label_smoothing", 0.0)
        made = TorchCrossEntropy if kind == "CrossEntropyLoss" else TorchNLL
        return made(weights, loss.ignore_index, share, str(reduction))
    if kind in ELEMENTWISE and weight is None:
        found = ELEMENTWISE[kind](loss)
    # torch warns of KLDivLoss's "mean", which divides by the classes too, but does it
    reductions = ("mean", "sum", "batchmean") if kind == "KLDivLoss" else ("mean", "sum")
    if found is None or reduction not in reductions:
        known = ", ".join(sorted(["CrossEntropyLoss", "NLLLoss", *ELEMENTWISE]))
        raise TranslationError(
            f"loss {kind} cannot be translated: the engine reads {known}, with reduction 'mean' or "
            "'sum' (KLDivLoss: 'batchmean') and, but for classes, without weight; got "
            f"{kind} with reduction {reduction!r}{_settings(loss)}."
        )
    return found


def _settings(loss: Any) -> str:
    """What else it was made with, for the message."""
    hidden = ("training", "reduction")
    plain = {k: v for k, v in vars(loss).items() if not k.startswith("_") and k not in hidden}
    if getattr(loss, "weight", None) is not None:
        plain["weight"] = "..."
    return "".join(f", {name}={value}" for name, value in plain.items() if value is not None)


def _smooth(loss: Any) -> Loss:
    if loss.beta == 0:
        return TorchLoss("mae", torch_elements.absolute, loss.reduction)
    elements = torch_elements.huber(loss.beta, 1 / loss.beta)
    return TorchLoss("huber", elements, loss.reduction, delta=loss.beta)


def _with_logits(loss: Any) -> Loss:
    positive = None if loss.pos_weight is None else np.array(loss.pos_weight.detach().cpu())
    elements = torch_elements.binary_logits(positive)
    found = TorchLoss("binary_crossentropy", elements, loss.reduction, Expects.LOGITS)
    found.weighted = positive is not None
    return found


def _of_labels(loss: Any) -> Loss | None:
    if loss.reduction != "mean":  # a mean over the classes comes first
        return None
    return TorchLoss(
        "binary_crossentropy", torch_elements.binary_logits(None), "mean", Expects.LOGITS
    )


def _counts(loss: Any) -> Loss | None:
    if loss.full:
        return None
    return TorchLoss("poisson", torch_elements.poisson(loss.log_input, loss.eps), loss.reduction)


def _of_logs(loss: Any) -> Loss:
    elements = torch_elements.divergence(loss.log_target)
    return TorchLoss("kl_divergence", elements, loss.reduction, Expects.LOG_PROBABILITIES)


ELEMENTWISE: dict[str, Callable[[Any], Loss | None]] = {
    "BCELoss": lambda loss: TorchLoss("binary_crossentropy", torch_elements.binary, loss.reduction),
    "BCEWithLogitsLoss": _with_logits,
    "HuberLoss": lambda loss: TorchLoss(
        "huber", torch_elements.huber(loss.delta, 1.0), loss.reduction, delta=loss.delta
    ),
    "KLDivLoss": _of_logs,
    "L1Loss": lambda loss: TorchLoss("mae", torch_elements.absolute, loss.reduction),
    "MultiLabelSoftMarginLoss": _of_labels,
    "MSELoss": lambda loss: TorchLoss("mse", torch_elements.squared, loss.reduction),
    "PoissonNLLLoss": _counts,
    "SmoothL1Loss": _smooth,
    "SoftMarginLoss": lambda loss: TorchLoss(
        "soft_margin", torch_elements.soft_margin, loss.reduction
    ),
}
"""What makes the loss of each kind of module whose elements are independent."""
