"""Modules of torch as layers of the engine, one function for each kind; torch is not imported.

The data stays in torch's order, channels first, so that the values of every stage are torch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from stethoscope import engine
from stethoscope.engine import activations
from stethoscope.engine.layers._base import Array, Layer, Shape, Weights
from stethoscope.engine.translate import torch_activations

FIRST = "channels_first"
UNARY = {
    "Hardsigmoid": "hard_sigmoid",
    "Hardswish": "hard_silu",
    "Identity": "linear",
    "LogSigmoid": "log_sigmoid",
    "Mish": "mish",
    "ReLU": "relu",
    "ReLU6": "relu6",
    "SELU": "selu",
    "SiLU": "silu",
    "Sigmoid": "sigmoid",
    "Softsign": "softsign",
    "Tanh": "tanh",
    "Tanhshrink": "tanh_shrink",
}
"""Modules without settings, and the engine's functions."""


class TorchEmbedding(engine.Embedding):
    """`Embedding` whose vector of one id, `padding`, has no gradient."""

    padding: int | None = None

    def backward(
        self, gradient: Array, saved: tuple[Array, Array | None], weights: Weights
    ) -> tuple[list[Array], dict[str, Array]]:
        back, found = super().backward(gradient, saved, weights)
        if self.padding is not None:
            found["embeddings"][self.padding] = 0
        return back, found


def layer_of(module: Any, shape: Shape, frozen: bool) -> Layer:
    """The layer of the engine that computes what the module does.

    Args:
        module: Of a class of torch.nn.
        shape: Of one sample of its input.
        frozen: It is in evaluation mode while the model trains.

    Raises:
        ValueError, TypeError: The engine has no such layer, or not this setting of it.
    """
    kind = type(module).__name__
    if kind in UNARY:
        return engine.Activation(UNARY[kind])
    if kind not in MAKERS:
        raise ValueError(f"the engine reads no {kind} of torch; it reads {', '.join(known())}.")
    if frozen and "Dropout" in kind:
        return engine.Activation("linear")
    return MAKERS[kind](module, shape)


def known() -> list[str]:
    """The modules that are read, by the names of their classes."""
    return sorted({*MAKERS, *UNARY})


def _only(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"the engine has no {what} for it.")


def _axis(dim: int | None, shape: Shape) -> int:
    """An axis of one sample, counted as torch and the engine do, with the batch."""
    rank = len(shape) + 1
    if dim is None or not -rank < dim < rank or dim == 0:
        raise ValueError(f"its dim is an axis of ('batch', *{shape}) but the first; got {dim}.")
    return dim


def _halved(dim: int, shape: Shape) -> int:
    size = (0, *shape)[_axis(dim, shape)]
    if size % 2:
        raise ValueError(f"it halves an axis, whose size must be even; got {size}.")
    return dim


def _rank(module: Any, shape: Shape) -> int:
    """How many lengths the class of the module has: the digit in its name."""
    rank = int(type(module).__name__[-2])
    if len(shape) != rank + 1:
        raise ValueError(f"it takes samples with channels and {rank} lengths; got shape {shape}.")
    return rank


def _each(value: Any, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value)


# Dense layers, convolutions, tables


def _linear(module: Any, shape: Shape) -> Layer:
    return engine.Dense(module.out_features, use_bias=module.bias is not None)


def _conv(module: Any, shape: Shape) -> Layer:
    rank = _rank(module, shape)
    _only(module.padding_mode == "zeros", f"padding_mode={module.padding_mode!r}")
    return (engine.Conv1D if rank == 1 else engine.Conv2D)(
        module.out_channels,
        module.kernel_size,
        strides=module.stride,
        padding=module.padding,
        data_format=FIRST,
        dilation_rate=module.dilation,
        groups=module.groups,
        use_bias=module.bias is not None,
    )


def _transposed(module: Any, shape: Shape) -> Layer:
    rank = _rank(module, shape)
    _only(module.groups == 1, f"groups={module.groups}")
    return (engine.Conv1DTranspose if rank == 1 else engine.Conv2DTranspose)(
        module.out_channels,
        module.kernel_size,
        strides=module.stride,
        padding=module.padding,
        output_padding=module.output_padding,
        data_format=FIRST,
        dilation_rate=module.dilation,
        use_bias=module.bias is not None,
    )


def _embedding(module: Any, shape: Shape) -> Layer:
    _only(module.max_norm is None, f"max_norm={module.max_norm}")
    _only(not module.scale_grad_by_freq, "scale_grad_by_freq")
    _only(not module.sparse, "sparse gradient")
    found = TorchEmbedding(module.num_embeddings, module.embedding_dim)
    found.padding = module.padding_idx
    return found


# Normalization


def _batch_norm(module: Any, shape: Shape) -> Layer:
    allowed = {"BatchNorm1d": (1, 2), "BatchNorm2d": (3,)}[type(module).__name__]
    if len(shape) not in allowed:
        raise ValueError(f"it takes samples of {' or '.join(map(str, allowed))} axes; got {shape}.")
    _only(module.momentum is not None, "mean over all batches (momentum=None)")
    _only(module.running_mean is not None, "use of a batch's statistics outside of training")
    return engine.BatchNormalization(
        axis=1,
        momentum=1 - module.momentum,
        unbiased=True,
        epsilon=module.eps,
        center=module.bias is not None,
        scale=module.weight is not None,
    )


def _layer_norm(module: Any, shape: Shape) -> Layer:
    over = tuple(module.normalized_shape)
    if shape[-len(over) :] != over:
        raise ValueError(f"it takes samples that end in {over}; got shape {shape}.")
    return engine.LayerNormalization(
        axis=range(-len(over), 0) if len(over) > 1 else -1,
        epsilon=module.eps,
        center=module.bias is not None,
        scale=module.weight is not None,
    )


def _group_norm(module: Any, shape: Shape) -> Layer:
    instances = not hasattr(module, "num_groups")
    if instances:
        _rank(module, shape)
        _only(not module.track_running_stats, "running statistics")
    return engine.GroupNormalization(
        groups=-1 if instances else module.num_groups,
        axis=1,
        epsilon=module.eps,
        center=module.bias is not None,
        scale=module.weight is not None,
    )


# Pooling


def _windows(module: Any, shape: Shape) -> dict[str, Any]:
    """The windows of a pooling layer, with what `ceil_mode` adds at the ends."""
    rank = _rank(module, shape)
    size, step = _each(module.kernel_size, rank), _each(module.stride, rank)
    pads = []
    for n, k, s, p in zip(shape[1:], size, step, _each(module.padding, rank), strict=True):
        more = 0
        if module.ceil_mode:
            windows = -(-(n + 2 * p - k) // s) + 1
            windows -= (windows - 1) * s >= n + p  # the last one would start beyond the input
            more = max((windows - 1) * s + k - (n + 2 * p), 0)
        pads.append((p, p + more))
    padding = tuple(pads) if any(map(any, pads)) else "valid"
    return {"pool_size": size, "strides": step, "padding": padding, "data_format": FIRST}


def _max_pool(module: Any, shape: Shape) -> Layer:
    _only(not module.return_indices, "return_indices")
    rank = _rank(module, shape)
    _only(set(_each(module.dilation, rank)) == {1}, f"dilation={module.dilation}")
    return (engine.MaxPooling1D if rank == 1 else engine.MaxPooling2D)(**_windows(module, shape))


def _average_pool(module: Any, shape: Shape) -> Layer:
    divisor = getattr(module, "divisor_override", None)
    _only(divisor is None, f"divisor_override={divisor}")
    settings = _windows(module, shape)
    if settings["padding"] != "valid" and module.count_include_pad:
        _only(not module.ceil_mode, "ceil_mode with count_include_pad")
        settings["count_padding"] = True
    pool = engine.AveragePooling1D if _rank(module, shape) == 1 else engine.AveragePooling2D
    return pool(**settings)


def _adaptive(module: Any, shape: Shape) -> Layer:
    rank, kind = _rank(module, shape), type(module).__name__
    wanted = module.output_size
    given = [wanted] * rank if wanted is None or isinstance(wanted, int) else list(wanted)
    sizes = [n if m is None else m for n, m in zip(shape[1:], given, strict=True)]
    even = all(m and not n % m for n, m in zip(shape[1:], sizes, strict=True))
    _only(even, f"output_size={wanted} of lengths {shape[1:]}, which are no multiples of it,")
    _only(not getattr(module, "return_indices", False), "return_indices")
    size = [n // m for n, m in zip(shape[1:], sizes, strict=True)]
    if "Max" in kind:
        return (engine.MaxPooling1D if rank == 1 else engine.MaxPooling2D)(size, data_format=FIRST)
    if set(sizes) == {1}:
        whole = engine.GlobalAveragePooling1D if rank == 1 else engine.GlobalAveragePooling2D
        return whole(data_format=FIRST, keepdims=True)
    pool = engine.AveragePooling1D if rank == 1 else engine.AveragePooling2D
    return pool(size, data_format=FIRST)


# Dropout


def _dropout(module: Any, shape: Shape) -> Layer:
    return engine.Dropout(module.p)


def _channel_dropout(module: Any, shape: Shape) -> Layer:
    rank = _rank(module, shape)
    return engine.Dropout(module.p, noise_shape=(None, None, *(1,) * rank))


def _alpha_dropout(module: Any, shape: Shape) -> Layer:
    return engine.AlphaDropout(module.p)


# Shapes


def _flatten(module: Any, shape: Shape) -> Layer:
    rank = len(shape) + 1
    first, last = module.start_dim % rank, module.end_dim % rank
    if (first, last) == (1, rank - 1):
        return engine.Flatten()
    if not 1 <= first <= last:
        raise ValueError("it flattens the batch axis, which the engine keeps.")
    row = math.prod(shape[first - 1 : last])
    return engine.Reshape((*shape[: first - 1], row, *shape[last:]))


def _unflatten(module: Any, shape: Shape) -> Layer:
    if isinstance(module.dim, str):
        raise ValueError("its axis has a name, which the engine has not.")
    at = _axis(module.dim, shape) % (len(shape) + 1) - 1
    parts = tuple(module.unflattened_size)
    rest = math.prod(n for n in parts if n != -1)
    parts = tuple(shape[at] // rest if n == -1 else n for n in parts)
    return engine.Reshape((*shape[:at], *parts, *shape[at + 1 :]))


def _zero_pad(module: Any, shape: Shape) -> Layer:
    rank = _rank(module, shape)
    _only(getattr(module, "value", 0) == 0, f"padding with {getattr(module, 'value', 0)}")
    ends = _each(module.padding, 2 * rank)  # of the last length first
    pairs = [(ends[2 * i], ends[2 * i + 1]) for i in reversed(range(rank))]
    return (engine.ZeroPadding1D if rank == 1 else engine.ZeroPadding2D)(pairs, FIRST)


def _upsample(module: Any, shape: Shape) -> Layer:
    rank = len(shape) - 1
    _only(module.mode == "nearest" and rank in (1, 2), f"mode={module.mode!r} of {rank} lengths")
    if module.size is not None:
        factors = [m / n for m, n in zip(_each(module.size, rank), shape[1:], strict=True)]
    else:
        given = module.scale_factor
        factors = [given] * rank if isinstance(given, int | float) else list(given)
    _only(all(f >= 1 and f == int(f) for f in factors), f"factors {factors}")
    size = [int(f) for f in factors]
    if rank == 1:
        return engine.UpSampling1D(size[0], data_format=FIRST)
    return engine.UpSampling2D(size, data_format=FIRST)


# Activations


def _function(make: Callable[[Any, Shape], activations.Activation]) -> Callable[..., Layer]:
    return lambda module, shape: engine.Activation(make(module, shape))


def _prelu(module: Any, shape: Shape) -> Layer:
    single = module.num_parameters == 1
    axes: Sequence[int] = range(1 if single else 2, len(shape) + 1)
    return torch_activations.TorchPReLU(shared_axes=axes)


MAKERS: dict[str, Callable[[Any, Shape], Layer]] = {
    "AdaptiveAvgPool1d": _adaptive,
    "AdaptiveAvgPool2d": _adaptive,
    "AdaptiveMaxPool1d": _adaptive,
    "AdaptiveMaxPool2d": _adaptive,
    "AlphaDropout": _alpha_dropout,
    "AvgPool1d": _average_pool,
    "AvgPool2d": _average_pool,
    "BatchNorm1d": _batch_norm,
    "BatchNorm2d": _batch_norm,
    "CELU": _function(lambda m, _: activations.celu(m.alpha)),
    "ConstantPad1d": _zero_pad,
    "ConstantPad2d": _zero_pad,
    "Conv1d": _conv,
    "Conv2d": _conv,
    "ConvTranspose1d": _transposed,
    "ConvTranspose2d": _transposed,
    "Dropout": _dropout,
    "Dropout1d": _channel_dropout,
    "Dropout2d": _channel_dropout,
    "ELU": _function(lambda m, _: activations.elu(m.alpha)),
    "Embedding": _embedding,
    "Flatten": _flatten,
    "GELU": _function(lambda m, _: activations.gelu(m.approximate == "tanh")),
    "GLU": _function(lambda m, shape: activations.glu(_halved(m.dim, shape))),
    "GroupNorm": _group_norm,
    "Hardshrink": _function(lambda m, _: activations.hard_shrink(m.lambd)),
    "Hardtanh": _function(lambda m, _: torch_activations.hard_tanh(m.min_val, m.max_val)),
    "InstanceNorm1d": _group_norm,
    "InstanceNorm2d": _group_norm,
    "LayerNorm": _layer_norm,
    "LeakyReLU": _function(lambda m, _: torch_activations.leaky_relu(m.negative_slope)),
    "Linear": _linear,
    "LogSoftmax": _function(lambda m, shape: activations.log_softmax(_axis(m.dim, shape))),
    "MaxPool1d": _max_pool,
    "MaxPool2d": _max_pool,
    "PReLU": _prelu,
    "Softmax": _function(lambda m, shape: activations.softmax(_axis(m.dim, shape))),
    "Softmax2d": _function(lambda m, shape: activations.softmax(-1 - _rank(m, shape))),
    "Softmin": _function(lambda m, shape: torch_activations.softmin(_axis(m.dim, shape))),
    "Softplus": _function(lambda m, _: torch_activations.softplus(m.beta, m.threshold)),
    "Softshrink": _function(lambda m, _: activations.soft_shrink(m.lambd)),
    "Threshold": _function(lambda m, _: activations.threshold(m.threshold, m.value)),
    "Unflatten": _unflatten,
    "Upsample": _upsample,
    "UpsamplingNearest2d": _upsample,
    "ZeroPad1d": _zero_pad,
    "ZeroPad2d": _zero_pad,
}
"""What makes the layer of each kind of module."""
