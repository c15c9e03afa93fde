"""Runs an `Example`: the minimal programs of rules and faults, in NumPy alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stethoscope.engine.layers._base import Array, Layer
from stethoscope.engine.layers.activation import Activation
from stethoscope.engine.layers.advanced_activation import Softmax
from stethoscope.engine.layers.dense import Dense
from stethoscope.engine.layers.dropout import Dropout
from stethoscope.engine.layers.normalization import BatchNormalization
from stethoscope.engine.layers.reshape import Reshape
from stethoscope.engine.losses import (
    BinaryCrossentropy,
    CategoricalCrossentropy,
    Loss,
    MeanSquaredError,
    SparseCategoricalCrossentropy,
)
from stethoscope.engine.model import Sequential
from stethoscope.engine.optimizers import SGD, Adam, Optimizer
from stethoscope.engine.watch import watch
from stethoscope.example import Example
from stethoscope.types import Report


def run(example: Example, names: Sequence[str] = (), **settings: Any) -> Report:
    """Trains the example and returns the report on it.

    Args:
        example: What to train.
        names: What the layers are called, in their order; default: by their class.
        settings: Of `stethoscope.engine.watch`.

    >>> run(Example(steps=40)).verdict
    <Verdict.HEALTHY: 'healthy'>
    """
    inputs, targets = data(example)
    layers = network(example)
    for layer, name in zip(layers, names, strict=False):
        layer.name = name
    model = Sequential(layers, input_shape=inputs.shape[1:], seed=example.seed)
    _start(model, example)
    optimizer = _optimizer(example)
    metric = "mae" if example.data == "real" else "accuracy"
    model.compile(optimizer, _loss(example), metrics=[metric])
    order = np.random.default_rng(example.seed)
    with watch(model, quiet=True, **settings) as scope:
        for step in range(example.steps):
            rows = order.permutation(len(inputs))[: example.batch]
            x, y = inputs[rows], targets[rows]
            if step == example.nan_input_at:
                x[3, 0] = np.nan
            if step == example.inf_target_at:
                y[3] = np.inf
            if example.frozen_rate_from is not None and step >= example.frozen_rate_from:
                optimizer.learning_rate = 0.0
            model.train_on_batch(x, y)
    return scope.report


def data(example: Example) -> tuple[Array, Array]:
    """Inputs [512, 8] and targets of the example's recipe."""
    rng = np.random.default_rng(example.seed)
    x = rng.normal(size=(512, 8))
    if example.data == "real":
        y = np.sin(x[:, :1]) + 0.5 * x[:, 1:2] * x[:, 2:3]
        y = (y - y.mean()) / y.std()
    elif example.data == "labels":
        y = (x[:, :3] > 0).astype(float)
    else:
        classes = 3 if example.data == "classes" else 2
        ids = rng.integers(0, classes, 512)
        x = x + 1.5 * rng.normal(size=(classes, 8))[ids]
        y = np.eye(classes)[ids] if example.one_hot else ids.astype(float)
        if y.ndim == 1 and example.loss != "sparse_categorical_crossentropy":
            y = y[:, None]
    x = x * example.input_scale + example.input_offset
    y = y * example.target_scale + example.target_offset
    kind = np.int64 if example.loss == "sparse_categorical_crossentropy" else np.float32
    return x.astype(np.float32), y.astype(kind)


def network(example: Example) -> list[Layer]:
    """The layers, with their activations as layers of their own."""
    layers: list[Layer] = []
    for units in example.hidden:
        layers.append(Dense(units))
        if example.batch_norm:
            layers.append(BatchNormalization())
        if example.activation != "linear":
            layers.append(Activation(example.activation))
        if example.dropout:
            layers.append(Dropout(example.dropout))
    layers.append(Dense(example.outputs))
    if example.output_activation == "softmax":
        layers.append(Softmax(axis=example.softmax_axis))
    elif example.output_activation != "linear":
        layers.append(Activation(example.output_activation))
    if example.flat_prediction:
        layers.append(Reshape(()))
    return layers


def _start(model: Sequential, example: Example) -> None:
    """Sets the first weights as the example has them."""
    weights = model.network.weights
    hidden = [layer for layer in model.network.layers if isinstance(layer, Dense)][:-1]
    for layer in hidden:
        kernel = weights[f"{layer.name}/kernel"]
        same = example.weight_scale == 0
        weights[f"{layer.name}/kernel"] = (
            np.full_like(kernel, 0.1) if same else kernel * np.float32(example.weight_scale)
        )
        weights[f"{layer.name}/bias"] += np.float32(example.bias)


def _optimizer(example: Example) -> Optimizer:
    if example.optimizer == "adam":
        return Adam(learning_rate=example.learning_rate)
    return SGD(learning_rate=example.learning_rate)


def _loss(example: Example) -> Loss:
    if example.loss == "mse":
        return BroadcastSquaredError()
    if example.loss == "binary_crossentropy":
        return BinaryCrossentropy(from_logits=example.from_logits)
    if example.loss == "categorical_crossentropy":
        return CategoricalCrossentropy(from_logits=example.from_logits)
    return SparseCategoricalCrossentropy(from_logits=example.from_logits)


class BroadcastSquaredError(MeanSquaredError):
    """mean((prediction - target)^2) as NumPy and PyTorch broadcast it, without Keras's care."""

    aligns = False

    def __call__(
        self, target: Array, prediction: Array, weight: Array | None = None
    ) -> tuple[float, Array]:
        """See `Loss.__call__`; (N,) against (N, 1) gives N x N differences."""
        difference = prediction - np.asarray(target, prediction.dtype)
        gradient = 2 * difference / difference.size
        while gradient.ndim > prediction.ndim:
            gradient = gradient.sum(axis=0)
        return float(np.square(difference).mean()), gradient
