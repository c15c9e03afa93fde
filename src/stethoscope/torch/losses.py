"""What a loss call is: its canonical name, its real arguments, its metric.

Everything here reads tensors and changes none; it looks at a bounded part of each.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from stethoscope.data import DataProfile
from stethoscope.program import DataSpec, LossSpec
from stethoscope.types import SourceRef
from stethoscope.vocabulary import Expects

MAX_ROWS = 4096  # rows of one batch that are looked at
MAX_ELEMENTS = 2**17  # and elements, so that a large vocabulary stays cheap (about 10 ms)
LOG_SUM_TOLERANCE = 1e-3  # as for probabilities: half precision still counts


@dataclasses.dataclass(frozen=True)
class _Facts:
    """What a function of `torch.nn.functional` computes."""

    name: str | None
    expects: Expects
    classes: bool = False  # the prediction has a class axis
    arguments: tuple[str, str] | None = ("input", "target")

    @property
    def elementwise(self) -> bool:
        """Whether prediction and target must have one shape."""
        return not self.classes and self.name != "ctc"


_FACTS: dict[str, _Facts] = {
    # "cross_entropy" becomes categorical_crossentropy when the target is a distribution.
    "cross_entropy": _Facts("sparse_categorical_crossentropy", Expects.LOGITS, classes=True),
    "nll_loss": _Facts("nll", Expects.LOG_PROBABILITIES, classes=True),
    "binary_cross_entropy": _Facts("binary_crossentropy", Expects.PROBABILITIES),
    "binary_cross_entropy_with_logits": _Facts("binary_crossentropy", Expects.LOGITS),
    # The mean over the labels of the binary crossentropy on logits, by torch's own definition.
    "multilabel_soft_margin_loss": _Facts("binary_crossentropy", Expects.LOGITS),
    "kl_div": _Facts("kl_divergence", Expects.LOG_PROBABILITIES),
    "mse_loss": _Facts("mse", Expects.VALUES),
    "l1_loss": _Facts("mae", Expects.VALUES),
    "huber_loss": _Facts("huber", Expects.VALUES),
    "smooth_l1_loss": _Facts("huber", Expects.VALUES),
    "poisson_nll_loss": _Facts("poisson", Expects.VALUES),
    "gaussian_nll_loss": _Facts("gaussian_nll", Expects.VALUES),
    "ctc_loss": _Facts("ctc", Expects.LOG_PROBABILITIES, arguments=("log_probs", "targets")),
    # The rest has no entry in `vocabulary.LOSSES`.
    "soft_margin_loss": _Facts(None, Expects.VALUES),
    "hinge_embedding_loss": _Facts(None, Expects.VALUES),
    "multi_margin_loss": _Facts(None, Expects.VALUES, classes=True),
    "multilabel_margin_loss": _Facts(None, Expects.VALUES),
    # These compare several tensors, or compute the prediction themselves.
    "cosine_embedding_loss": _Facts(None, Expects.VALUES, arguments=None),
    "margin_ranking_loss": _Facts(None, Expects.VALUES, arguments=None),
    "triplet_margin_loss": _Facts(None, Expects.VALUES, arguments=None),
    "triplet_margin_with_distance_loss": _Facts(None, Expects.VALUES, arguments=None),
    "linear_cross_entropy": _Facts(
        "sparse_categorical_crossentropy", Expects.LOGITS, arguments=None
    ),
}

_NOT_CONFIG = frozenset({"reduction", "size_average", "reduce", "ignore_index"})


@functools.cache
def _signature(func: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(func)


def _bound(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by name, defaults included; empty when they do not fit the function."""
    try:
        bound = _signature(func).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return {}
    bound.apply_defaults()
    return dict(bound.arguments)


def prediction_and_target(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Tensor, Tensor] | None:
    """The tensors a loss call compares.

    Returns:
        None for a loss that has no single prediction (triplet, ranking, cosine embedding, ...).
    """
    facts = _FACTS.get(func.__name__)
    if facts is None or facts.arguments is None:
        return None
    values = _bound(func, args, kwargs)
    prediction, target = (values.get(name) for name in facts.arguments)
    if isinstance(prediction, Tensor) and isinstance(target, Tensor):
        return prediction, target
    return None


def loss_spec(
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    output: str | None,
    source: SourceRef | None,
) -> LossSpec:
    """Describes a loss call from its real arguments.

    Args:
        func: A function of `torch.nn.functional` for which `is_loss` holds.
        args: As the user (or a `torch.nn` loss module) passed them.
        kwargs: Likewise.
        output: Path of the layer whose output is the prediction.
        source: The call.

    Returns:
        The description. `config["log_probabilities"]` tells, for a loss over classes, whether
        the exponentials of the rows sum to 1; `config["ignored_share"]` is the share of targets
        that are `ignore_index`, which the target's facts leave out; `config["elementwise"]` is
        False where prediction and target have different shapes by right.
    """
    type_ = func.__name__
    facts = _FACTS.get(type_, _Facts(None, Expects.VALUES, arguments=None))
    values = _bound(func, args, kwargs)
    spec = LossSpec(
        name=facts.name,
        type=type_,
        expects=facts.expects,
        output=output,
        reduction=_reduction(values),
        weighted=_weighted(values),
        ignore_index=values.get("ignore_index"),
        config=_settings(values),
        source=source,
    )
    pair = prediction_and_target(func, args, kwargs)
    if pair is None:
        return spec
    prediction, target = pair
    if type_ == "cross_entropy" and target.is_floating_point():
        spec = dataclasses.replace(spec, name="categorical_crossentropy", ignore_index=None)
    if not facts.elementwise:
        spec = dataclasses.replace(spec, config={**spec.config, "elementwise": False})
    axis = None
    if facts.classes and prediction.ndim:
        axis = 1 if prediction.ndim > 1 else 0
    elif type_ == "ctc_loss" and prediction.ndim:
        axis = prediction.ndim - 1
    return with_arguments(spec, prediction, target, axis)


def with_arguments(
    spec: LossSpec, prediction: Tensor, target: Tensor, class_axis: int | None
) -> LossSpec:
    """`spec` with the shapes and facts of the tensors it compares."""
    config = dict(spec.config)
    spec = dataclasses.replace(
        spec,
        class_axis=class_axis,
        prediction_shape=tuple(prediction.shape),
        target_shape=tuple(target.shape),
    )
    try:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            rows, seen = _rows(prediction, class_axis)
            profile = _profile(rows, prediction, seen)
            sparse = target.ndim != prediction.ndim
            answers, seen = _rows(target, None if sparse else class_axis)
            if spec.ignore_index is not None:
                kept = answers[answers != spec.ignore_index]
                if kept.numel() < answers.numel():
                    config["ignored_share"] = 1 - kept.numel() / answers.numel()
                    answers = kept
            about_classes = class_axis is not None or spec.expects is Expects.LOG_PROBABILITIES
            if about_classes and rows.ndim > 1:
                config["log_probabilities"] = _are_log_probabilities(rows)
            facts = _profile(answers, target, seen)
    except (RuntimeError, TypeError, NotImplementedError, ValueError):
        return spec  # sparse, nested or fake tensors: the shapes are what can be said
    return dataclasses.replace(spec, prediction=profile, target=facts, config=config)


def _rows(tensor: Tensor, class_axis: int | None) -> tuple[Tensor, int]:
    """A bounded part of `tensor`, as (rows, last axis) with the class axis last, or flat.

    Also how many samples that part was drawn from.
    """
    tensor = tensor.detach()
    samples = tensor.shape[0] if tensor.ndim else 1
    if class_axis is not None and tensor.ndim > class_axis:
        tensor = tensor.movedim(class_axis, -1)
        tensor = tensor.reshape(-1, tensor.shape[-1])
    elif tensor.ndim > 2:
        # No class axis: features of samples of any rank; each row is one sample.
        tensor = tensor.reshape(samples, -1) if tensor.numel() else tensor.reshape(0, 1)
    width = tensor.shape[-1] if tensor.ndim > 1 else 1
    if class_axis is None and width > MAX_ELEMENTS // 8:
        tensor, width = tensor.reshape(-1), 1
        limit = MAX_ELEMENTS
    else:
        limit = min(MAX_ROWS, max(8, MAX_ELEMENTS // max(width, 1)))
    count = tensor.shape[0] if tensor.ndim else 1
    if count > limit:
        # Evenly spread, so that targets and predictions are taken at the same places.
        tensor = tensor[:: -(-count // limit)]
    return tensor, samples


def _profile(part: Tensor, whole: Tensor, samples: int) -> DataSpec:
    """Facts of `part`, under the shapes of `whole`."""
    dtype = str(whole.dtype).removeprefix("torch.")
    profile = DataProfile()
    profile.add(_array(part), dtype)
    return dataclasses.replace(
        profile.spec(),
        shape=tuple(whole.shape[1:]),
        batch_shape=tuple(whole.shape),
        rows_seen=samples,
    )


def _array(tensor: Tensor) -> Any:
    tensor = tensor.detach()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    return tensor.cpu().numpy()


def _are_log_probabilities(rows: Tensor) -> bool:
    total = torch.logsumexp(rows.double(), dim=-1)
    return bool((total.abs() < LOG_SUM_TOLERANCE).all())


def _reduction(values: Mapping[str, Any]) -> str | None:
    size_average, reduce = values.get("size_average"), values.get("reduce")
    if size_average is not None or reduce is not None:  # torch's old spelling
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    reduction = values.get("reduction")
    return reduction if isinstance(reduction, str) else None


def _weighted(values: Mapping[str, Any]) -> bool:
    weights = (values.get("weight"), values.get("pos_weight"))
    return any(w is not None for w in weights) or bool(values.get("label_smoothing"))


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, (bool, int, float)) and name not in _NOT_CONFIG
    }


_ARGMAX = frozenset({"sparse_categorical_crossentropy", "categorical_crossentropy", "nll"})
_REGRESSION = frozenset({"mse", "mae", "huber"})


def batch_metric(spec: LossSpec, prediction: Tensor, target: Tensor) -> tuple[str, float] | None:
    """The plain metric that belongs to a loss, from the loss call's own arguments.

    Returns:
        ("accuracy", 0..1) for a classification loss: argmax over the class axis, or the side of
        the threshold (0 for logits, 0.5 for probabilities) of each output; `ignore_index` is left
        out. ("r2", <= 1) for mse, mae and huber. None where neither is defined: another loss,
        shapes that differ, nothing to count, a target without variance, NaN.
    """
    try:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            prediction, target = prediction.detach(), target.detach()
            if spec.name in _ARGMAX and spec.class_axis is not None:
                return _class_accuracy(spec, prediction, target)
            if spec.name == "binary_crossentropy":
                return _binary_accuracy(spec, prediction, target)
            if spec.name in _REGRESSION:
                return _r2(prediction, target)
    except (RuntimeError, TypeError, NotImplementedError, ValueError):
        pass  # sparse, nested or fake tensors: no metric can be said
    return None


def _class_accuracy(spec: LossSpec, prediction: Tensor, target: Tensor) -> tuple[str, float] | None:
    assert spec.class_axis is not None
    guess = prediction.argmax(dim=spec.class_axis)
    truth = target
    if target.shape == prediction.shape and prediction.ndim:
        truth = target.argmax(dim=spec.class_axis)
    if truth.shape != guess.shape:
        return None
    hit = guess == truth
    if spec.ignore_index is not None:
        hit = hit[truth != spec.ignore_index]
    return ("accuracy", float(hit.double().mean())) if hit.numel() else None


def _binary_accuracy(
    spec: LossSpec, prediction: Tensor, target: Tensor
) -> tuple[str, float] | None:
    if prediction.shape != target.shape or not prediction.numel():
        return None
    threshold = 0.0 if spec.expects is Expects.LOGITS else 0.5
    hit = (prediction > threshold) == (target > 0.5)
    return "accuracy", float(hit.double().mean())


def _r2(prediction: Tensor, target: Tensor) -> tuple[str, float] | None:
    if prediction.shape != target.shape or target.ndim == 0 or target.is_complex():
        return None
    target, prediction = target.double(), prediction.double()
    spread = float((target - target.mean(dim=0, keepdim=True)).square().sum())
    missed = float((target - prediction).square().sum())
    # Written so that a NaN spread says None too.
    if not spread > 0 or missed != missed:
        return None
    return "r2", 1 - missed / spread
