"""What people who know Keras write, and the sentences they get where something does not fit."""

from __future__ import annotations

import numpy as np
import pytest

import stethoscope
from stethoscope.engine import (
    LSTM,
    Conv2D,
    Dense,
    Dropout,
    Flatten,
    Input,
    Listener,
    Model,
    OnStep,
    Sequential,
)

X = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
Y = X.sum(axis=1)


def model(**given):
    made = Sequential([Dense(8, "tanh"), Dense(1)], seed=0, **given)
    made.compile("adam", "mse", metrics="mae")
    return made


@pytest.mark.parametrize("added", [False, True], ids=["in the list", "added"])
def test_an_input_says_the_shape(added):
    if added:
        made = Sequential(seed=0)
        for layer in (Input((12, 12, 1)), Conv2D(2, 3), Flatten()):
            made.add(layer)
    else:
        made = Sequential([Input((12, 12, 1)), Conv2D(2, 3), Flatten()], seed=0)
    given = Sequential([Conv2D(2, 3), Flatten()], input_shape=(12, 12, 1), seed=0)
    assert [layer.name for layer in made.layers] == ["", ""]
    assert made.network.nodes[-1].shape == (200,)
    for name, value in given.weights.items():
        np.testing.assert_array_equal(made.weights[name], value)


def test_an_input_comes_first_and_once():
    for layers in ([Dense(2), Input((4,))], [Input((4,)), Input((3,))]):
        with pytest.raises(ValueError, match="one Input, before its first layer"):
            Sequential(layers)
    with pytest.raises(ValueError, match="without calling"):
        Sequential([Dense(2)(Input((4,)))])
    with pytest.raises(TypeError, match="expected a layer"):
        Sequential([3])


def test_fit_takes_what_keras_takes_by_position(capsys):
    figures = model().fit(X, Y, 16, 3, 1).history
    assert len(figures["loss"]) == len(figures["mae"]) == 3
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert model().fit(X, Y, None).history["loss"]
    assert model().evaluate(X, Y, 16).keys() == {"loss", "mae"}
    assert model().predict(X, 16).shape == (64, 1)


def test_a_share_of_the_samples_is_held_out():
    weight = np.linspace(0.5, 2, 64)
    share = model().fit(X, Y, epochs=2, validation_split=0.25, sample_weight=weight)
    by_hand = model().fit(
        X[:48],
        Y[:48],
        epochs=2,
        sample_weight=weight[:48],
        validation_data=(X[48:], Y[48:], weight[48:]),
    )
    assert share.history == by_hand.history
    assert share.history.keys() >= {"val_loss", "val_mae"}
    with pytest.raises(ValueError, match="validation_split must leave samples"):
        model().fit(X, Y, validation_split=1.0)


def test_weights_can_be_read_and_set():
    first, other = model(input_shape=(4,)), model(input_shape=(4,))
    other.fit(X, Y)
    assert list(first.weights) == ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"]
    kept = other.get_weights()
    first.set_weights(kept)
    np.testing.assert_array_equal(first.predict(X), other.predict(X))
    other.fit(X, Y)
    np.testing.assert_array_equal(first.get_weights()[0], kept[0])
    with pytest.raises(ValueError, match="has 4 weights; got 1"):
        first.set_weights(kept[:1])
    with pytest.raises(ValueError, match=r"dense/kernel has the shape \(4, 8\)"):
        first.set_weights(kept[::-1])


def test_a_call_predicts_one_batch_without_training():
    made = Sequential([Dense(8), Dropout(0.5), Dense(1)], seed=0)
    before = made(X)
    np.testing.assert_array_equal(before, made.predict(X, batch_size=64))
    with pytest.raises(TypeError, match="no layer"):
        made(Input((4,)))


def test_a_summary_has_a_line_for_each_layer(capsys):
    x = Input((4,))
    shared = Dense(4, name="shared")
    Model(x, Dense(1)(shared(shared(x)))).summary()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["shared", "shared#2", "dense"]
    assert [line.split()[-1] for line in lines[1:4]] == ["20", "0", "5"]
    assert lines[-1] == "25 parameters, 25 of them trained"


def test_a_step_is_one_line_and_knows_its_layers():
    step = model().train_on_batch(X, Y)
    assert len(repr(step)) < 80
    assert "loss" in repr(step)
    assert len(repr(step.done)) < 80
    np.testing.assert_array_equal(step.output("inputs"), X)
    np.testing.assert_array_equal(step.before_activation("inputs"), X)
    np.testing.assert_array_equal(step.output("dense"), np.tanh(step.before_activation("dense")))
    assert step.output_gradient("dense").shape == (64, 8)
    with pytest.raises(KeyError, match="there are inputs, dense, dense_1"):
        step.output("fc")


class Everything(Listener):
    """Counts what it is shown."""

    def __init__(self):
        self.seen = []

    def step(self, model, step):
        self.seen.append(step)
        return False


def test_plain_functions_are_shown_the_steps():
    made, seen, more, whole = model(), [], [], Everything()
    made.listeners += [seen.append, OnStep(more.append), whole]
    made.fit(X, Y)
    assert len(seen) == 2
    assert seen == more == whole.seen
    made.listeners = [3]
    with pytest.raises(TypeError, match=r"OnStep\(function\)"):
        made.fit(X, Y)


def test_a_fit_that_is_stopped_keeps_the_figures_of_its_last_epoch():
    class After(Listener):
        def step(self, model, step):
            return step.number == 5

    made = model()
    made.listeners.append(After())
    figures = made.fit(X, Y, 16, 9).history
    assert [len(values) for values in figures.values()] == [2, 2]
    made.listeners.clear()
    assert len(made.fit(X, Y, 16, 3).history["loss"]) == 3


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: model().fit(X, Y[:60]), "x has 64, y has 60"),
        (lambda: model().evaluate(X, Y[:60]), "x has 64, y has 60"),
        (lambda: model().train_on_batch(X, Y[:60]), "x has 64, y has 60"),
        (lambda: model().fit(X, Y, sample_weight=[1.0]), "y has 64, sample_weight has 1"),
        (lambda: model().fit(X[:0], Y[:0]), "x has 0"),
        (lambda: model().fit(X, 3), "y has 0"),
        (lambda: model().fit(X, Y, batch_size=0), "batch_size must be a whole number from 1"),
        (lambda: model().predict(X, batch_size=-1), "batch_size must be a whole number from 1"),
        (
            lambda: model(input_shape=(4,)).predict(X[:, :3]),
            r"Dense 'dense' was built for inputs of shape \(batch, 4\); got \(32, 3\)",
        ),
        (
            lambda: Sequential([LSTM(4)], input_shape=(5, 3)).predict(np.zeros((2, 5, 4))),
            r"LSTM 'lstm' was built for inputs of shape \(batch, 5, 3\); got \(2, 5, 4\)",
        ),
        (lambda: Sequential([LSTM(4)]).predict(X), "^LSTM needs inputs of shape"),
        (lambda: Dense(-1), "Dense units must be a positive integer; got -1"),
        (lambda: Dense(2.0), "Dense units must be a positive integer; got 2.0"),
        (lambda: LSTM(0), "LSTM units must be a positive integer; got 0"),
        (lambda: Conv2D(0, 3), "filters must be a positive integer"),
    ],
)
def test_what_does_not_fit_is_one_sentence(work, message):
    with pytest.raises(ValueError, match=message) as caught:
        work()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", [3, "model", None])
def test_only_models_are_watched(given):
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        stethoscope.watch(given)
