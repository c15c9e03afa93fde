"""Keras programs that train in Keras and, translated, in the engine, both watched.

    KERAS_BACKEND=torch python -m tests.engine.oracle_keras FOLDER

prints, as JSON, for each program in what the two traces differ, which it leaves in FOLDER.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")
# Compiling is most of what this costs.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import keras
import numpy as np
from keras import layers as kl

from stethoscope.engine.translate import translate
from stethoscope.keras import install
from stethoscope.types import Stage
from tests.engine.oracle import SHARED, STEPS, Declared, differences, recorded, session, trained

BACKEND = keras.backend.backend()
BATCH = 6
ROWS = 5 * BATCH  # four epochs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 5)).astype("float32")
IMAGES = RNG.normal(size=(ROWS, 7, 6, 2)).astype("float32")
SERIES = RNG.normal(size=(ROWS, 4, 3)).astype("float32")
TOKENS = RNG.integers(0, 9, size=(ROWS, 5))
IDS = RNG.integers(0, 3, size=ROWS)
ONE_HOT = np.eye(3, dtype="float32")[IDS]
SIGNS = (X[:, :1] > 0).astype("float32")
WEIGHTS = RNG.uniform(0.2, 2, size=ROWS).astype("float32")
REAL = X[:, :1] * 2 + X[:, 1:2] ** 2

Program = tuple[Any, ...]
"""A compiled model, its inputs, its targets, and weights of the samples where there are some."""


def row(*layers, x, y, optimizer="adam", loss="mse", **compiled) -> Program:
    model = keras.Sequential([keras.Input(x.shape[1:]), *layers])
    model.compile(optimizer, loss, **compiled)
    return model, x, y


def inline_activations():
    first = kl.Dense(8, "relu"), kl.Dense(6, kl.LeakyReLU(0.1)), kl.Dense(6, "tanh")
    last = kl.Dense(1, "sigmoid")
    loss = "binary_crossentropy"
    return row(*first, last, x=X, y=SIGNS, loss=loss, metrics=["accuracy"])


def activation_layers():
    return row(
        *(kl.Dense(6), kl.Activation("tanh"), kl.Dense(6), kl.ReLU(), kl.Dense(6)),
        *(kl.LeakyReLU(0.2), kl.Dense(6), kl.PReLU(), kl.Dense(6), kl.ELU()),
        *(kl.Dense(3, activation=None), kl.Activation("linear"), kl.Softmax()),
        x=X,
        y=ONE_HOT,
        optimizer=keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
        loss="categorical_crossentropy",
        metrics=["accuracy"],
    )


def smooth_activations():
    inner = [
        *(kl.Dense(4, name) for name in ("silu", "gelu", "selu", "softplus", "softsign")),
        *(kl.Dense(4, name) for name in ("hard_sigmoid", "mish", "log_softmax", "exponential")),
    ]
    return row(*inner, kl.Dense(1), x=X, y=REAL, optimizer="rmsprop", metrics=["mae"])


def convolutions():
    return row(
        kl.Conv2D(4, 3, padding="same", activation="relu"),
        kl.MaxPooling2D(),
        kl.Conv2D(3, 2, strides=2, use_bias=False),
        kl.Activation("relu"),
        kl.ZeroPadding2D(),
        kl.AveragePooling2D(2),
        kl.Flatten(),
        kl.Dense(3, "softmax"),
        x=IMAGES,
        y=IDS,
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )


def other_convolutions():
    return row(
        kl.Conv2DTranspose(3, 2, strides=2, activation="elu"),
        kl.DepthwiseConv2D(3, depth_multiplier=2),
        kl.GroupNormalization(2),
        kl.Activation("sigmoid"),
        kl.UpSampling2D((2, 1)),
        kl.GlobalMaxPooling2D(),
        kl.Dense(3),
        x=IMAGES,
        y=ONE_HOT,
        optimizer=keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.7)),
        loss=keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1),
        metrics=["accuracy"],
    )


def batch_norm():
    # without biases: before a normalization their gradient is rounding and nothing else
    return row(
        kl.Conv2D(4, 3, use_bias=False),
        kl.BatchNormalization(),
        kl.Activation("relu"),
        kl.Flatten(),
        kl.Dense(6, use_bias=False),
        kl.BatchNormalization(momentum=0.8, scale=False),
        kl.Dense(3, "softmax"),
        x=IMAGES,
        y=ONE_HOT,
        optimizer=keras.optimizers.SGD(0.05),
        loss="categorical_crossentropy",
    )


def layer_norm():
    return row(
        *(kl.Dense(6), kl.LayerNormalization(), kl.Activation("gelu")),
        *(kl.Dense(6, "relu"), kl.LayerNormalization(center=False), kl.Dense(1)),
        x=X,
        y=REAL,
        optimizer=keras.optimizers.AdamW(0.01),
        loss="huber",
    )


def lstm():
    return row(
        kl.LSTM(4, return_sequences=True),
        kl.LSTM(3),
        kl.Dense(3, "softmax"),
        x=SERIES,
        y=IDS,
        loss="sparse_categorical_crossentropy",
    )


def gru():
    return row(
        kl.GRU(4, return_sequences=True),
        kl.Bidirectional(kl.SimpleRNN(3, return_sequences=True)),
        kl.GRU(3, reset_after=False, go_backwards=True),
        kl.Dense(1),
        x=SERIES,
        y=REAL,
        loss="log_cosh",
    )


def embedding():
    return row(
        kl.Embedding(9, 4),
        kl.Conv1D(4, 2, padding="causal", activation="relu"),
        kl.GlobalAveragePooling1D(),
        kl.Dense(1, "sigmoid"),
        x=TOKENS,
        y=SIGNS[:, 0],
        loss="binary_crossentropy",
        metrics=["binary_accuracy"],
    )


def merges():
    inputs = keras.Input((5,))
    shared = kl.Dense(4, "relu")
    first = kl.Dense(4, "tanh")(inputs)
    second = shared(kl.Dense(5)(inputs))
    both = kl.Concatenate()([kl.Add()([first, second]), kl.Multiply()([first, second])])
    again = kl.Average()([shared(inputs), kl.Maximum()([first, second])])
    hidden = kl.Dense(4)(both) + again
    model = keras.Model(inputs, kl.Dense(1)(kl.Subtract()([hidden, first])))
    model.compile("adam", "mae")
    return model, X, REAL


def two_inputs():
    """One of them goes through a model of its own."""
    first, last = kl.Dense(4, "relu", name="one"), kl.Dense(3, name="two")
    inner = keras.Sequential([keras.Input((5,)), first, last], name="inner")
    left, right = keras.Input((5,), name="left"), keras.Input((4, 3), name="right")
    both = kl.Concatenate()([inner(left), kl.Flatten()(right)])
    model = keras.Model([left, right], kl.Dense(3, name="one")(both))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("nadam", loss, metrics=["accuracy"])
    return model, [X, SERIES], IDS


def two_outputs():
    inputs = keras.Input((5,))
    hidden = kl.Dense(6, "relu")(inputs)
    ends = [kl.Dense(1, name="value")(hidden), kl.Dense(3, "softmax", name="kind")(hidden)]
    model = keras.Model(inputs, ends)
    model.compile("adam", ["mse", "categorical_crossentropy"], loss_weights=[0.5, 2.0])
    return model, X, [REAL, ONE_HOT]


def other_losses():
    inputs = keras.Input((5,))
    hidden = kl.Dense(6, "hard_tanh")(inputs)
    ends = [
        kl.Dense(1, name="sign")(hidden),
        kl.Dense(3, "softmax", name="share")(hidden),
        kl.Dense(1, "softplus", name="count")(hidden),
        kl.Dense(3, name="direction")(hidden),
    ]
    model = keras.Model(inputs, ends)
    losses = ["squared_hinge", "kl_divergence", "poisson", "cosine_similarity"]
    model.compile(keras.optimizers.Adam(0.02, global_clipnorm=0.5), losses)
    return model, X, [2 * SIGNS - 1, ONE_HOT * 0.7 + 0.1, SIGNS * 3, X[:, :3]]


def regularizer():
    """With weights of the samples."""
    model, x, y = row(
        kl.Dense(6, "relu", kernel_regularizer=keras.regularizers.L1L2(0.01, 0.02)),
        kl.Dense(1, bias_regularizer="l2", kernel_regularizer="l1"),
        x=X,
        y=REAL,
        optimizer=keras.optimizers.Adagrad(0.05),
        metrics=["mae"],
    )
    return model, x, y, WEIGHTS


def dead_and_saturated():
    low, wide = keras.initializers.Constant(-1.5), keras.initializers.RandomNormal(0, 2.0)
    return row(
        kl.Dense(8, "relu", bias_initializer=low),
        kl.Dense(6, "sigmoid", kernel_initializer=wide),
        kl.Dense(6, kernel_initializer=wide),
        kl.Activation("tanh"),
        kl.Dense(1, trainable=False),
        x=X,
        y=REAL,
        optimizer="sgd",
    )


PROGRAMS: dict[str, Callable[[], Program]] = {
    made.__name__: made
    for made in (
        inline_activations,
        activation_layers,
        smooth_activations,
        convolutions,
        other_convolutions,
        batch_norm,
        layer_norm,
        lstm,
        gru,
        embedding,
        merges,
        two_inputs,
        two_outputs,
        other_losses,
        regularizer,
        dead_and_saturated,
    )
}
CELL = "{0}_simple_rnn/simple_rnn_cell/{1}"
NAMES: dict[str, dict[tuple[str, str], tuple[str, str]]] = {
    "gru": {
        ("bidirectional", CELL.format(way, name)): ("bidirectional", f"{way}_{name}")
        for way in ("forward", "backward")
        for name in ("kernel", "recurrent_kernel", "bias")
    },
    # Keras names the loss of an output by its layer, the engine numbers it.
    "two_outputs": {("", "value"): ("", "0"), ("", "kind"): ("", "1")},
    "other_losses": {
        ("", name): ("", str(i)) for i, name in enumerate(("sign", "share", "count", "direction"))
    },
}
DECLARED: dict[str, list[Declared]] = {
    "merges": [
        Declared(SHARED, "engine", stage, "dense#2")
        for stage in (Stage.PRE_ACTIVATION, Stage.OUTPUT, Stage.OUTPUT_GRAD)
    ],
}
if BACKEND == "torch":
    reason = "torch carries no gradient to what depends on no weight"
    DECLARED["two_inputs"] = [Declared(reason, "engine", Stage.OUTPUT_GRAD, "flatten")]


def compare(name: str, folder: Path) -> list[str]:
    """In what the trace of Keras and that of the engine differ; empty: in nothing."""
    keras.utils.set_random_seed(0)
    keras.backend.clear_session(free_memory=False)
    model, *data = PROGRAMS[name]()
    found = translate(model)
    parts = [slice(i, i + BATCH) for i in range(0, ROWS, BATCH)] * (STEPS * BATCH // ROWS)
    with session(folder / name / "keras") as watched:
        remove = install(watched)
        x, y, weight = [*data, None][:3]
        how = {"batch_size": BATCH, "epochs": len(parts) * BATCH // ROWS, "verbose": 0}
        model.fit(x, y, sample_weight=weight, shuffle=False, **how)
        remove()
    adapter = recorded(folder / name / "keras")
    batches = [[_part(one, rows) for one in data] for rows in parts]
    reference = trained(found, batches, folder / name / "engine")
    return differences(adapter, reference, NAMES.get(name, {}), DECLARED.get(name, ()))


def _part(data: Any, rows: slice) -> Any:
    return [one[rows] for one in data] if isinstance(data, list) else data[rows]


if __name__ == "__main__":
    print(json.dumps({name: compare(name, Path(sys.argv[1])) for name in PROGRAMS}))
