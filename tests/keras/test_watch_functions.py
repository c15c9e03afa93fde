"""Activations applied as functions in a user's own `call` are seen, or declared unseen."""

import keras
import numpy as np
import pytest
from keras import layers as kl

from stethoscope import trace
from stethoscope.keras import Stethoscope
from stethoscope.types import Slot, Stage, Stat

pytestmark = pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="no activations and gradients there yet"
)

X = np.random.default_rng(0).normal(size=(16, 4)).astype("float32")


class Own(keras.Model):
    def __init__(self, apply):
        super().__init__()
        self.deep, self.first, self.last = kl.Dense(5), kl.Dense(5), kl.Dense(1)
        self.apply = apply

    def call(self, x):
        hidden = self.apply(self.first(x))
        deep = self.apply(self.deep(self.first(x) * 2))
        return self.last(hidden + deep)


class Block(kl.Layer):
    def __init__(self):
        super().__init__(name="block")
        self.dense = kl.Dense(5)

    def call(self, x):
        return keras.ops.relu(self.dense(x))


def first_row(model, tmp_path):
    scope = Stethoscope(quiet=True, trace_dir=str(tmp_path))
    model.compile("sgd", "mse")
    model.fit(X, X[:, :1], batch_size=8, shuffle=False, verbose=0, callbacks=[scope])
    assert scope._fits.session.notes == []
    rows = list(trace.read(scope.report.meta["trace"]).rows())
    return rows[0], rows[-1].program


@pytest.mark.parametrize(
    ("apply", "name", "by_hand"),
    [
        (keras.ops.relu, "relu", lambda z: np.maximum(z, 0)),
        (keras.activations.relu, "relu", lambda z: np.maximum(z, 0)),
        (keras.ops.tanh, "tanh", np.tanh),
        (keras.activations.sigmoid, "sigmoid", lambda z: 1 / (1 + np.exp(-z))),
    ],
    ids=["ops.relu", "activations.relu", "ops.tanh", "activations.sigmoid"],
)
def test_functional_activation_of_a_subclassed_model_is_seen(apply, name, by_hand, tmp_path):
    keras.utils.set_random_seed(0)
    model = Own(apply)
    model(X[:1])
    first, deep = ([np.asarray(w) for w in d.get_weights()] for d in (model.first, model.deep))
    row, program = first_row(model, tmp_path)
    paths = [spec.path for spec in program.layers if spec.activation == name]
    assert len(paths) == 2
    once = X[:8] @ first[0] + first[1]
    before = {"once": once, "twice": 2 * once @ deep[0] + deep[1]}
    found = {}
    for path in paths:  # by the layer that each one reads
        (source,) = program.predecessors(path)
        values = before["once" if source == model.first.name else "twice"]
        found[source] = path
        for stage, wanted in ((Stage.PRE_ACTIVATION, values), (Stage.OUTPUT, by_hand(values))):
            for stat, value in ((Stat.MAX, wanted.max()), (Stat.MIN, wanted.min())):
                seen = row.get(Slot(path, "", stage), stat)
                assert seen == pytest.approx(value, rel=1e-4, abs=1e-6), (path, stage)
        assert row.get(Slot(path, "", Stage.OUTPUT_GRAD), Stat.NORM) > 0
    assert len(found) == 2
    assert not [topic for topic in program.unseen if "activations" in topic]


def test_functional_activation_inside_a_users_layer_is_declared(tmp_path):
    model = keras.Sequential([keras.Input((4,)), Block(), kl.Dense(1, activation="tanh")])
    _, program = first_row(model, tmp_path)
    assert "activations in block" in program.unseen
    assert not [topic for topic in program.unseen if "dense" in topic]


def test_functional_activation_of_a_model_that_cannot_be_traced_is_declared(tmp_path):
    class Untraced(Own):
        def call(self, x):
            keras.ops.convert_to_tensor(x).sum()  # no method of a symbolic tensor
            return super().call(x)

    _, program = first_row(Untraced(keras.ops.relu), tmp_path)
    assert "functional activations" in program.unseen
    assert "data flow" in program.unseen


def test_functions_are_put_back_and_losses_are_not_taken_for_activations(tmp_path):
    from keras.src import backend

    before = dict(vars(backend.nn)), dict(vars(backend.numpy))
    model = Own(keras.ops.relu)
    scope = Stethoscope(quiet=True, trace_dir=str(tmp_path))
    model.compile("sgd", lambda y, p: keras.ops.mean(keras.ops.relu(y - p)))
    model.fit(X, X[:, :1], batch_size=8, verbose=0, callbacks=[scope])
    assert (dict(vars(backend.nn)), dict(vars(backend.numpy))) == before
    program = list(trace.read(scope.report.meta["trace"]).rows())[-1].program
    assert "functional activations" not in program.unseen
