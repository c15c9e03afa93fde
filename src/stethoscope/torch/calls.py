"""What a call of a torch function is: activation, reshape, merge, loss, ...

The calls are those a `TorchFunctionMode` sees: functions of `torch` and `torch.nn.functional`
and methods of `Tensor`. They are told apart by name, since one operation has several objects
(`torch.relu`, `Tensor.relu`, `Tensor.relu_`, `functional.relu`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

from stethoscope.vocabulary import LayerKind

ACTIVATION_NAMES: dict[str, str] = {
    "relu": "relu",
    "relu6": "relu6",
    "leaky_relu": "leaky_relu",
    "rrelu": "leaky_relu",  # the slope is drawn at random; the facts are the same
    "prelu": "prelu",
    "elu": "elu",
    "selu": "selu",
    "celu": "celu",
    "gelu": "gelu",
    "silu": "silu",
    "mish": "mish",
    "softplus": "softplus",
    "softsign": "softsign",
    "sigmoid": "sigmoid",
    "expit": "sigmoid",
    "hardsigmoid": "hard_sigmoid",
    "logsigmoid": "log_sigmoid",
    "log_sigmoid": "log_sigmoid",
    "tanh": "tanh",
    "hardtanh": "hard_tanh",
    "exp": "exponential",
    "softmax": "softmax",
    "softmin": "softmax",  # softmax of the negated input: the facts are the same
    "gumbel_softmax": "softmax",
    "log_softmax": "log_softmax",
    "hardswish": "hard_silu",
    "glu": "glu",
    # No entry of `vocabulary.ACTIVATIONS` describes these; they keep torch's name.
    "hardshrink": "hardshrink",
    "softshrink": "softshrink",
    "tanhshrink": "tanhshrink",
    "threshold": "threshold",
}

_AXES: dict[str, tuple[int, int | None]] = {
    # Where the axis stands among the arguments, and which it is by default.
    "softmax": (1, None),
    "softmin": (1, None),
    "log_softmax": (1, None),
    "gumbel_softmax": (4, -1),
    "glu": (1, -1),
}

_SCALING = frozenset({"mul", "multiply", "div", "divide", "true_divide", "truediv", "add", "sub"})


def _table() -> dict[str, LayerKind]:
    names = {
        LayerKind.RESHAPE: "view view_as reshape reshape_as flatten unflatten ravel squeeze "
        "unsqueeze permute transpose swapaxes swapdims movedim moveaxis contiguous to float half "
        "double bfloat16 type type_as cpu cuda clone detach t mT adjoint __getitem__ expand "
        "expand_as repeat repeat_interleave tile narrow select index_select gather chunk split "
        "tensor_split unbind unfold fold pad flip roll take_along_dim pixel_shuffle "
        "pixel_unshuffle channel_shuffle broadcast_to masked_select",
        LayerKind.MERGE: "add sub subtract mul multiply div divide true_divide cat concat "
        "concatenate stack hstack vstack dstack maximum minimum __add__ __radd__ __iadd__ __sub__ "
        "__rsub__ __isub__ __mul__ __rmul__ __imul__ __truediv__ __rtruediv__ __itruediv__ "
        "__rdiv__ addcmul addcdiv lerp where rsub",
        LayerKind.DROPOUT: "dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout "
        "feature_alpha_dropout",
        LayerKind.POOLING: "max_pool1d max_pool2d max_pool3d max_pool1d_with_indices "
        "max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d "
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
        "adaptive_max_pool2d adaptive_max_pool3d adaptive_max_pool1d_with_indices "
        "adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices lp_pool1d lp_pool2d "
        "lp_pool3d fractional_max_pool2d fractional_max_pool3d "
        "fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices max_unpool1d "
        "max_unpool2d max_unpool3d interpolate upsample upsample_nearest upsample_bilinear mean "
        "amax",
        LayerKind.NORMALIZATION: "batch_norm layer_norm group_norm instance_norm rms_norm "
        "local_response_norm normalize",
        LayerKind.DENSE: "linear matmul bmm mm mv addmm addmv addbmm baddbmm einsum bilinear "
        "tensordot __matmul__ __rmatmul__ inner dot",
        LayerKind.CONV: "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
        "conv_tbc convolution",
        LayerKind.EMBEDDING: "embedding embedding_bag",
        LayerKind.ATTENTION: "scaled_dot_product_attention multi_head_attention_forward",
    }
    return {name: kind for kind, text in names.items() for name in text.split()}


_KINDS = _table()


def call_name(func: Callable[..., Any]) -> str:
    """The operation's plain name: no leading underscore, no trailing one of in-place variants."""
    name = getattr(func, "__name__", "")
    if name.startswith("__"):
        return str(name)
    return str(name.strip("_").removeprefix("special_"))


def call_kind(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> tuple[LayerKind, str] | None:
    """What `func`, as a `TorchFunctionMode` sees it, does to its input.

    Args:
        func: A torch function or `Tensor` method.
        args: Its arguments where they are at hand: they tell `clamp(min=0)` (a relu) from
            another clamp, and a product with a number (rescale) from one of two tensors (merge).
        kwargs: Likewise.

    Returns:
        The kind, and the canonical activation (torch's own name for one that
        `vocabulary.ACTIVATIONS` lacks) or the operation's name; None for anything else.
    """
    name = call_name(func)
    kwargs = kwargs or {}
    if name in ACTIVATION_NAMES:
        return LayerKind.ACTIVATION, _refined(name, args, kwargs)
    if name in ("clamp", "clip", "clamp_min", "clip_min"):
        return _clamp(args, kwargs)
    kind = _KINDS.get(name)
    if kind is None:
        return None
    if kind is LayerKind.MERGE and name.strip("_").lstrip("ri") in _SCALING and _one_tensor(args):
        kind = LayerKind.RESCALE
    if name == "mean" and args and not _has_dim(args, kwargs):
        return None  # a mean over everything is a loss, not a pooling
    return kind, name


_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack"})
_ADDING = frozenset({"pad", "fold"})  # reshapes that put numbers in or sum them


def keeps_values(func: Callable[..., Any], joins: bool = True) -> bool:
    """Whether the result holds nothing but values of the first argument, reshaped or selected.

    Args:
        func: A torch function or method.
        joins: Whether values put together also count.
    """
    name = call_name(func)
    if name in _JOINS:
        return joins
    return _KINDS.get(name) is LayerKind.RESHAPE and name not in _ADDING


def writes_in_place(func: Callable[..., Any]) -> bool:
    """Whether `func` puts other values into its first argument and returns it."""
    name = getattr(func, "__name__", "")
    if name.startswith("__"):
        return name.startswith("__i") and name not in ("__int__", "__index__", "__invert__")
    return name.endswith("_") and name not in ("requires_grad_", "share_memory_")


def activation_axis(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], rank: int
) -> int | None:
    """The axis over which an activation runs, counted from the front.

    Args:
        func: An activation.
        args: Its arguments.
        kwargs: Likewise.
        rank: Number of axes of what it is called on.

    Returns:
        None for an activation that takes each element on its own.
    """
    found = _AXES.get(call_name(func))
    if found is None:
        return None
    index, default = found
    return plain_axis(kwargs.get("dim", args[index] if len(args) > index else default), rank)


def plain_axis(axis: Any, rank: int) -> int | None:
    """`axis` counted from the front; torch's own choice for a softmax that was given none."""
    if axis is None:
        return 0 if rank in (0, 1, 3) else 1
    if not isinstance(axis, int) or not -rank <= axis < rank:
        return None
    return axis % rank


def _refined(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The activation's name, where its arguments make it another function."""
    if name == "hardtanh":
        return hard_tanh_name(
            _number(1, "min_val", -1.0, args, kwargs), _number(2, "max_val", 1.0, args, kwargs)
        )
    if name == "elu":
        return elu_name(_number(1, "alpha", 1.0, args, kwargs))
    if name == "leaky_relu":
        return leaky_name(_number(1, "negative_slope", 0.01, args, kwargs))
    return ACTIVATION_NAMES[name]


def hard_tanh_name(low: float, high: float) -> str:
    """Canonical name of a clamp to [low, high]; torch's own where the tables have none."""
    return {(-1.0, 1.0): "hard_tanh", (0.0, 6.0): "relu6"}.get((low, high), "hardtanh")


def elu_name(alpha: float) -> str:
    """Canonical name of an ELU; its table entry holds for alpha = 1 only."""
    return "elu" if alpha == 1.0 else f"elu({alpha:g})"


def leaky_name(slope: float) -> str:
    """Canonical name of a leaky ReLU: with slope 0 it is a ReLU."""
    return "relu" if slope == 0.0 else "leaky_relu"


def _number(
    index: int, name: str, default: float, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> float:
    value = kwargs.get(name, args[index] if len(args) > index else default)
    return float(value) if isinstance(value, (int, float)) else float("nan")


def _clamp(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[LayerKind, str] | None:
    low = kwargs.get("min", args[1] if len(args) > 1 else None)
    high = kwargs.get("max", args[2] if len(args) > 2 else None)
    if not isinstance(low, (int, float)) or float(low) != 0.0:
        return None
    if high is None:
        return LayerKind.ACTIVATION, "relu"
    return (LayerKind.ACTIVATION, "relu6") if high == 6 else None


def _one_tensor(args: Sequence[Any]) -> bool:
    """Whether exactly one of the two operands holds more than one number."""
    if len(args) < 2:
        return False
    wide = [isinstance(a, torch.Tensor) and a.ndim > 0 for a in args[:2]]
    return wide.count(True) == 1


def _has_dim(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return kwargs.get("dim", args[1] if len(args) > 1 else None) is not None


LOSS_NAMES = frozenset(
    name
    for name in dir(functional)
    if name.endswith("_loss")
    or name
    in (
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "cross_entropy",
        "kl_div",
        "linear_cross_entropy",
    )
)


def is_loss(func: Callable[..., Any]) -> bool:
    """Whether `func` is a loss function of `torch.nn.functional`."""
    name = getattr(func, "__name__", "")
    return name in LOSS_NAMES and getattr(func, "__module__", None) == functional.__name__
