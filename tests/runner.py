"""Runs an `Example` as a small PyTorch program under `stethoscope.watch`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

import stethoscope
from stethoscope.example import Example
from stethoscope.types import Report

ACTIVATIONS = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "linear": None,
}


def run(example: Example, names: Sequence[str] = (), **settings: object) -> Report:
    """Trains the example and returns the report on it.

    Args:
        example: What to train.
        names: What the layers are called, instead of "0", "1", ...
        settings: Of `stethoscope.watch`.
    """
    torch.manual_seed(example.seed)
    inputs, targets = data(example)
    model = network(example, inputs.shape[1])
    if names:
        model = nn.Sequential(OrderedDict(zip(names, model, strict=False)))
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    optimizer = kinds[example.optimizer](model.parameters(), lr=example.learning_rate)
    order = np.random.default_rng(example.seed)
    with stethoscope.watch(model, optimizer, quiet=True, **settings) as scope:
        for step in range(example.steps):
            rows = torch.from_numpy(order.permutation(len(inputs))[: example.batch])
            x, y = inputs[rows].clone(), targets[rows].clone()
            if step == example.nan_input_at:
                x[3, 0] = float("nan")
            if step == example.inf_target_at:
                y[3] = float("inf")
            if example.frozen_rate_from is not None and step >= example.frozen_rate_from:
                for group in optimizer.param_groups:
                    group["lr"] = 0.0
            optimizer.zero_grad()
            prediction = model(x)
            loss(example, prediction, y).backward()
            optimizer.step()
    return scope.report


def data(example: Example) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs [512, 8] and targets of the example's recipe."""
    rng = np.random.default_rng(example.seed)
    if example.data == "real":
        x = rng.normal(size=(512, 8))
        y = np.sin(x[:, :1]) + 0.5 * x[:, 1:2] * x[:, 2:3]
        y = (y - y.mean()) / y.std()
    elif example.data == "labels":
        x = rng.normal(size=(512, 8))
        y = (x[:, :3] > 0).astype(float)
    else:
        classes = 3 if example.data == "classes" else 2
        ids = rng.integers(0, classes, 512)
        x = rng.normal(size=(512, 8)) + 1.5 * rng.normal(size=(classes, 8))[ids]
        y = np.eye(classes)[ids] if example.one_hot else ids
        if example.data == "binary":
            y = ids[:, None]
    x = x * example.input_scale + example.input_offset
    y = y * example.target_scale + example.target_offset
    kind = torch.float32
    if example.loss == "sparse_categorical_crossentropy":
        kind = torch.int64
    elif example.data == "classes" and not example.one_hot:
        y = y[:, None].astype(float)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=kind)


def network(example: Example, features: int) -> nn.Sequential:
    """The layers, with their activations as modules."""
    layers: list[nn.Module] = []
    for units in example.hidden:
        layers.append(nn.Linear(features, units))
        if example.batch_norm:
            layers.append(nn.BatchNorm1d(units))
        if (kind := ACTIVATIONS[example.activation]) is not None:
            layers.append(kind())
        if example.dropout:
            layers.append(nn.Dropout(example.dropout))
        features = units
    hidden = [layer for layer in layers if isinstance(layer, nn.Linear)]
    layers.append(nn.Linear(features, example.outputs))
    if example.output_activation == "softmax":
        layers.append(nn.Softmax(dim=example.softmax_axis))
    elif (kind := ACTIVATIONS[example.output_activation]) is not None:
        layers.append(kind())
    with torch.no_grad():
        for layer in hidden:
            layer.weight.mul_(example.weight_scale)
            if example.weight_scale == 0:
                layer.weight.fill_(0.1)
            if example.bias:
                layer.bias.fill_(example.bias)
    return nn.Sequential(*layers)


def loss(example: Example, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The loss as a user of PyTorch would write it."""
    functional = nn.functional
    if example.flat_prediction:
        prediction = prediction.squeeze(-1)
    if example.loss == "mse":
        return ((prediction - target) ** 2).mean()
    if example.loss == "binary_crossentropy":
        target = target.expand_as(prediction)
        if example.from_logits:
            return functional.binary_cross_entropy_with_logits(prediction, target)
        return functional.binary_cross_entropy(prediction, target)
    if example.from_logits:
        return functional.cross_entropy(prediction, target)
    logs = torch.log(prediction.clamp_min(1e-7))
    if example.loss == "categorical_crossentropy":
        return -(target * logs).sum(dim=1).mean()
    return functional.nll_loss(logs, target)
