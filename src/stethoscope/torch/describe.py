"""What a PyTorch program is: its modules, calls, losses and optimizers as the Program's words.

This is the one door to the description; the runtime hands in live objects and gets plain data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from stethoscope.program import LayerSpec, OptimizerSpec
from stethoscope.torch.calls import (
    call_kind,
    elu_name,
    hard_tanh_name,
    is_loss,
    leaky_name,
)
from stethoscope.torch.formula import Call
from stethoscope.torch.handwritten import hand_written_loss
from stethoscope.torch.losses import batch_metric, loss_spec, prediction_and_target, sample
from stethoscope.types import SourceRef
from stethoscope.vocabulary import ACTIVATIONS, LayerKind

__all__ = [
    "Call",
    "batch_metric",
    "call_kind",
    "hand_written_loss",
    "is_loss",
    "layer_spec",
    "loss_spec",
    "optimizer_spec",
    "prediction_and_target",
    "sample",
]

_ACTIVATIONS: dict[str, str | None] = {
    "ReLU": "relu",
    "ReLU6": "relu6",
    "LeakyReLU": "leaky_relu",
    "RReLU": "leaky_relu",  # the slope is drawn at random; the facts are the same
    "PReLU": "prelu",
    "ELU": "elu",
    "SELU": "selu",
    "CELU": "celu",
    "GELU": "gelu",
    "SiLU": "silu",
    "Mish": "mish",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sigmoid": "sigmoid",
    "Hardsigmoid": "hard_sigmoid",
    "LogSigmoid": "log_sigmoid",
    "Tanh": "tanh",
    "Hardtanh": "hard_tanh",
    "Softmax": "softmax",
    "Softmax2d": "softmax",
    "Softmin": "softmax",  # softmax of the negated input: the facts are the same
    "LogSoftmax": "log_softmax",
    "Hardswish": "hard_silu",
    "GLU": "glu",
    # `vocabulary.ACTIVATIONS` has no entry for these.
    "Hardshrink": None,
    "Softshrink": None,
    "Tanhshrink": None,
    "Threshold": None,
}

_LINEAR: dict[str, LayerKind] = {
    name: kind
    for kind, text in {
        LayerKind.DENSE: "Linear Bilinear NonDynamicallyQuantizableLinear",
        LayerKind.CONV: "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
        LayerKind.EMBEDDING: "Embedding EmbeddingBag",
        LayerKind.ATTENTION: "MultiheadAttention",
        LayerKind.NORMALIZATION: "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm "
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm GroupNorm RMSNorm "
        "LocalResponseNorm CrossMapLRN2d",
        LayerKind.DROPOUT: "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout",
        LayerKind.POOLING: "MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d "
        "AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d AdaptiveAvgPool1d "
        "AdaptiveAvgPool2d AdaptiveAvgPool3d LPPool1d LPPool2d LPPool3d FractionalMaxPool2d "
        "FractionalMaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d Upsample UpsamplingNearest2d "
        "UpsamplingBilinear2d",
        LayerKind.RESHAPE: "Identity Flatten Unflatten Fold Unfold PixelShuffle PixelUnshuffle "
        "ChannelShuffle ConstantPad1d ConstantPad2d ConstantPad3d ZeroPad1d ZeroPad2d ZeroPad3d "
        "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d "
        "ReplicationPad3d CircularPad1d CircularPad2d CircularPad3d",
        LayerKind.MERGE: "CosineSimilarity PairwiseDistance",
    }.items()
    for name in text.split()
}

_RECURRENT = frozenset({"RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"})

_CONTAINERS = frozenset(
    {
        "Sequential",
        "ModuleList",
        "ModuleDict",
        "ParameterList",
        "ParameterDict",
        "Container",
        "DataParallel",
        "Transformer",
        "TransformerEncoder",
        "TransformerDecoder",
        "TransformerEncoderLayer",
        "TransformerDecoderLayer",
    }
)

_KNOWN = {*_ACTIVATIONS, *_LINEAR, *_RECURRENT, *_CONTAINERS}


def layer_spec(path: str, module: nn.Module, source: SourceRef | None) -> LayerSpec:
    """Describes one module, without its children. Runs nothing and never raises.

    Args:
        path: The attribute path, as the user knows it.
        module: Any module; one that is not of torch is a container or of another kind, with
            an unknown activation.
        source: The call that constructed it.

    Returns:
        The description; parameters of lazy modules that have no shape yet are left out and
        `config["uninitialized"]` says so.
    """
    known = _known_class(module)
    kind, activation = _kind(module, known)
    params, lazy = _own_params(module)
    config = _config(module, kind) if known is not None else {}
    if lazy:
        config["uninitialized"] = True
    return LayerSpec(
        path=path,
        type=_shown_type(module).__name__,
        kind=kind,
        activation=activation,
        config=config,
        params=params,
        trainable=_trainable(module),
        source=source,
    )


def _shown_type(module: nn.Module) -> type[nn.Module]:
    """The class the user wrote: a parametrization puts its own in front."""
    kind = type(module)
    if "parametrizations" in module._modules and kind.__name__.startswith("Parametrized"):
        return kind.__mro__[1]
    return kind


def _known_class(module: nn.Module) -> str | None:
    """Name of the torch class that says what `module` computes; None for the user's own."""
    mro = [c for c in type(module).__mro__ if issubclass(c, nn.Module)]
    if any(c.__module__.startswith("torch.ao.nn.intrinsic") for c in mro[:1]):
        return None  # fused modules: several layers in one
    for cls in mro:
        of_torch = cls.__module__.startswith("torch.")
        name = cls.__name__.removeprefix("Lazy")
        if of_torch and name in _KNOWN:
            return name
        rewritten = "forward" in vars(cls) and not of_torch
        if rewritten and not issubclass(cls, _HOLDERS):
            return None
    return None


_HOLDERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


def _kind(module: nn.Module, known: str | None) -> tuple[LayerKind, str | None]:
    if isinstance(module, nn.modules.loss._Loss):
        return LayerKind.OTHER, None  # some hold a module that measures the distance
    if known is None:
        return (LayerKind.CONTAINER if module._modules else LayerKind.OTHER), None
    if known in _LINEAR:
        return _LINEAR[known], "linear"
    if known in _RECURRENT:
        # The hidden state of every recurrent layer leaves through a tanh, unless it says relu;
        # a projected LSTM's goes through a linear map after it.
        if getattr(module, "proj_size", 0):
            return LayerKind.RECURRENT, "linear"
        return LayerKind.RECURRENT, getattr(module, "nonlinearity", "tanh")
    if known in _ACTIVATIONS:
        return LayerKind.ACTIVATION, _activation(module, known)
    return LayerKind.CONTAINER, None


def _activation(module: nn.Module, known: str) -> str | None:
    """The canonical name, where its arguments do not make it another function."""
    name = _ACTIVATIONS[known]
    if known == "Hardtanh":
        name = hard_tanh_name(_number(module, "min_val", -1.0), _number(module, "max_val", 1.0))
    elif known == "ELU":
        name = elu_name(_number(module, "alpha", 1.0))
    elif known == "LeakyReLU":
        name = leaky_name(_number(module, "negative_slope", 0.01))
    return name if name in ACTIVATIONS else None


def _number(module: nn.Module, name: str, default: float) -> float:
    value = getattr(module, name, default)
    return float(value) if isinstance(value, (int, float)) else math.nan


def _own_params(module: nn.Module) -> tuple[dict[str, tuple[int, ...]], bool]:
    """Own parameters with their shapes, and whether some have none yet.

    Reading a parametrized attribute would compute it (and could advance a power iteration), so
    the stored tensors are taken, under the names that `named_parameters` gives them.
    """
    shapes, lazy = {}, False
    for name, param in _own(module):
        if nn.parameter.is_lazy(param):
            lazy = True
        else:
            shapes[name] = tuple(param.shape)
    return shapes, lazy


def _own(module: nn.Module) -> Iterable[tuple[str, nn.Parameter]]:
    yield from ((n, p) for n, p in module._parameters.items() if p is not None)
    parametrized = module._modules.get("parametrizations")
    if parametrized is not None:
        for name, param in parametrized.named_parameters():
            yield f"parametrizations.{name}", param


def _trainable(module: nn.Module) -> bool | None:
    own = [param.requires_grad for _, param in _own(module)]
    return any(own) if own else None


def _config(module: nn.Module, kind: LayerKind) -> dict[str, Any]:
    config = {n: _plain(v) for n, v in vars(module).items() if _is_setting(n, v)}
    if "bias" in module._parameters or kind in (LayerKind.DENSE, LayerKind.CONV):
        config["bias"] = bool(
            module._parameters.get("bias") is not None
            or any(name.startswith("parametrizations.bias") for name, _ in _own(module))
        )
    if kind is LayerKind.ACTIVATION and isinstance(config.get("dim"), int):
        config["axis"] = config["dim"]
    if kind is LayerKind.ACTIVATION and isinstance(module, nn.Softmax2d):
        config["axis"] = -3  # the channels
    if kind is LayerKind.DROPOUT and "p" in config:
        config["rate"] = config["p"]
    function = vars(module).get("activation")  # of a transformer layer
    if callable(function):
        found = call_kind(function)
        config["activation"] = found[1] if found else None
    return config


def _is_setting(name: str, value: Any) -> bool:
    if name.startswith("_") or name == "training":
        return False
    if isinstance(value, (tuple, list)):
        return len(value) <= 8 and all(isinstance(v, (bool, int, float)) for v in value)
    return value is None or isinstance(value, (bool, int, float, str))


def _plain(value: Any) -> Any:
    """Lists for tuples, as JSON reads them back."""
    return list(value) if isinstance(value, tuple) else value


def optimizer_spec(
    optimizer: torch.optim.Optimizer, names: Mapping[int, str], source: SourceRef | None
) -> OptimizerSpec:
    """Describes an optimizer as it stands.

    Args:
        optimizer: Any optimizer.
        names: `id` of a parameter to its path, `layer/param`; parameters without are left out.
        source: The call that constructed it.

    Returns:
        The description: learning rate and settings of group 0, and the learning rates of all
        groups in `config["groups"]` when there are several.
    """
    groups = optimizer.param_groups
    first = groups[0] if groups else {}
    settings = {**getattr(optimizer, "defaults", {}), **first}
    rates = [_rate(group.get("lr")) for group in groups]
    config = {
        ("epsilon" if name == "eps" else name): _setting(value)
        for name, value in settings.items()
        if name not in ("params", "lr", "initial_lr", "param_names")
    }
    config = {name: value for name, value in config.items() if value is not _UNKNOWN}
    if len(rates) > 1:
        config["groups"] = rates
    params = [names[id(p)] for group in groups for p in group["params"] if id(p) in names]
    return OptimizerSpec(
        name=_optimizer_name(type(optimizer)),
        type=type(optimizer).__name__,
        learning_rate=rates[0] if rates else None,
        config=config,
        params=tuple(params),
        source=source,
    )


_UNKNOWN = object()


def _optimizer_name(kind: type) -> str:
    for cls in kind.__mro__:
        if cls.__module__.startswith("torch.optim") and cls is not torch.optim.Optimizer:
            return cls.__name__.lower()
    return kind.__name__.lower()


def _rate(value: Any) -> float | None:
    value = _setting(value)
    return float(value) if isinstance(value, (int, float)) else None


def _setting(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return float(value.detach()) if value.numel() == 1 else _UNKNOWN
    if isinstance(value, (tuple, list)):
        plain = [_setting(v) for v in value]
        return _UNKNOWN if _UNKNOWN in plain else plain
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return _UNKNOWN
