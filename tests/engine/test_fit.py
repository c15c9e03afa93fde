"""What a `fit` is told, and what it tells: errors, stops, weights, the plan."""

from __future__ import annotations

import numpy as np
import pytest

import stethoscope
from stethoscope.engine import Dense, Listener, Sequential, watch
from stethoscope.engine.regularizers import L1L2
from stethoscope.engine.step import Batch
from stethoscope.monitor import FaultyTrainingError
from stethoscope.program import FitSpec

X = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
Y = (X @ np.array([1.0, -1.0, 0.5, 0.0], "float32"))[:, None]


def model():
    made = Sequential([Dense(8, "tanh"), Dense(1)], input_shape=(4,), seed=3)
    made.compile("adam", "mse")
    return made


class Ends(Listener):
    """Counts its calls of `end`, and may raise there or at a step."""

    def __init__(self, at_step=None, at_end=None):
        self.ends, self._at_step, self._at_end = 0, at_step, at_end

    def step(self, model, step):
        if self._at_step is not None:
            raise self._at_step
        return False

    def end(self, model):
        self.ends += 1
        if self._at_end is not None:
            raise self._at_end


@pytest.mark.parametrize("users", [KeyError("mine"), KeyboardInterrupt()], ids=repr)
def test_what_the_training_raised_is_not_replaced(users):
    made, own = model(), FaultyTrainingError("ours")
    made.listeners += [Ends(at_end=own), Ends(at_step=users), Ends()]
    with pytest.raises(type(users)) as caught:
        made.fit(X, Y)
    assert caught.value is users
    assert [one.ends for one in made.listeners] == [1, 1, 1]


def test_every_listener_is_told_of_the_end_though_one_raises():
    made, own = model(), FaultyTrainingError("ours")
    made.listeners += [Ends(at_end=own), Ends()]
    with pytest.raises(FaultyTrainingError) as caught:
        made.fit(X, Y)
    assert caught.value is own
    assert [one.ends for one in made.listeners] == [1, 1]


def test_fit_after_a_stop_trains_on(tmp_path):
    made = model()
    made.optimizer.learning_rate = 0.0
    with watch(made, quiet=True, trace_dir=str(tmp_path), probe_every=1, on_error="stop") as scope:
        made.fit(X, Y, batch_size=16, epochs=40)
        stopped = made.steps
        assert 0 < stopped < 160
        assert scope.should_stop
        history = made.fit(X, Y, batch_size=16, epochs=3).history
    assert made.steps == stopped + 12
    assert len(history["loss"]) == 3
    assert not made.stopped


def test_no_epoch_is_no_step():
    made = model()
    assert made.fit_batches(lambda: [Batch([X], [Y])], FitSpec(epochs=0)).history == {}
    assert made.steps == 0


def test_one_array_may_stand_in_a_list():
    one, listed = model(), Sequential([Dense(8, "tanh"), Dense(1)], seed=3)
    listed.compile("adam", "mse")
    expected = one.fit(X, Y, epochs=2).history
    assert (
        listed.fit([X], [Y], epochs=2, validation_data=([X], (Y,))).history["loss"]
        == (expected["loss"])
    )
    np.testing.assert_array_equal(listed.predict([X]), one.predict(X))
    assert listed.predict([[1.0, 2.0, 3.0, 4.0]]).shape == (1, 1)  # numbers: a list of samples


@pytest.mark.parametrize("shuffled", [False, True])
def test_plan_of_a_given_order_is_that_of_its_batches(shuffled):
    made, rows = model(), np.arange(64)
    rows = np.random.default_rng(0).permutation(rows) if shuffled else rows
    order = np.append(rows, [-1] * 11).reshape(1, 3, 25)
    made.fit(X, Y, order=order)
    assert made.steps == 3
    assert (made.plan.batch_size, made.plan.steps_per_epoch) == (25, 3)
    assert made.plan.shuffle is shuffled


def by_fit(made, weight):
    made.fit(X, Y, sample_weight=weight)


def by_batches(made, weight):
    data = ([X], [Y])
    made.fit_batches(lambda: [Batch(*data, weight)] * 2, FitSpec(epochs=1), data=data)


def by_hand(made, weight):
    for _ in range(2):
        made.train_on_batch(X, Y, sample_weight=weight)


@pytest.mark.parametrize("train", [by_fit, by_batches, by_hand])
def test_the_judge_knows_whether_samples_are_weighted(train, tmp_path):
    made, weight = model(), np.linspace(0.5, 2, len(X)).astype("float32")
    with watch(made, quiet=True, trace_dir=str(tmp_path), probe_every=1):
        train(made, None)
        train(made, weight)
        if train is not by_hand:  # which does not say where a training ends
            train(made, None)
    trace = stethoscope.read(next(tmp_path.glob("*.sqlite")))
    known = [row.program.losses[0].weighted for row in trace.rows()]
    assert known == [False] * 2 + [True] * 2 + [False] * (len(known) - 4)


def test_penalty_of_an_evaluation_is_computed_once(monkeypatch):
    made = Sequential([Dense(1, kernel_regularizer="l2")], input_shape=(4,))
    made.compile("sgd", "mse")
    expected, calls, own = made.evaluate(X, Y, batch_size=64)["loss"], [], L1L2.value

    def counted(self, weight):
        calls.append(weight)
        return own(self, weight)

    monkeypatch.setattr(L1L2, "value", counted)
    assert made.evaluate(X, Y, batch_size=8)["loss"] == pytest.approx(expected)
    assert len(calls) == 1
