"""PyTorch programs that train in PyTorch and, translated or written anew, in the engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from stethoscope import engine
from stethoscope.engine import metrics, optimizers
from stethoscope.engine.translate import translate
from stethoscope.torch import install
from stethoscope.types import Stage
from tests.engine.oracle import SHARED, STEPS, Declared, differences, recorded, session, trained

BATCH = 6

RNG = np.random.default_rng(0)
X = RNG.normal(size=(STEPS, BATCH, 5)).astype("float32")
IMAGES = RNG.normal(size=(STEPS, BATCH, 2, 7, 6)).astype("float32")
SERIES = RNG.normal(size=(STEPS, BATCH, 4, 3)).astype("float32")
TOKENS = RNG.integers(0, 9, size=(STEPS, BATCH, 5))
IDS = RNG.integers(0, 3, size=(STEPS, BATCH))
REAL = X[..., :1] * 2 + X[..., 1:2] ** 2
BITS = (X[..., :2] > 0).astype("float32")


@dataclasses.dataclass
class Twins:
    """One program on both sides.

    Attributes:
        model, loss, optimizer: Of PyTorch.
        x, y: [steps, batch, ...].
        metric: What the engine is to measure of the last output.
        reference: The engine's; None translates.
        names: (layer, param) of PyTorch to those of the engine, where the parts differ in more
            than the usual parameter names.
        declared: What differs by definition.
    """

    model: nn.Module
    loss: Callable[..., torch.Tensor]
    optimizer: torch.optim.Optimizer
    x: np.ndarray
    y: np.ndarray
    metric: Any
    reference: engine.Model | engine.Sequential | None = None
    names: Mapping[tuple[str, str], tuple[str, str]] = dataclasses.field(default_factory=dict)
    declared: Sequence[Declared] = ()


def r2(target, prediction):
    """Missed and total squares, of which `1 - missed / total` is made."""
    target, prediction = target.astype("float64"), prediction.astype("float64")
    spread = ((target - target.mean(axis=0)) ** 2).sum()
    return ((target - prediction) ** 2).sum(), spread


R2 = metrics.Metric("r2", r2, lambda missed, spread: 1 - missed / spread)
ACCURACY = metrics.get("accuracy")
BIT_ACCURACY = metrics.mean(
    lambda target, prediction: metrics.binary_accuracy(target, prediction, 0.0), "accuracy"
)


def activations():
    model = nn.Sequential(
        *(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6)),
        *(nn.LeakyReLU(0.1), nn.Linear(6, 6), nn.Sigmoid(), nn.Linear(6, 3)),
    )
    with torch.no_grad():
        model[0].weight *= 2.5  # so that some are saturated
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    return Twins(model, nn.CrossEntropyLoss(), optimizer, X, IDS, ACCURACY)


def smooth_activations():
    inner = [
        nn.GELU(),
        nn.GELU("tanh"),
        nn.SiLU(),
        nn.ELU(),
        nn.SELU(),
        nn.Softplus(),
        nn.Softsign(),
    ]
    linear = [nn.Linear(5, 6), *(nn.Linear(6, 6) for _ in inner)]
    layers = [one for pair in zip(linear, inner, strict=False) for one in pair]
    model = nn.Sequential(*layers, nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, nesterov=True)
    return Twins(model, nn.HuberLoss(delta=0.7), optimizer, X, REAL, R2)


def layer_norm():
    model = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.ReLU6(), nn.Linear(6, 2))
    optimizer = torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0.1)
    return Twins(model, nn.BCEWithLogitsLoss(), optimizer, X, BITS, BIT_ACCURACY)


def embedding():
    model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(20, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return Twins(model, nn.MSELoss(), optimizer, TOKENS, REAL, R2)


def convolutions():
    model = nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 3, 2, padding=1, bias=False), nn.BatchNorm2d(3), nn.Tanh()),
        *(nn.AvgPool2d((2, 1)), nn.Flatten(), nn.Linear(24, 3)),
    )
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    return Twins(model, nn.CrossEntropyLoss(), optimizer, IMAGES, IDS, ACCURACY)


def recurrent():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(3, 4, bias=False, batch_first=True)
            self.rnn = nn.RNN(4, 3, bias=False, batch_first=True)
            self.end = nn.Linear(12, 1)

        def forward(self, x):
            return self.end(self.rnn(self.lstm(x)[0])[0].flatten(1))

    model = Net()
    x = engine.Input((4, 3))
    series = engine.LSTM(4, return_sequences=True, use_bias=False, name="lstm")(x)
    series = engine.SimpleRNN(3, return_sequences=True, use_bias=False, name="rnn")(series)
    end = engine.Dense(1, name="end")(engine.Flatten(name="flatten")(series))
    names, weights = {}, {}
    for layer in ("lstm", "rnn"):
        for own, name in (("ih", "kernel"), ("hh", "recurrent_kernel")):
            parameter = f"weight_{own}_l0"
            weights[f"{layer}/{name}"] = getattr(getattr(model, layer), parameter).detach().T
            names[layer, parameter] = (layer, name)
    weights["end/kernel"], weights["end/bias"] = model.end.weight.detach().T, model.end.bias
    twins = _by_hand(model, engine.Model(x, end), weights, nn.MSELoss(), SERIES, REAL, R2)
    twins.names, twins.declared = names, _only_engine("flatten", CALLED)
    return twins


def functions():
    """Activations that are called, a layer that is applied twice, branches that meet."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.shared, self.end = nn.Linear(5, 4), nn.Linear(4, 4), nn.Linear(8, 1)

        def forward(self, x):
            x = functional.relu(self.first(x))
            again = torch.tanh(self.shared(torch.sigmoid(self.shared(x))))
            return self.end(torch.cat([x + again, x], dim=1))

    model = Net()
    x = engine.Input((5,))
    hidden = engine.Dense(4, "relu", name="first")(x)
    shared = engine.Dense(4, name="shared")
    again = engine.Activation("sigmoid", name="sigmoid")(shared(hidden))
    again = engine.Activation("tanh", name="tanh")(shared(again))
    both = engine.Add(name="add")([hidden, again])
    end = engine.Dense(1, name="end")(engine.Concatenate(name="cat")([both, hidden]))
    weights = {
        f"{name}/{NAMES[nn.Linear][own]}": _turned(module, own)
        for name, module in model.named_children()
        for own, _ in module.named_parameters()
    }
    twins = _by_hand(model, engine.Model(x, end), weights, nn.L1Loss(), X, REAL, R2)
    twins.declared = _only_engine("shared#2", SHARED)
    return twins


CALLED = "a call that moves values is no layer of its own"


def _only_engine(layer: str, reason: str) -> list[Declared]:
    stages = (Stage.OUTPUT, Stage.OUTPUT_GRAD)
    return [Declared(reason, "engine", stage, layer) for stage in stages]


NAMES = {
    nn.Linear: {"weight": "kernel", "bias": "bias"},
    nn.Conv2d: {"weight": "kernel", "bias": "bias"},
    nn.LayerNorm: {"weight": "gamma", "bias": "beta"},
    nn.BatchNorm2d: {"weight": "gamma", "bias": "beta"},
    nn.Embedding: {"weight": "embeddings"},
}
"""Kind of module -> the engine's names of its parameters."""
LOSSES = {nn.MSELoss: "mse", nn.L1Loss: "mae"}


def _turned(module: nn.Module, name: str) -> torch.Tensor:
    """A parameter with its axes in the engine's order."""
    value = getattr(module, name).detach()
    return value.T if value.ndim == 2 else value


def _by_hand(model, reference, weights, loss, x, y, metric) -> Twins:
    assert weights.keys() == set(reference.network.trained)
    for name, value in weights.items():
        assert reference.network.weights[name].shape == tuple(value.shape), name
        reference.network.weights[name] = np.ascontiguousarray(value.detach().numpy().copy())
    reference.compile(optimizers.SGD(0.05, 0.9), LOSSES[type(loss)])
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    return Twins(model, loss, optimizer, x, y, metric, reference)


PROGRAMS: dict[str, Callable[[], Twins]] = {
    made.__name__: made
    for made in (
        activations,
        smooth_activations,
        layer_norm,
        embedding,
        convolutions,
        recurrent,
        functions,
    )
}
SCALED = Declared(
    "PyTorch's adapter tells apart the loss and what `backward` is called on; the engine has one",
    "adapter",
    Stage.LOSS,
    param="backward",
)


def compare(name: str, folder: Path) -> list[str]:
    """In what the trace of PyTorch and that of the engine differ; empty: in nothing."""
    torch.manual_seed(0)
    twins = PROGRAMS[name]()
    model, loss, optimizer = twins.model, twins.loss, twins.optimizer
    found = twins.reference or translate(
        model, loss=loss, optimizer=optimizer, input_shape=twins.x.shape[2:]
    )
    found.metrics = {twins.metric.name: twins.metric}
    names = {
        (path, own): (path, NAMES[type(module)][own])
        for path, module in model.named_modules()
        for own, _ in module.named_parameters(recurse=False)
        if type(module) in NAMES
    }
    with session(folder / "torch") as watched:
        remove = install(watched)
        for x, y in zip(twins.x, twins.y, strict=True):
            optimizer.zero_grad()
            loss(model(torch.from_numpy(x)), torch.from_numpy(y)).backward()
            optimizer.step()
        remove()
    reference = trained(found, list(zip(twins.x, twins.y, strict=True)), folder / "engine")
    declared = [SCALED, *twins.declared]
    adapter = recorded(folder / "torch")
    return differences(adapter, reference, {**names, **twins.names}, declared)
