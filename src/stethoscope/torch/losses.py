"""What a loss call is: its canonical name, its real arguments, its metric.

Everything here reads tensors and changes none; it looks at a bounded part of each.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from stethoscope.data import MAX_COLUMNS, SUM_TOLERANCE, DataProfile
from stethoscope.program import DataSpec, LossSpec
from stethoscope.torch.tensors import array
from stethoscope.types import SourceRef
from stethoscope.vocabulary import Expects

MAX_ROWS = 4096  # rows of one batch that are looked at
MIN_ROWS = 16  # however wide they are
MAX_ELEMENTS = 2**15  # and elements beyond these rows: their facts take about 10 ms
DATA_ELEMENTS = 2**16  # of a batch of inputs or targets; facts of more say nothing new
MAX_WIDTH = 2**11  # elements of one wide row whose range and distinct values are looked at
METRIC_SAMPLE = 2**20  # the metric of a larger prediction is that of a part of it
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
            axis = class_axis if class_axis is not None else max(prediction.ndim - 1, 0)
            limit = _row_limit(prediction, axis)
            rows = _rows(prediction, axis, limit)
            profile = _profile(rows, prediction)
            ids = class_axis is not None and target.ndim != prediction.ndim
            if ids:
                answers = _rows(target, None, MAX_ROWS)
            else:
                answers = _rows(target, min(axis, max(target.ndim - 1, 0)), limit)
            if spec.ignore_index is not None:
                kept = answers[answers != spec.ignore_index]
                if kept.numel() < answers.numel():
                    config["ignored_share"] = 1 - kept.numel() / answers.numel()
                    answers = kept
            about_classes = class_axis is not None or spec.expects is Expects.LOG_PROBABILITIES
            if about_classes and rows.ndim:
                config["log_probabilities"] = _are_log_probabilities(rows)
            facts = _profile(answers, target)
    except (RuntimeError, TypeError, NotImplementedError, ValueError):
        return spec  # sparse, nested or fake tensors: the shapes are what can be said
    return dataclasses.replace(spec, prediction=profile, target=facts, config=config)


def _row_limit(tensor: Tensor, axis: int) -> int:
    """How many rows along `axis` are looked at."""
    if tensor.ndim < 2:
        return MAX_ELEMENTS
    return min(MAX_ROWS, max(MIN_ROWS, MAX_ELEMENTS // max(tensor.shape[axis], 1)))


def _rows(tensor: Tensor, axis: int | None, limit: int) -> Tensor:
    """At most about `limit` rows of `tensor` along `axis`; flat, where that is None."""
    tensor = tensor.detach()
    if axis is None or tensor.ndim < 2:
        return thinned(tensor, None, limit).reshape(-1) if tensor.ndim else tensor
    width = tensor.shape[axis]
    rows = thinned(tensor, axis, limit).movedim(axis, -1)
    return rows.reshape(-1, width) if rows.numel() else rows.reshape(0, width)


def thinned(tensor: Tensor, axis: int | None, limit: int) -> Tensor:
    """A view with every k-th index of each axis but `axis`, of about `limit` rows or fewer.

    The places depend on the shape of the other axes only: a prediction and its class ids are
    taken at the same ones.
    """
    others = [i for i in range(tensor.ndim) if i != axis]
    surplus = math.prod(tensor.shape[i] for i in others) / limit
    for i in reversed(others):
        if surplus <= 1:
            break
        step = min(math.ceil(surplus), tensor.shape[i])
        tensor = tensor[(slice(None),) * i + (slice(None, None, step),)]
        surplus /= step
    return tensor


def sample(tensor: Tensor) -> Tensor:
    """Evenly spread elements of a large tensor of data, rows of features as a whole."""
    if tensor.numel() <= DATA_ELEMENTS:
        return tensor
    width = tensor.shape[-1]
    if tensor.ndim < 2 or width > MAX_COLUMNS:
        return thinned(tensor, None, DATA_ELEMENTS)
    return thinned(tensor, tensor.ndim - 1, DATA_ELEMENTS // width)


def _profile(rows: Tensor, whole: Tensor) -> DataSpec:
    """Facts of the part `rows`, under the shapes of `whole`."""
    dtype = str(whole.dtype).removeprefix("torch.")
    profile = DataProfile()
    wide = rows.numel() > MAX_ELEMENTS
    profile.add(
        array(rows.reshape(-1)[:: rows.shape[-1] // MAX_WIDTH + 1] if wide else rows), dtype
    )
    spec = dataclasses.replace(
        profile.spec(),
        shape=tuple(whole.shape[1:]),
        batch_shape=tuple(whole.shape),
        rows_seen=whole.shape[0] if whole.ndim else 1,
    )
    if wide:
        adds_up = _are_probabilities(rows)
        hot = adds_up and bool(((rows == 0) | (rows == 1)).all())
        spec = dataclasses.replace(spec, rows_sum_to_one=adds_up, one_hot=hot)
    # A feature is one of a sample of rank 1: classes of a pixel or columns of an image are none.
    return dataclasses.replace(spec, columns=()) if wide or whole.ndim > 2 else spec


def _are_probabilities(rows: Tensor) -> bool:
    total = rows.double().sum(dim=-1)
    return bool((rows >= 0).all() and ((total - 1).abs() < SUM_TOLERANCE).all())


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
        the threshold (0 for logits, 0.5 for probabilities and logits that are all within 0..1) of
        each output; `ignore_index` is left out. ("r2", <= 1) for mse, mae and huber. None where
        neither is defined: another loss, shapes that differ, nothing to count, a target
        without variance or with NaN. A NaN prediction has a NaN r2.
        Of more than `METRIC_SAMPLE` numbers an evenly spread part is taken.
    """
    try:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            prediction, target = _metric_part(spec, prediction.detach(), target.detach())
            if spec.name in _ARGMAX and spec.class_axis is not None:
                return _class_accuracy(spec, prediction, target)
            if spec.name == "binary_crossentropy":
                return _binary_accuracy(spec, prediction, target)
            if spec.name in _REGRESSION:
                return _r2(prediction, target)
    except (RuntimeError, TypeError, NotImplementedError, ValueError):
        pass  # sparse, nested or fake tensors: no metric can be said
    return None


def _metric_part(spec: LossSpec, prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both, where they are large at the same evenly spread places."""
    if prediction.numel() <= METRIC_SAMPLE:
        return prediction, target
    axis = spec.class_axis
    if axis is None:
        return thinned(prediction, None, METRIC_SAMPLE), thinned(target, None, METRIC_SAMPLE)
    limit = max(METRIC_SAMPLE // prediction.shape[axis], MIN_ROWS)
    same = target.ndim == prediction.ndim
    return thinned(prediction, axis, limit), thinned(target, axis if same else None, limit)


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
    if not threshold:  # what a sigmoid gave lies in 0..1: the program reads it as probabilities
        low, high = torch.aminmax(prediction)
        threshold = 0.5 if low >= 0 and high <= 1 and high > low else 0.0
    hit = (prediction > threshold) == (target > 0.5)
    return "accuracy", float(hit.double().mean())


def _r2(prediction: Tensor, target: Tensor) -> tuple[str, float] | None:
    if prediction.shape != target.shape or target.ndim == 0 or target.is_complex():
        return None
    target, prediction = target.double(), prediction.double()
    spread = float((target - target.mean(dim=0, keepdim=True)).square().sum())
    missed = float((target - prediction).square().sum())
    if not spread > 0:  # a NaN target has no spread either
        return None
    return "r2", 1 - missed / spread
