"""torch modules, translated: the same losses, weights and state on the same batches."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from stethoscope.engine.translate import TranslationError, translate
from stethoscope.engine.translate.torch_weights import weights_of
from stethoscope.types import SourceRef

pytest.importorskip("torch")

from tests.engine.against_torch import ADAM, SGD, compare, equal, ids, mlp, nn, torch

LAYERS = {
    "relu": [nn.ReLU()],
    "relu6": [nn.ReLU6()],
    "leaky-relu": [nn.LeakyReLU(0.2)],
    "leaky-relu-at-kink": [nn.ReLU(), nn.LeakyReLU(0.5)],
    "prelu": [nn.PReLU()],
    "prelu-of-units-at-kink": [nn.ReLU(), nn.PReLU(6)],
    "elu": [nn.ELU(0.5)],
    "celu": [nn.CELU(0.5)],
    "selu": [nn.SELU()],
    "silu": [nn.SiLU()],
    "mish": [nn.Mish()],
    "gelu": [nn.GELU()],
    "gelu-tanh": [nn.GELU(approximate="tanh")],
    "sigmoid": [nn.Sigmoid()],
    "log-sigmoid": [nn.LogSigmoid()],
    "hard-sigmoid": [nn.Hardsigmoid()],
    "hard-swish": [nn.Hardswish()],
    "hard-tanh": [nn.Hardtanh()],
    "hard-tanh-at-kink": [nn.ReLU(), nn.Hardtanh(0, 0.5), nn.Hardtanh(0, 0.5)],
    "hard-shrink": [nn.Hardshrink(0.2)],
    "soft-shrink": [nn.Softshrink(0.2)],
    "tanh-shrink": [nn.Tanhshrink()],
    "threshold": [nn.Threshold(0.1, -0.5)],
    "softplus": [nn.Softplus()],
    "softplus-beta": [nn.Softplus(beta=3.0)],
    "softsign": [nn.Softsign()],
    "softmax": [nn.Softmax(dim=-1)],
    "softmin": [nn.Softmin(dim=1)],
    "log-softmax": [nn.LogSoftmax(dim=1)],
    "glu": [nn.GLU(), nn.Linear(3, 6)],
    "norm": [nn.LayerNorm(6), nn.Tanh()],
    "norm-epsilon": [nn.LayerNorm(6, eps=0.1, bias=False), nn.Identity()],
    "norm-plain": [nn.LayerNorm(6, elementwise_affine=False)],
    "batch-norm": [nn.BatchNorm1d(6)],
    "batch-norm-settings": [nn.BatchNorm1d(6, eps=0.1, momentum=0.4, affine=False)],
    "group-norm": [nn.GroupNorm(2, 6)],
    "group-norm-plain": [nn.GroupNorm(2, 6, affine=False)],
    "flatten": [nn.Flatten(), nn.Linear(6, 6, bias=False), nn.Dropout(0.0), nn.AlphaDropout(0.0)],
    "unflatten": [nn.Unflatten(1, (3, 2)), nn.LayerNorm((3, 2)), nn.Flatten(1, 2)],
    "unflatten-rest": [nn.Unflatten(1, (-1, 2)), nn.Softmax(dim=1), nn.Flatten()],
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    model = mlp(*LAYERS[name])
    compare(model, nn.CrossEntropyLoss(), SGD(model.parameters(), 0.1), ids)


# name -> shape of a sample, layers before a last Linear
SPATIAL = {
    "conv": ((2, 5, 6), [nn.Conv2d(2, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]),
    "conv-all": (
        (4, 7, 6),
        [
            nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(2, 1), dilation=(1, 2), groups=2),
            nn.Flatten(),
        ],
    ),
    "conv-same": ((2, 5, 4), [nn.Conv2d(2, 3, (2, 3), padding="same", bias=False), nn.Flatten()]),
    "conv-1d": ((2, 7), [nn.Conv1d(2, 4, 3, padding=1), nn.AvgPool1d(3, 2), nn.Flatten()]),
    "conv-1d-same": ((2, 7), [nn.Conv1d(2, 4, 4, padding="same", dilation=2), nn.Flatten()]),
    "transposed": (
        (3, 3, 2),
        [
            nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1),
            nn.ConvTranspose2d(2, 2, (2, 3), dilation=(1, 2), bias=False),
            nn.Flatten(),
        ],
    ),
    "transposed-1d": ((3, 4), [nn.ConvTranspose1d(3, 2, 4, stride=3, padding=2), nn.Flatten()]),
    "batch-norm-2d": ((2, 3, 3), [nn.Conv2d(2, 4, 2), nn.BatchNorm2d(4), nn.SiLU(), nn.Flatten()]),
    "batch-norm-1d": ((2, 4), [nn.BatchNorm1d(2), nn.Flatten()]),
    "group-norm": ((4, 3, 3), [nn.GroupNorm(2, 4), nn.Flatten()]),
    "instance-norm": (
        (3, 2, 3),
        [nn.InstanceNorm2d(3, affine=True), nn.InstanceNorm2d(3), nn.Flatten()],
    ),
    "instance-norm-1d": ((3, 4), [nn.InstanceNorm1d(3, affine=True), nn.Flatten()]),
    "layer-norm": ((3, 2, 4), [nn.LayerNorm((2, 4)), nn.Flatten()]),
    "prelu": ((3, 2, 4), [nn.PReLU(3), nn.PReLU(), nn.Flatten()]),
    "softmax": ((3, 2, 4), [nn.Softmax2d(), nn.Softmax(dim=2), nn.LogSoftmax(-1), nn.Flatten()]),
    "max-pool": ((2, 7, 6), [nn.MaxPool2d(3, 2, padding=1, ceil_mode=True), nn.Flatten()]),
    "max-pool-ceil": ((2, 5), [nn.MaxPool1d(2, ceil_mode=True), nn.Flatten()]),
    "max-pool-ceil-beyond": ((2, 3), [nn.MaxPool1d(1, 3, ceil_mode=True), nn.Flatten()]),
    "max-pool-ties": ((2, 6), [nn.ReLU(), nn.MaxPool1d(3, 1), nn.Flatten()]),
    "mean-pool": ((2, 5, 4), [nn.AvgPool2d(2, 1, padding=1), nn.Flatten()]),
    "mean-pool-not-padding": (
        (2, 5, 4),
        [nn.AvgPool2d((2, 3), padding=1, count_include_pad=False), nn.Flatten()],
    ),
    "mean-pool-ceil": (
        (2, 5),
        [nn.AvgPool1d(2, ceil_mode=True, count_include_pad=False), nn.Flatten()],
    ),
    "adaptive": (
        (2, 6, 4),
        [nn.AdaptiveAvgPool2d((3, None)), nn.AdaptiveMaxPool2d((1, 2)), nn.Flatten()],
    ),
    "adaptive-one": ((2, 6, 4), [nn.Conv2d(2, 5, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(-3)]),
    "adaptive-1d": ((2, 6), [nn.AdaptiveAvgPool1d(1), nn.Flatten()]),
    "pad": ((2, 3, 3), [nn.ZeroPad2d((1, 0, 2, 3)), nn.Conv2d(2, 2, 3), nn.Flatten()]),
    "pad-1d": ((2, 3), [nn.ConstantPad1d((1, 2), 0.0), nn.ZeroPad1d(1), nn.Flatten()]),
    "upsample": ((2, 3, 2), [nn.Upsample(scale_factor=(2, 3)), nn.Flatten()]),
    "upsample-size": ((2, 3), [nn.Upsample(size=6), nn.Flatten()]),
    "upsample-2d": ((2, 3, 2), [nn.UpsamplingNearest2d(scale_factor=2), nn.Flatten()]),
    "channels-dropped": ((2, 3, 2), [nn.Dropout2d(0.0), nn.Flatten()]),
}


@pytest.mark.parametrize("name", SPATIAL)
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
def test_layers_of_lengths(name):
    shape, layers = SPATIAL[name]
    torch.manual_seed(0)
    body = nn.Sequential(*layers)
    with torch.no_grad():
        features = body.eval()(torch.zeros(2, *shape)).shape[1]
    model = nn.Sequential(body.train(), nn.Linear(features, 3))
    optimizer = SGD(model.parameters(), 0.05)
    compare(model, nn.CrossEntropyLoss(), optimizer, ids, shape=shape)


PROGRAMS = {name: ((4,), [nn.Linear(4, 6), *layers]) for name, layers in LAYERS.items()} | SPATIAL


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
def test_gradients_in_float64(name):
    shape, layers = PROGRAMS[name]
    torch.manual_seed(0)
    model = copy.deepcopy(nn.Sequential(*layers)).double().train()
    rng = np.random.default_rng(0)
    network = translate(model, input_shape=shape, dtype="float64").network
    x = rng.normal(size=(3, *shape))
    x[:, :1] = 0  # exactly on kinks
    tensor = torch.tensor(x, requires_grad=True)
    expected = model(tensor)
    cotangent = rng.normal(size=expected.shape)
    expected.backward(torch.from_numpy(cotangent))
    done = network.forward([x], training=True)
    gradients = network.backward(done, [cotangent])
    np.testing.assert_allclose(done.values[-1], expected.detach().numpy(), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(done.gradients[0], tensor.grad.numpy(), rtol=1e-7, atol=1e-10)
    moved = dict(model.named_parameters())
    for layer in network.layers:
        for short, held in weights_of(model.get_submodule(layer.name)).items():
            full = f"{layer.name}/{short}"
            if full in gradients:
                grad = held.tensor.grad
                found = held.read(gradients[full].shape, grad)
                np.testing.assert_allclose(gradients[full], found, rtol=1e-7, atol=1e-10)
    assert len(gradients) == len(moved)


KINKED = [
    *(nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(0.2), nn.PReLU(), nn.ELU(0.5), nn.CELU(0.5), nn.SELU()),
    *(nn.Hardtanh(), nn.Hardtanh(-1, 3), nn.Hardsigmoid(), nn.Hardswish(), nn.Softsign()),
    *(nn.Hardshrink(0.5), nn.Softshrink(0.5), nn.Threshold(0.5, -3)),
]


@pytest.mark.parametrize("module", KINKED, ids=str)
def test_derivatives_at_kinks(module):
    x = np.array([[-6.0, -3, -1, -0.5, -0.0, 0, 0.5, 1, 3, 6]])
    tensor = torch.tensor(x, requires_grad=True)
    model = nn.Sequential(copy.deepcopy(module).double())
    model(tensor).sum().backward()
    network = translate(model, input_shape=(10,), dtype="float64").network
    done = network.forward([x])
    network.backward(done, [np.ones_like(x)])
    np.testing.assert_allclose(done.gradients[0], tensor.grad.numpy(), rtol=1e-7)


def test_values_of_every_stage_are_in_the_order_of_torch():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    x = np.random.default_rng(0).normal(size=(3, 2, 5, 5)).astype(np.float32)
    found = translate(model, input_shape=(2, 5, 5))
    done, value = found.network.forward([x]), torch.from_numpy(x)
    for ours, module in zip(done.values[1:], model, strict=True):
        value = module(value)
        equal(ours, value.detach().numpy())
    assert [layer.unit_axis for layer in found.network.layers[:3]] == [1, 1, 1]


@pytest.mark.parametrize("affine", [True, False])
def test_normalization_that_is_left_in_evaluation_mode(affine):
    model = mlp(nn.BatchNorm1d(6, affine=affine), nn.Dropout(0.5))
    model(torch.randn(20, 4))  # statistics of their own
    model[0][1].requires_grad_(False).eval()
    model[0][2].eval()
    compare(model, nn.CrossEntropyLoss(), SGD(model.parameters(), 0.1), ids)


def test_a_module_that_is_used_twice():
    torch.manual_seed(0)
    shared, norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
    model = nn.Sequential(shared, nn.Tanh(), shared, norm, nn.Tanh(), norm, nn.Linear(4, 3))
    compare(model, nn.CrossEntropyLoss(), ADAM(model.parameters(), 0.01), ids)
    assert [n.path for n in translate(model).network.nodes][:3] == ["0", "1", "0#2"]


@pytest.mark.parametrize("padding", [None, 0, -2])
def test_embedding(padding):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 3, padding_idx=padding), nn.Flatten(), nn.Linear(6, 3))
    rng = np.random.default_rng(0)
    compare(
        model,
        nn.CrossEntropyLoss(),
        ADAM(model.parameters(), 0.01),
        lambda x: x[:, 0] % 3,
        shape=(2,),
        draw=lambda: rng.integers(0, 5, (8, 2)),
    )


def test_lines_are_handed_on():
    model = mlp(nn.Bilinear(2, 2, 2))
    line = SourceRef("train.py", 7, exact=True)
    with pytest.raises(TranslationError, match=r"'0.1' \(Bilinear, train.py:7\)"):
        translate(model, sources={id(model[0][1]): line})
    model = mlp()
    assert translate(model, sources={id(model[1]): line}).network.layers[1].source == line
