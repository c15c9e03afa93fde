"""The field's terms: activations, losses and layer kinds, under the names every adapter uses.

An adapter maps its framework's classes and functions to these names; rules and faults read
these tables only. What is not in a table is recorded as `None` (unknown), never guessed.
"""

from __future__ import annotations

import dataclasses
import enum
import math


class LayerKind(enum.StrEnum):
    """What a layer does to its input, as far as a rule needs to know."""

    DENSE = "dense"
    CONV = "conv"
    RECURRENT = "recurrent"
    EMBEDDING = "embedding"
    ATTENTION = "attention"
    NORMALIZATION = "normalization"
    DROPOUT = "dropout"
    POOLING = "pooling"
    RESHAPE = "reshape"
    RESCALE = "rescale"
    ACTIVATION = "activation"
    MERGE = "merge"
    CONTAINER = "container"
    OTHER = "other"


PASS_THROUGH = frozenset({LayerKind.DROPOUT, LayerKind.RESHAPE, LayerKind.POOLING})
"""Kinds that hand on the values they get: the activation around them is unchanged."""

AFFINE = frozenset({LayerKind.DENSE, LayerKind.CONV})
"""Kinds that are a linear map with weights: two in a row without an activation are one."""


@dataclasses.dataclass(frozen=True)
class Activation:
    """Facts of an activation function.

    Attributes:
        low, high: Closure of the range of its output.
        saturation: Pre-activations outside this interval have less than 2 % of the largest
            derivative; infinite where a side never saturates.
        dies: True where the output and the derivative are exactly 0 for all negative inputs.
        normalizes: True where the outputs of a sample sum to 1 (softmax).
        is_log: True where the output is a log-probability.
    """

    low: float = -math.inf
    high: float = math.inf
    saturation: tuple[float, float] = (-math.inf, math.inf)
    dies: bool = False
    normalizes: bool = False
    is_log: bool = False


# sigmoid'(x)/sigmoid'(0) = 0.02 at |x| = 5.29; tanh'(x) = 0.02 at |x| = 2.65.
ACTIVATIONS: dict[str, Activation] = {
    "linear": Activation(),
    "relu": Activation(low=0.0, dies=True),
    "relu6": Activation(low=0.0, high=6.0, dies=True),
    "leaky_relu": Activation(),
    "prelu": Activation(),
    "elu": Activation(low=-1.0),
    "selu": Activation(low=-1.7581),
    "celu": Activation(),
    "gelu": Activation(low=-0.17),
    "silu": Activation(low=-0.2785),
    "mish": Activation(low=-0.3089),
    "softplus": Activation(low=0.0),
    "softsign": Activation(low=-1.0, high=1.0, saturation=(-6.07, 6.07)),
    "sigmoid": Activation(low=0.0, high=1.0, saturation=(-5.29, 5.29)),
    "hard_sigmoid": Activation(low=0.0, high=1.0, saturation=(-3.0, 3.0)),
    "log_sigmoid": Activation(high=0.0, is_log=True),
    "tanh": Activation(low=-1.0, high=1.0, saturation=(-2.65, 2.65)),
    "hard_tanh": Activation(low=-1.0, high=1.0, saturation=(-1.0, 1.0)),
    "exponential": Activation(low=0.0),
    "softmax": Activation(low=0.0, high=1.0, normalizes=True),
    "log_softmax": Activation(high=0.0, is_log=True),
    "hard_silu": Activation(low=-0.375),
    "glu": Activation(),
}


class Expects(enum.StrEnum):
    """What a loss takes as the prediction."""

    PROBABILITIES = "probabilities"
    LOG_PROBABILITIES = "log_probabilities"
    LOGITS = "logits"
    VALUES = "values"


class TargetKind(enum.StrEnum):
    """What a loss takes as the target."""

    CLASS_IDS = "class_ids"
    DISTRIBUTION = "distribution"
    BINARY = "binary"
    SIGN = "sign"
    REAL = "real"


@dataclasses.dataclass(frozen=True)
class Loss:
    """Facts of a loss function: what it expects, and which trivial predictor it is held against.

    Attributes:
        expects: What the prediction must be when the loss is used with its defaults.
        target: What the target must be.
        baseline: "entropy" (of the class prior), "binary_entropy" (per output), "variance",
            "absolute_deviation", or None where no trivial baseline is known.
    """

    expects: Expects
    target: TargetKind
    baseline: str | None = None


LOSSES: dict[str, Loss] = {
    "categorical_crossentropy": Loss(
        Expects.PROBABILITIES, TargetKind.DISTRIBUTION, baseline="entropy"
    ),
    "sparse_categorical_crossentropy": Loss(
        Expects.PROBABILITIES, TargetKind.CLASS_IDS, baseline="entropy"
    ),
    "nll": Loss(Expects.LOG_PROBABILITIES, TargetKind.CLASS_IDS, baseline="entropy"),
    "binary_crossentropy": Loss(
        Expects.PROBABILITIES, TargetKind.BINARY, baseline="binary_entropy"
    ),
    "mse": Loss(Expects.VALUES, TargetKind.REAL, baseline="variance"),
    "mae": Loss(Expects.VALUES, TargetKind.REAL, baseline="absolute_deviation"),
    "huber": Loss(Expects.VALUES, TargetKind.REAL),
    "log_cosh": Loss(Expects.VALUES, TargetKind.REAL),
    "mape": Loss(Expects.VALUES, TargetKind.REAL),
    "msle": Loss(Expects.VALUES, TargetKind.REAL),
    "poisson": Loss(Expects.VALUES, TargetKind.REAL),
    "gaussian_nll": Loss(Expects.VALUES, TargetKind.REAL),
    "kl_divergence": Loss(Expects.PROBABILITIES, TargetKind.DISTRIBUTION),
    "hinge": Loss(Expects.VALUES, TargetKind.SIGN),
    "squared_hinge": Loss(Expects.VALUES, TargetKind.SIGN),
    "categorical_hinge": Loss(Expects.VALUES, TargetKind.DISTRIBUTION),
    "cosine_similarity": Loss(Expects.VALUES, TargetKind.REAL),
    "focal_binary_crossentropy": Loss(Expects.PROBABILITIES, TargetKind.BINARY),
    "focal_categorical_crossentropy": Loss(Expects.PROBABILITIES, TargetKind.DISTRIBUTION),
    "ctc": Loss(Expects.VALUES, TargetKind.CLASS_IDS),
}
"""Torch's `CrossEntropyLoss` is "sparse_categorical_crossentropy" or "categorical_crossentropy"
(by the target's shape) with `LossSpec.expects` = logits; `BCEWithLogitsLoss` is
"binary_crossentropy" with logits; Keras's `from_logits=True` likewise."""
