"""Small Keras programs that exercise the adapter; run as a script, they are compared.

    KERAS_BACKEND=torch python tests/keras/programs.py NAME...

prints, as JSON, for each program what differs between a bare and a watched run.
"""

import json
import math
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
from keras import layers as kl

ROWS = 44  # with batches of 8: the last one is ragged


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


X = numbers(ROWS, 6)
LABELS = (X[:, 0] > 0).astype("float32")
CLASSES = np.arange(ROWS) % 3


class Data(keras.utils.PyDataset):
    def __len__(self):
        return math.ceil(ROWS / 8)

    def __getitem__(self, i):
        return X[8 * i : 8 * i + 8], LABELS[8 * i : 8 * i + 8]


def batches():
    rng = np.random.default_rng(3)
    while True:
        rows = rng.permutation(ROWS)[:8]
        yield X[rows], LABELS[rows]


def dense():
    model = keras.Sequential(
        [
            keras.Input((6,)),
            kl.Dense(12, activation="relu"),
            kl.BatchNormalization(),
            kl.Dropout(0.3),
            kl.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model, {"x": X, "y": LABELS, "batch_size": 8, "validation_split": 0.2}


def convolution():
    model = keras.Sequential(
        [
            keras.Input((8, 8, 2)),
            kl.Conv2D(4, 3, activation="relu", padding="same"),
            kl.MaxPooling2D(),
            kl.Conv2D(4, 3, use_bias=False),
            kl.BatchNormalization(),
            kl.Activation("relu"),
            kl.GlobalAveragePooling2D(),
            kl.Dense(3, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy")
    return model, {"x": numbers(ROWS, 8, 8, 2), "y": CLASSES, "batch_size": 8}


def recurrent():
    model = keras.Sequential(
        [
            keras.Input((7,)),
            kl.Embedding(20, 5),
            kl.LSTM(6, return_sequences=True, dropout=0.2),
            kl.Bidirectional(kl.GRU(4)),
            kl.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("rmsprop", loss, metrics=["accuracy"])
    tokens = np.random.default_rng(1).integers(0, 20, size=(ROWS, 7))
    return model, {"x": tokens, "y": CLASSES, "batch_size": 8}


def sequences():
    model = keras.Sequential(
        [
            keras.Input((6, 1)),
            kl.Conv1D(4, 2, activation="tanh"),
            kl.SimpleRNN(5, return_sequences=True),
            kl.LayerNormalization(),
            kl.TimeDistributed(kl.Dense(3, activation="elu")),
            kl.Flatten(),
            kl.Dense(1),
        ]
    )
    model.compile("adamw", "mse", metrics=["mae"])
    return model, {"x": X[..., None], "y": X[:, 1], "batch_size": 8}


def several_ends():
    first, second = keras.Input((6,), name="first"), keras.Input((4,), name="second")
    both = kl.Concatenate()([kl.Dense(8, activation="relu")(first), second])
    shared = kl.Dense(8, activation="gelu", name="shared")
    hidden = kl.Dropout(0.1)(shared(kl.Dense(8)(shared(kl.Dense(8)(both)))))
    hidden = hidden + both[:, :8]
    ends = [
        kl.Dense(1, name="value")(hidden),
        kl.Dense(3, activation="softmax", name="kind")(hidden),
    ]
    model = keras.Model([first, second], ends)
    model.compile(
        "adam",
        loss={"value": "mse", "kind": "sparse_categorical_crossentropy"},
        loss_weights={"value": 0.5, "kind": 1.0},
        metrics={"kind": ["accuracy"]},
    )
    x = {"first": X, "second": numbers(ROWS, 4)}
    return model, {"x": x, "y": {"value": X[:, 1], "kind": CLASSES}, "batch_size": 8}


def dataset():
    model, _ = dense()
    return model, {"x": Data()}


def generator():
    model, _ = dense()
    return model, {"x": batches(), "steps_per_epoch": 5}


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = kl.Dense(8)
        self.attention = kl.MultiHeadAttention(2, 4, dropout=0.1)
        self.norm = kl.LayerNormalization()
        self.last = kl.Dense(1)

    def call(self, x, training=False):
        x = keras.ops.relu(self.first(x))
        x = self.norm(x + self.attention(x, x, training=training))
        return self.last(keras.ops.mean(x, axis=1))


def subclassed():
    model = Own()
    model.compile("adam", "mse")
    return model, {"x": numbers(ROWS, 5, 6), "y": X[:, 1], "batch_size": 8}


def weighted():
    model = keras.Sequential(
        [
            keras.Input((6,)),
            kl.Dense(8, activation=kl.LeakyReLU(), kernel_regularizer="l2"),
            kl.ActivityRegularization(l1=0.01),
            kl.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("sgd", "binary_crossentropy", weighted_metrics=["accuracy"])
    weights = np.linspace(0.1, 2, ROWS)
    return model, {"x": X, "y": LABELS, "batch_size": 8, "sample_weight": weights}


def scheduled():
    inner = keras.Sequential([keras.Input((6,)), kl.Dense(6, activation="silu"), kl.Dropout(0.2)])
    inputs = keras.Input((6,))
    hidden = kl.Add()([inner(inputs), inner(kl.Dense(6)(inputs))])
    model = keras.Model(inputs, kl.Dense(3, activation="softmax")(hidden))
    rate = keras.optimizers.schedules.ExponentialDecay(0.01, 3, 0.8)
    optimizer = keras.optimizers.Adam(rate, clipnorm=1.0, use_ema=True)
    model.compile(optimizer, "categorical_crossentropy", metrics=["accuracy", "auc"])
    return model, {"x": X, "y": np.eye(3)[CLASSES], "batch_size": 8, "shuffle": False}


def with_callbacks():
    model, given = dense()
    given["callbacks"] = [
        keras.callbacks.ReduceLROnPlateau(patience=0, min_delta=1.0),
        keras.callbacks.EarlyStopping(patience=3),
        keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: float(logs["loss"])),
    ]
    return model, given


PROGRAMS = {
    f.__name__: f
    for f in (
        dense,
        convolution,
        recurrent,
        sequences,
        several_ends,
        dataset,
        generator,
        subclassed,
        weighted,
        scheduled,
        with_callbacks,
    )
}


def train(name, callbacks=(), epochs=6):
    """Trains one program from seed 0; returns the model, the history and what was trained on."""
    keras.utils.set_random_seed(0)
    keras.backend.clear_session()
    model, given = PROGRAMS[name]()
    given = {**given, "callbacks": [*given.get("callbacks", ()), *callbacks]}
    history = model.fit(**given, epochs=epochs, verbose=0).history
    return model, history, given


def state(model):
    return [*model.get_weights(), *(np.asarray(v) for v in model.optimizer.variables)]


class Saving(keras.callbacks.Callback):
    """Saves the model in the middle of an epoch."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            self.model.save_weights(self.path)


def saved(name, callbacks):
    """Trains one program; returns it with the weights that were saved on the way."""
    path = str(Path(tempfile.mkdtemp()) / "on.weights.h5")
    model, history, _ = train(name, [*callbacks, Saving(path)])
    final = state(model)
    model.load_weights(path)
    return model, history, final, model.get_weights()


def compare(name):
    """What a watched run leaves different from a bare one."""
    from stethoscope import trace
    from stethoscope.keras import Stethoscope

    _, bare_history, bare, bare_saved = saved(name, [])
    drawn = np.random.random()
    scope = Stethoscope(quiet=True, probe_every=3, trace_dir=tempfile.mkdtemp())
    watched, history, final, watched_saved = saved(name, [scope])
    pairs = zip(bare, final, strict=True)
    rows = [r for r in trace.read(scope.report.meta["trace"]).rows() if r.kind == "step"]
    return {
        "weights": [i for i, (a, b) in enumerate(pairs) if not np.array_equal(a, b)],
        "saved": all(map(np.array_equal, bare_saved, watched_saved)),
        "history": bare_history == history,
        "random": drawn == np.random.random(),
        "left": leftovers(watched),
        "notes": scope._fits.session.notes,
        "probed": sum(row.probed for row in rows),
        "plain": sum(not row.probed for row in rows),
    }


def leftovers(model):
    """Whatever of ours hangs on a model and its parts."""
    things = [model, model.optimizer, *model._flatten_layers()]
    found = []
    for thing in things:
        for key, value in vars(thing).items():
            module = getattr(value, "__module__", "") or ""
            inner = getattr(getattr(value, "__code__", None), "co_filename", "")
            if "stethoscope" in module or "stethoscope" in str(Path(inner).parts):
                found.append(f"{type(thing).__name__}.{key}")
        if {"call", "apply"} & set(vars(thing)):
            found.append(f"{type(thing).__name__} has an own call")
    return found


if __name__ == "__main__":
    print(json.dumps({name: compare(name) for name in sys.argv[1:] or PROGRAMS}))
