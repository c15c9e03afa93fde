"""Minimal programs: each rule shows one that it accuses and one that it leaves alone.

An `Example` is declarative, so the tests, the documentation and any engine can run it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal


@dataclasses.dataclass(frozen=True)
class Example:
    """A feed-forward program with a seeded data recipe.

    Attributes:
        hidden: Units of the hidden layers.
        activation: Of the hidden layers.
        outputs: Units of the last layer.
        output_activation: Of the last layer.
        loss: A name of `vocabulary.LOSSES`; "broadcast_squares" or "root_of_squares" is one that
            was written by hand.
        from_logits: Whether the loss takes logits.
        optimizer: "sgd" or "adam".
        learning_rate: Of the optimizer.
        data: "classes": 3 Gaussian classes in 8 features; "binary": 2 classes, target 0 or 1;
            "parity": whether the product of the first 3 features is positive, target 0 or 1;
            "labels": 3 independent labels, target rows of 0 and 1; "real": a smooth function of
            8 features with mean 0 and variance 1.
        one_hot: Give classes as one-hot rows.
        input_scale, input_offset: Applied to the inputs after they are made.
        target_scale, target_offset: Applied to the targets after they are made.
        nan_input_at: Row of the data that holds a NaN; None for none.
        inf_target_at: The same for an infinite target.
        positions: Length of the sequences that a first recurrent layer reads, the same features
            at each position; 0 for rows of features and no such layer.
        recurrent_gain: Factor by which the initial recurrent kernel lengthens a state.
        weight_scale: Factor on the initial hidden kernels; 0 makes them all equal.
        bias: Initial value of the hidden biases.
        dropout: Rate after each hidden layer.
        batch_norm: Normalize after each hidden layer.
        flat_prediction: Drop the prediction's last axis and keep the target's.
        epsilon: What a root in the loss adds to its argument.
        softmax_axis: Axis of an output softmax.
        dtype: Of inputs and weights.
        batch: Samples in a batch.
        steps: Optimizer steps; whole epochs are trained until there are as many.
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
    data: Literal["classes", "binary", "parity", "labels", "real"] = "classes"
    one_hot: bool = False
    input_scale: float = 1.0
    input_offset: float = 0.0
    target_scale: float = 1.0
    target_offset: float = 0.0
    nan_input_at: int | None = None
    inf_target_at: int | None = None
    positions: int = 0
    recurrent_gain: float = 1.0
    weight_scale: float = 1.0
    bias: float = 0.0
    dropout: float = 0.0
    batch_norm: bool = False
    flat_prediction: bool = False
    epsilon: float = 0.0
    softmax_axis: int = -1
    dtype: Literal["float32", "float16"] = "float32"
    batch: int = 32
    steps: int = 120
    seed: int = 0

    def but(self, **changes: Any) -> Example:
        """The same program with some fields changed.

        >>> BINARY.but(learning_rate=0.0).data
        'binary'
        """
        return dataclasses.replace(self, **changes)


CLASSIFIER = Example()
BINARY = Example(data="binary", outputs=1, loss="binary_crossentropy")
REGRESSOR = Example(data="real", outputs=1, loss="mse", from_logits=False, learning_rate=0.05)
DIVERGING = REGRESSOR.but(learning_rate=1.5, hidden=(64, 64), activation="leaky_relu")
ONE_HOT = Example(
    one_hot=True,
    loss="categorical_crossentropy",
    from_logits=False,
    output_activation="softmax",
)
