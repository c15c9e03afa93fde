"""Small Keras programs that exercise the adapter; run as a script, they are compared.

    KERAS_BACKEND=torch python tests/keras/programs.py NAME...

prints, as JSON, for each program what differs between a bare and a watched run.
"""

import importlib.util
import json
import math
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
from keras import layers as kl

ROWS = 40  # five batches of 8
RAGGED = 44  # of `dense`: with a fifth of it for validation the last batch has 3 rows


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
    x = numbers(RAGGED, 6)
    y = (x[:, 0] > 0).astype("float32")
    return model, {"x": x, "y": y, "batch_size": 8, "validation_split": 0.2}


def every_layer():
    """One of each usual layer."""
    tokens, images = keras.Input((8,)), keras.Input((8, 8, 1))
    hidden = kl.Embedding(20, 4)(tokens)
    hidden = kl.Conv1D(4, 2, padding="same", activation="tanh")(hidden)
    hidden = kl.MaxPooling1D()(hidden)
    hidden = kl.SimpleRNN(4, return_sequences=True)(hidden)
    hidden = kl.LSTM(4, return_sequences=True, dropout=0.2)(hidden)
    hidden = kl.GRU(4, return_sequences=True)(hidden)
    hidden = kl.Bidirectional(kl.SimpleRNN(2, return_sequences=True))(hidden)
    hidden = kl.MultiHeadAttention(2, 2)(hidden, hidden)
    hidden = kl.LayerNormalization()(hidden)
    hidden = kl.TimeDistributed(kl.Dense(3, activation="elu"))(hidden)
    hidden = kl.GlobalAveragePooling1D()(hidden)
    seen = kl.Conv2D(2, 3, use_bias=False)(images)
    seen = kl.ReLU()(kl.BatchNormalization()(seen))
    seen = kl.GroupNormalization(2)(kl.AveragePooling2D(3, padding="same")(kl.MaxPooling2D()(seen)))
    both = kl.Concatenate()([hidden, kl.Flatten()(seen)])
    both = kl.Dropout(0.2)(kl.Dense(4, activation=kl.LeakyReLU())(both))
    model = keras.Model([tokens, images], kl.Dense(3)(both))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("rmsprop", loss, metrics=["accuracy"])
    ids = np.random.default_rng(1).integers(0, 20, size=(ROWS, 8))
    return model, {"x": [ids, numbers(ROWS, 8, 8, 1)], "y": CLASSES, "batch_size": 8}


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
    def __init__(self, **given):
        super().__init__(**given)
        self.first = kl.Dense(8)
        self.drop, self.mix = kl.Dropout(0.1), kl.Dense(8)
        self.norm = kl.LayerNormalization()
        self.last = kl.Dense(1)

    def call(self, x, training=False):
        x = keras.ops.relu(self.first(x))
        x = self.norm(x + self.mix(self.drop(x, training=training)))
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
        keras.callbacks.EarlyStopping(patience=5),
        keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: float(logs["loss"])),
    ]
    return model, given


PROGRAMS = {
    f.__name__: f
    for f in (
        dense,
        every_layer,
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
    """Saves the whole model in the middle of an epoch."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            self.model.save(self.path)


def saved(name, callbacks):
    """Trains one program; returns it with what was saved on the way and loaded again."""
    folder = Path(tempfile.mkdtemp())
    paths = [str(folder / file) for file in ("middle.keras", "epoch.keras")]
    saving = [Saving(paths[0]), keras.callbacks.ModelCheckpoint(paths[1])]
    # One checkpoint before ours in the list and one model saved behind it.
    model, history, _ = train(name, [saving[1], *callbacks, saving[0]])
    final = state(model)
    loaded = [keras.saving.load_model(path, custom_objects={"Own": Own}) for path in paths]
    return model, history, final, loaded


def same(first, second):
    """Whether two loaded models have the same configuration, weights and optimizer state."""
    pairs = zip(state(first), state(second), strict=True)
    configs = [json.dumps(m.get_config(), sort_keys=True, default=str) for m in (first, second)]
    return configs[0] == configs[1] and all(np.array_equal(a, b) for a, b in pairs)


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
        "saved": all(map(same, bare_saved, watched_saved)),
        "history": bare_history == history,
        "random": drawn == np.random.random(),
        "left": leftovers(watched),
        "notes": scope._fits.session.notes,
        "recorded": recorded(rows),
        "probed": sum(row.probed for row in rows),
        "plain": sum(not row.probed for row in rows),
    }


def recorded(rows):
    """Type of each layer to whether its output and the gradients of its weights were recorded."""
    from stethoscope.types import Stage, Stat

    stages, found = (Stage.OUTPUT, Stage.WEIGHT_GRAD), {}
    seen = {(s.layer, t) for r in rows if r.probed for t in stages for s, _ in r.each(t, Stat.NORM)}
    for spec in rows[-1].program.layers:
        trained = not spec.trainable or (spec.path, Stage.WEIGHT_GRAD) in seen
        found[spec.type] = (spec.path, Stage.OUTPUT) in seen and trained
    return found


PACKAGE = str(Path(importlib.util.find_spec("stethoscope").origin).parent)


def leftovers(model):
    """Whatever of ours hangs on a model and its parts."""
    things = [model, model.optimizer, *model._flatten_layers()]
    found = []
    for thing in things:
        for key, value in vars(thing).items():
            module = getattr(value, "__module__", "") or ""
            inner = getattr(getattr(value, "__code__", None), "co_filename", "")
            if module.startswith("stethoscope") or inner.startswith(PACKAGE):
                found.append(f"{type(thing).__name__}.{key}")
        if {"call", "apply"} & set(vars(thing)):
            found.append(f"{type(thing).__name__} has an own call")
    return found


if __name__ == "__main__":
    print(json.dumps({name: compare(name) for name in sys.argv[1:] or PROGRAMS}))
