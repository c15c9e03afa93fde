"""Torch calls, as a TorchFunctionMode really sees them, are known for what they are."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from stethoscope.torch.calls import ACTIVATION_NAMES
from stethoscope.torch.describe import call_kind, is_loss, layer_spec
from stethoscope.vocabulary import ACTIVATIONS, LayerKind


class Kinds(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(call_kind(func, args, kwargs))
        return func(*args, **(kwargs or {}))


def kind_of(call):
    with Kinds() as mode:
        call()
    (kind,) = mode.seen
    return kind


X = torch.linspace(-2, 2, 24).reshape(2, 3, 4)
IMAGE = torch.ones(1, 2, 6, 6)
W = torch.ones(4, 4)
KERNEL, INDEX = torch.ones(1, 2, 3, 3), torch.tensor([1])

SPELLINGS = {
    "relu": {
        "functional": lambda: functional.relu(X),
        "torch": lambda: torch.relu(X),
        "method": lambda: X.relu(),
        "clamp": lambda: X.clamp(min=0),
        "torch.clamp": lambda: torch.clamp(X, 0.0),
        "clamp_min": lambda: X.clamp_min(0),
        "leak of nothing": lambda: functional.leaky_relu(X, 0.0),
    },
    "relu6": {
        "functional": lambda: functional.relu6(X),
        "hardtanh": lambda: functional.hardtanh(X, 0.0, 6.0),
        "clamp": lambda: X.clamp(0, 6),
    },
    "softmax": {
        "functional": lambda: functional.softmax(X, dim=1),
        "torch": lambda: torch.softmax(X, 1),
        "method": lambda: X.softmax(1),
    },
    "log_softmax": {
        "functional": lambda: functional.log_softmax(X, dim=1),
        "torch": lambda: torch.log_softmax(X, 1),
        "method": lambda: X.log_softmax(1),
    },
    "sigmoid": {
        "functional": lambda: functional.sigmoid(X),
        "torch": lambda: torch.sigmoid(X),
        "method": lambda: X.sigmoid(),
        "special": lambda: torch.special.expit(X),
    },
    "tanh": {"functional": lambda: functional.tanh(X), "torch": lambda: torch.tanh(X)},
    "exponential": {"torch": lambda: torch.exp(X), "method": lambda: X.exp()},
    "hard_tanh": {"functional": lambda: functional.hardtanh(X)},
    "leaky_relu": {"functional": lambda: functional.leaky_relu(X, 0.2)},
    "elu": {"functional": lambda: functional.elu(X)},
    "log_sigmoid": {"functional": lambda: functional.logsigmoid(X)},
}


@pytest.mark.parametrize(
    ("name", "call"),
    [
        pytest.param(name, call, id=f"{name}, {spelling}")
        for name, calls in SPELLINGS.items()
        for spelling, call in calls.items()
    ],
)
def test_an_activation_in_every_spelling(name, call):
    assert kind_of(call) == (LayerKind.ACTIVATION, name)


@pytest.mark.parametrize("function", [torch.relu_, torch.Tensor.relu_, functional.relu_])
def test_an_activation_in_place(function):
    value = X.clone()
    assert kind_of(lambda: function(value)) == (LayerKind.ACTIVATION, "relu")


OTHERS = {
    "clamp to other bounds": (lambda: X.clamp(-1, 1), None),
    "power": (lambda: X**2, None),
    "mean of all": (lambda: X.mean(), None),
    "shape": (lambda: X.shape, None),
    "comparison": (lambda: X > 0, None),
    "mean over an axis": (lambda: X.mean(dim=1), "pooling"),
    "view": (lambda: X.view(6, 4), "reshape"),
    "flatten": (lambda: torch.flatten(X, 1), "reshape"),
    "index": (lambda: X[:, 0], "reshape"),
    "cast": (lambda: X.double(), "reshape"),
    "permute": (lambda: X.permute(2, 0, 1), "reshape"),
    "pad": (lambda: functional.pad(X, (1, 1)), "reshape"),
    "sum of two": (lambda: X + X, "merge"),
    "difference of two": (lambda: torch.sub(X, X), "merge"),
    "concatenation": (lambda: torch.cat([X, X]), "merge"),
    "times a number": (lambda: 2 * X, "rescale"),
    "over a number": (lambda: X / 255, "rescale"),
    "from a number": (lambda: 1 - X, "rescale"),
    "dropout": (lambda: functional.dropout(X, 0.0), "dropout"),
    "max pool": (lambda: functional.max_pool2d(IMAGE, 2), "pooling"),
    "adaptive pool": (lambda: functional.adaptive_avg_pool2d(IMAGE, 1), "pooling"),
    "layer norm": (lambda: functional.layer_norm(X, (4,)), "normalization"),
    "batch norm": (lambda: functional.batch_norm(X, None, None, training=True), "normalization"),
    "linear": (lambda: functional.linear(X, W), "dense"),
    "matrix product": (lambda: X @ W, "dense"),
    "einsum": (lambda: torch.einsum("abc,cd->abd", X, W), "dense"),
    "conv": (lambda: functional.conv2d(IMAGE, KERNEL), "conv"),
    "embedding": (lambda: functional.embedding(INDEX, W), "embedding"),
    "attention": (lambda: functional.scaled_dot_product_attention(X, X, X), "attention"),
}


@pytest.mark.parametrize(("call", "expected"), OTHERS.values(), ids=OTHERS)
def test_other_calls(call, expected):
    found = kind_of(call)
    assert (found and found[0].value) == expected


FUNCTIONS = {
    f"{space.__name__}.{name}": getattr(space, name)
    for space in (functional, torch, torch.Tensor, torch.special, torch.linalg, torch.fft)
    for name in dir(space)
    if callable(getattr(space, name)) and not isinstance(getattr(space, name), type)
}


def test_every_function_of_torch_can_be_asked():
    assert len(FUNCTIONS) > 1500
    for name, func in FUNCTIONS.items():
        found = call_kind(func)
        assert found is None or isinstance(found[0], LayerKind), name
        assert is_loss(func) in (True, False), name


# Torch's own list: the functions behind the modules of its file of activations.
BEHIND_MODULES = {
    "ReLU": functional.relu,
    "ReLU6": functional.relu6,
    "LeakyReLU": functional.leaky_relu,
    "RReLU": functional.rrelu,
    "PReLU": functional.prelu,
    "ELU": functional.elu,
    "SELU": functional.selu,
    "CELU": functional.celu,
    "GELU": functional.gelu,
    "SiLU": functional.silu,
    "Mish": functional.mish,
    "Softplus": functional.softplus,
    "Softsign": functional.softsign,
    "Sigmoid": functional.sigmoid,
    "Hardsigmoid": functional.hardsigmoid,
    "LogSigmoid": functional.logsigmoid,
    "Tanh": functional.tanh,
    "Hardtanh": functional.hardtanh,
    "Softmax": functional.softmax,
    "Softmin": functional.softmin,
    "LogSoftmax": functional.log_softmax,
    "Hardswish": functional.hardswish,
    "GLU": functional.glu,
    "Hardshrink": functional.hardshrink,
    "Softshrink": functional.softshrink,
    "Tanhshrink": functional.tanhshrink,
    "Threshold": functional.threshold,
}


def test_the_list_of_activation_modules_is_whole():
    modules = {
        name
        for name, cls in vars(nn).items()
        if isinstance(cls, type) and cls.__module__ == "torch.nn.modules.activation"
    }
    assert modules - {"MultiheadAttention", "Softmax2d"} == set(BEHIND_MODULES)


@pytest.mark.parametrize("name", BEHIND_MODULES)
def test_module_and_function_have_one_name(name):
    arguments = {"Threshold": (0.1, 20.0)}.get(name, ())
    if name in ("Softmax", "LogSoftmax", "Softmin"):
        arguments = (-1,)
    module = getattr(nn, name)(*arguments)
    kind, activation = call_kind(BEHIND_MODULES[name])
    assert kind is LayerKind.ACTIVATION
    described = layer_spec("act", module, None).activation
    assert described == (activation if activation in ACTIVATIONS else None)
    with Kinds() as mode:
        module(X)
    names = [found[1] for found in mode.seen if found and found[0] is LayerKind.ACTIVATION]
    if described is not None and name not in ("Softmin",):
        assert described in names


def test_every_canonical_name_is_in_the_vocabulary_or_torch_s_own():
    for name, canonical in ACTIVATION_NAMES.items():
        assert canonical in ACTIVATIONS or canonical == name
