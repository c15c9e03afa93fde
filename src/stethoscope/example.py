"""Minimal programs: each rule shows one that it accuses and one that it leaves alone.

An `Example` is declarative, so the tests, the documentation and any engine can run it.
"""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Example:
    """A feed-forward program with a seeded data recipe.

    Attributes:
        hidden: Units of the hidden layers.
        activation: Of the hidden layers.
        outputs: Units of the last layer.
        output_activation: Of the last layer.
        loss: A name of `vocabulary.LOSSES`.
        from_logits: Whether the loss takes logits.
        optimizer: "sgd" or "adam".
        learning_rate: Of the optimizer.
        data: "classes": 3 Gaussian classes in 8 features; "binary": 2 classes, target 0 or 1;
            "labels": 3 independent labels, target rows of 0 and 1; "real": a smooth function of
            8 features with mean 0 and variance 1.
        one_hot: Give classes as one-hot rows.
        input_scale, input_offset: Applied to the inputs after they are made.
        target_scale, target_offset: Applied to the targets after they are made.
        nan_input_at: Step whose batch holds a NaN in one row; None for none.
        inf_target_at: The same for an infinite target.
        weight_scale: Factor on the initial kernels; 0 makes them all equal.
        bias: Initial value of the hidden biases.
        dropout: Rate after each hidden layer.
        batch_norm: Normalize after each hidden layer.
        flat_prediction: Drop the prediction's last axis and keep the target's.
        softmax_axis: Axis of an output softmax.
        frozen_rate_from: Step from which the learning rate is 0; None for never.
        batch: Samples in a batch.
        steps: Optimizer steps.
        seed: Of weights and data.
    """

    hidden: tuple[int, ...] = (16, 16)
    activation: str = "relu"
    outputs: int = 3
    output_activation: str = "linear"
    loss: str = "sparse_categorical_crossentropy"
    from_logits: bool = True
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.1
    data: Literal["classes", "binary", "labels", "real"] = "classes"
    one_hot: bool = False
    input_scale: float = 1.0
    input_offset: float = 0.0
    target_scale: float = 1.0
    target_offset: float = 0.0
    nan_input_at: int | None = None
    inf_target_at: int | None = None
    weight_scale: float = 1.0
    bias: float = 0.0
    dropout: float = 0.0
    batch_norm: bool = False
    flat_prediction: bool = False
    softmax_axis: int = -1
    frozen_rate_from: int | None = None
    batch: int = 32
    steps: int = 120
    seed: int = 0


CLASSIFIER = Example()
BINARY = Example(data="binary", outputs=1, loss="binary_crossentropy", learning_rate=0.3)
REGRESSOR = Example(data="real", outputs=1, loss="mse", from_logits=False, learning_rate=0.05)
DIVERGING = Example(
    data="real",
    outputs=1,
    loss="mse",
    from_logits=False,
    learning_rate=1.5,
    hidden=(64, 64),
    activation="leaky_relu",
)
