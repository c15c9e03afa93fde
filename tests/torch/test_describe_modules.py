"""Every public module of torch.nn has a description that agrees with torch itself."""

import warnings

import pytest
import torch
from torch import nn

from stethoscope.program import Program
from stethoscope.torch.describe import layer_spec
from stethoscope.types import SourceRef
from stethoscope.vocabulary import ACTIVATIONS, LayerKind

# What a class needs to be constructed, where nothing does not do.
ARGUMENTS = {
    "AdaptiveLogSoftmaxWithLoss": (8, 20, [5, 10]),
    "Bilinear": (2, 3, 4),
    "ChannelShuffle": (2,),
    "ConstantPad1d": (1, 0.0),
    "ConstantPad2d": (1, 0.0),
    "ConstantPad3d": (1, 0.0),
    "CrossMapLRN2d": (3,),
    "DataParallel": (nn.Linear(2, 3),),
    "Embedding": (10, 3),
    "EmbeddingBag": (10, 3),
    "Fold": ((4, 5), (2, 2)),
    "FractionalMaxPool2d": ({"kernel_size": 2, "output_ratio": 0.5},),
    "FractionalMaxPool3d": ({"kernel_size": 2, "output_ratio": 0.5},),
    "GroupNorm": (2, 4),
    "LayerNorm": (4,),
    "LinearCrossEntropyLoss": (8, 20),
    "Linear": (3, 4),
    "LocalResponseNorm": (2,),
    "MultiheadAttention": (8, 2),
    "PixelShuffle": (2,),
    "PixelUnshuffle": (2,),
    "RMSNorm": (4,),
    "RNNBase": ("LSTM", 3, 4),
    "RNNCellBase": (3, 4, True, 4),
    "SyncBatchNorm": (4,),
    "Threshold": (0.1, 20.0),
    "Transformer": (8, 2, 1, 1, 16),
    "TransformerDecoder": (nn.TransformerDecoderLayer(8, 2, 16), 2),
    "TransformerDecoderLayer": (8, 2, 16),
    "TransformerEncoder": (nn.TransformerEncoderLayer(8, 2, 16), 2, None, False),
    "TransformerEncoderLayer": (8, 2, 16),
    "Unflatten": (1, (2, 2)),
    "Upsample": ({"scale_factor": 2},),
    "UpsamplingBilinear2d": ({"scale_factor": 2},),
    "UpsamplingNearest2d": ({"scale_factor": 2},),
    "LPPool1d": (2, 3),
    "LPPool2d": (2, 3),
    "LPPool3d": (2, 3),
}
BY_FAMILY = {
    "Conv": (2, 4, 3),
    "LazyConv": (4, 3),
    "BatchNorm": (4,),
    "InstanceNorm": (4,),
    "MaxPool": (2,),
    "MaxUnpool": (2,),
    "AvgPool": (2,),
    "Adaptive": (2,),
    "RNN": (3, 4),
    "LSTM": (3, 4),
    "GRU": (3, 4),
    "ReflectionPad": (1,),
    "ReplicationPad": (1,),
    "ZeroPad": (1,),
    "CircularPad": (1,),
    "Unfold": (2,),
    "LazyLinear": (4,),
}

CLASSES = {
    name: value
    for name, value in vars(nn).items()
    if isinstance(value, type) and issubclass(value, nn.Module) and not name.startswith("_")
}


def build(name):
    arguments = ARGUMENTS.get(name)
    if arguments is None:
        fits = [a for prefix, a in BY_FAMILY.items() if name.startswith(prefix)]
        arguments = fits[0] if fits else ()
    keywords = arguments[0] if arguments and isinstance(arguments[0], dict) else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NLLLoss2d and Container say that they are old
        return CLASSES[name](**keywords) if keywords else CLASSES[name](*arguments)


# Torch's own files are the independent word on what a class is.
KIND_OF_FILE = {
    "activation": LayerKind.ACTIVATION,
    "batchnorm": LayerKind.NORMALIZATION,
    "channelshuffle": LayerKind.RESHAPE,
    "container": LayerKind.CONTAINER,
    "conv": LayerKind.CONV,
    "data_parallel": LayerKind.CONTAINER,
    "distance": LayerKind.MERGE,
    "dropout": LayerKind.DROPOUT,
    "flatten": LayerKind.RESHAPE,
    "fold": LayerKind.RESHAPE,
    "instancenorm": LayerKind.NORMALIZATION,
    "linear": LayerKind.DENSE,
    "loss": LayerKind.OTHER,
    "normalization": LayerKind.NORMALIZATION,
    "padding": LayerKind.RESHAPE,
    "pixelshuffle": LayerKind.RESHAPE,
    "pooling": LayerKind.POOLING,
    "rnn": LayerKind.RECURRENT,
    "sparse": LayerKind.EMBEDDING,
    "transformer": LayerKind.CONTAINER,
    "upsampling": LayerKind.POOLING,
}
EXCEPTIONS = {
    "AdaptiveLogSoftmaxWithLoss": LayerKind.CONTAINER,  # it holds layers of its own
    "Identity": LayerKind.RESHAPE,
    "Module": LayerKind.OTHER,
    "MultiheadAttention": LayerKind.ATTENTION,
    "RNNBase": LayerKind.OTHER,  # no forward of its own
    "RNNCellBase": LayerKind.OTHER,
}


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_module_is_described(name):
    module = build(name)
    source = SourceRef("train.py", 3)
    spec = layer_spec("net.1", module, source)
    expected = EXCEPTIONS.get(name) or KIND_OF_FILE[CLASSES[name].__module__.split(".")[-1]]
    assert (spec.path, spec.type, spec.kind, spec.source) == ("net.1", name, expected, source)
    own = dict(module.named_parameters(recurse=False))
    shaped = {n: p for n, p in own.items() if not nn.parameter.is_lazy(p)}
    assert spec.params == {n: tuple(p.shape) for n, p in shaped.items()}
    assert spec.config.get("uninitialized", False) == (len(shaped) < len(own))
    assert spec.trainable == (True if own else None)
    assert spec.activation is None or spec.activation in ACTIVATIONS
    if spec.kind in (LayerKind.OTHER, LayerKind.CONTAINER):
        assert spec.activation is None
    elif spec.kind not in (LayerKind.ACTIVATION, LayerKind.RECURRENT):
        assert spec.activation == "linear"


@pytest.mark.parametrize("name", CLASSES)
def test_a_description_survives_json_and_leaves_the_module_alone(name):
    module = build(name)
    before = {k: v for k, v in vars(module).items() if not k.startswith("_")}
    state = torch.get_rng_state()
    program = Program("torch", layers=(layer_spec("layer", module, None),))
    assert Program.from_json(program.to_json()) == program
    assert torch.equal(state, torch.get_rng_state())
    assert {k: v for k, v in vars(module).items() if not k.startswith("_")} == before


ACTIVATION_MODULES = [
    name
    for name, cls in CLASSES.items()
    if cls.__module__.endswith(".activation") and name != "MultiheadAttention"
]
UNNAMED = {"Hardshrink", "Softshrink", "Tanhshrink", "Threshold"}


@pytest.mark.parametrize("name", ACTIVATION_MODULES)
def test_facts_of_the_named_activation_hold_for_the_module(name):
    module = nn.Softmax(-1) if name == "Softmax" else build(name)
    if name in ("LogSoftmax", "Softmin"):
        module = CLASSES[name](-1)
    canonical = layer_spec("act", module, None).activation
    if name in UNNAMED:
        assert canonical is None
        return
    facts = ACTIVATIONS[canonical]
    assert_facts(facts, module.eval(), image=name == "Softmax2d")


def assert_facts(facts, function, image=False):
    """Range, death and normalization of `function`, measured on a grid."""
    grid = torch.linspace(-30, 30, 6001, dtype=torch.float32).reshape(1, -1)[:, :6000]
    if image:
        output = function(grid.reshape(1, 2, 50, 60)).detach().reshape(2, -1).T
    else:
        output = function(grid).detach()
    assert output.min() >= facts.low - 1e-3
    assert output.max() <= facts.high + 1e-3
    if facts.low > -float("inf"):
        assert output.min() <= facts.low + 0.05  # the bound is tight
    if facts.normalizes:
        assert torch.allclose(output.sum(-1), torch.ones(len(output)), atol=1e-4)
    elif not image and output.shape == grid.shape:
        negative = output[grid < -0.1]
        assert facts.dies == bool((negative == 0).all() and (output[grid > 0.1] > 0).all())


@pytest.mark.parametrize(
    ("module", "activation"),
    [
        pytest.param(nn.Hardtanh(0, 6), "relu6", id="clamp to 0..6"),
        pytest.param(nn.Hardtanh(-2, 2), None, id="clamp to other bounds"),
        pytest.param(nn.ELU(alpha=2.0), None, id="another elu"),
        pytest.param(nn.LeakyReLU(0.0), "relu", id="leak of nothing"),
        pytest.param(nn.RNN(2, 3, nonlinearity="relu"), "relu", id="relu RNN"),
        pytest.param(nn.RNN(2, 3), "tanh", id="RNN"),
        pytest.param(nn.GRU(2, 3), "tanh", id="GRU"),
        pytest.param(nn.LSTM(2, 4, proj_size=2), "linear", id="projected LSTM"),
    ],
)
def test_arguments_that_change_the_activation(module, activation):
    assert layer_spec("layer", module, None).activation == activation


@pytest.mark.parametrize(
    ("module", "config"),
    [
        pytest.param(
            nn.Linear(3, 4, bias=False),
            {"in_features": 3, "out_features": 4, "bias": False},
            id="linear",
        ),
        pytest.param(nn.Dropout(0.3), {"rate": 0.3, "p": 0.3}, id="dropout"),
        pytest.param(nn.Conv2d(1, 2, 3), {"kernel_size": [3, 3], "bias": True}, id="conv"),
        pytest.param(nn.BatchNorm1d(4), {"eps": 1e-5, "momentum": 0.1}, id="batch norm"),
        pytest.param(
            nn.LSTM(3, 4, 2, bidirectional=True),
            {"num_layers": 2, "bidirectional": True, "hidden_size": 4},
            id="lstm",
        ),
        pytest.param(nn.Embedding(9, 3, padding_idx=0), {"padding_idx": 0}, id="embedding"),
        pytest.param(nn.Softmax(dim=0), {"dim": 0}, id="softmax"),
        pytest.param(nn.GELU("tanh"), {"approximate": "tanh"}, id="gelu"),
        pytest.param(
            nn.TransformerEncoderLayer(8, 2, activation="gelu"),
            {"activation": "gelu"},
            id="transformer layer",
        ),
    ],
)
def test_settings_are_in_the_config(module, config):
    spec = layer_spec("layer", module, None)
    assert {name: spec.config.get(name) for name in config} == config


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3), requires_grad=False)
        self.secret = "a text of the user"

    def forward(self, x):
        return x * self.scale


class Rectified(nn.Linear):
    def forward(self, x):
        return super().forward(x).relu()


class Renamed(nn.Linear):
    """Only another name."""


class Holder(nn.Sequential):
    def forward(self, x):
        return super().forward(x) + x


@pytest.mark.parametrize(
    ("module", "kind", "activation"),
    [
        pytest.param(Plain(), LayerKind.OTHER, None, id="own module"),
        pytest.param(Rectified(2, 3), LayerKind.OTHER, None, id="own forward of a torch class"),
        pytest.param(Renamed(2, 3), LayerKind.DENSE, "linear", id="subclass"),
        pytest.param(Holder(nn.Linear(2, 2)), LayerKind.CONTAINER, None, id="own sequential"),
    ],
)
def test_modules_of_the_user(module, kind, activation):
    spec = layer_spec("layer", module, None)
    assert (spec.type, spec.kind, spec.activation) == (type(module).__name__, kind, activation)


def test_a_module_of_the_user_keeps_its_settings_to_itself():
    spec = layer_spec("layer", Plain(), None)
    assert (dict(spec.config), spec.params, spec.trainable) == ({}, {"scale": (3,)}, False)


def test_a_parametrized_layer_is_not_computed():
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4))
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    spec = layer_spec("layer", layer, None)
    assert (spec.type, spec.kind, spec.activation) == ("Linear", LayerKind.DENSE, "linear")
    assert spec.params == {"bias": (4,), "parametrizations.weight.original": (4, 3)}
    assert spec.config["bias"] is True
    after = layer.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_lazy_layer_is_described_before_and_after_its_first_batch():
    layer = nn.LazyLinear(4)
    assert layer_spec("layer", layer, None).params == {}
    layer(torch.ones(1, 3))
    spec = layer_spec("layer", layer, None)
    assert (spec.type, spec.params) == ("Linear", {"weight": (4, 3), "bias": (4,)})
    assert "uninitialized" not in spec.config


def test_a_quantized_layer_is_described():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces that this package will move
        from torch.ao.nn import quantized

        layer = quantized.Linear(3, 4)
    spec = layer_spec("layer", layer, None)
    assert (spec.type, spec.kind, spec.activation) == ("Linear", LayerKind.DENSE, "linear")
