"""Watching the engine: what is reported, what is left behind, and that the training is the same."""

from __future__ import annotations

import time

import numpy as np
import pytest

import stethoscope
from stethoscope.config import Config
from stethoscope.engine import BatchNormalization, Dense, Dropout, Sequential, install, watch
from stethoscope.engine.run import Run
from stethoscope.engine.step import everywhere
from stethoscope.monitor import FaultyTrainingError, Session
from stethoscope.types import Column, Phase, Stage, Stat, Verdict

X = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
Y = (X @ np.array([1.0, -1.0, 0.5, 0.0], "float32"))[:, None]


def model(rate_loss=("adam", "mse")):
    made = Sequential(
        [Dense(8, "tanh"), BatchNormalization(), Dropout(0.2), Dense(1)], input_shape=(4,), seed=3
    )
    made.compile(*rate_loss, metrics=["mae"])
    return made


def by_fit(made, steps=12):
    made.fit(X, Y, epochs=steps // 4, batch_size=16)


def by_hand(made, steps=12):
    for step in range(steps):
        rows = slice(16 * (step % 4), 16 * (step % 4) + 16)
        made.train_on_batch(X[rows], Y[rows])


WAYS = pytest.mark.parametrize("train", [by_fit, by_hand], ids=["fit", "hand-written"])


@pytest.fixture
def settings(tmp_path):
    return {"quiet": True, "trace_dir": str(tmp_path), "probe_every": 1}


def recorded(tmp_path):
    return stethoscope.read(next(tmp_path.glob("*.sqlite")))


@WAYS
def test_every_step_is_in_the_trace(train, settings, tmp_path):
    made = model()
    with watch(made, **settings) as scope:
        train(made)
    assert scope.report is not None
    trace = recorded(tmp_path)
    assert [row.step for row in trace.rows()] == list(range(12))
    for layer, param, stage, stat in (
        ("", "0", Stage.INPUT, Stat.NORM),
        ("", "0", Stage.TARGET, Stat.NORM),
        ("dense", "", Stage.PRE_ACTIVATION, Stat.NORM),
        ("dense", "", Stage.OUTPUT, Stat.NORM),
        ("", "", Stage.LOSS, Stat.VALUE),
        ("dense", "", Stage.OUTPUT_GRAD, Stat.NORM),
        ("dense", "kernel", Stage.WEIGHT_GRAD, Stat.NORM),
        ("dense", "kernel", Stage.UPDATE, Stat.NORM),
        ("dense", "kernel", Stage.WEIGHT, Stat.NORM),
        ("", "learning_rate", Stage.HYPER, Stat.VALUE),
    ):
        found = trace[Column(layer, param, stage, stat)]
        assert len(found) == 12
        assert np.isfinite(found).all(), stage


@WAYS
def test_weights_are_bit_identical(train, settings):
    bare, watched = model(), model()
    train(bare)
    with watch(watched, **settings):
        train(watched)
    assert bare.network.weights.keys() == watched.network.weights.keys()
    for name, value in bare.network.weights.items():
        assert value.tobytes() == watched.network.weights[name].tobytes(), name


def at_rest():
    made = model(("sgd", "mse"))
    made.optimizer.learning_rate = 0.0
    return made


@WAYS
def test_a_faulty_training_is_reported(train, settings):
    made = at_rest()
    with stethoscope.watch(made, **settings) as scope:
        train(made, 48)
    assert scope.report.meta["steps"] == 48
    assert scope.report.verdict is Verdict.FAULTY
    assert scope.report.diagnoses[0].fault == "learning-rate-zero"
    printed = str(scope.report)
    assert printed.startswith(f"FAULTY: {scope.report.reason}\nlearning-rate-zero (error)")
    assert scope.report.diagnoses[0].fixes[0].title in printed
    assert len(printed) < 1000 < len(repr(scope.report))


@WAYS
def test_an_error_may_be_raised(train, settings):
    made = at_rest()
    with pytest.raises(FaultyTrainingError), watch(made, **settings, on_error="raise"):
        train(made, 48)
    assert 0 < made.steps < 48
    assert made.listeners == []


def test_an_error_may_stop_the_fit(settings):
    made = at_rest()
    with watch(made, **settings, on_error="stop") as scope:
        by_fit(made, 48)
    assert 0 < made.steps < 48
    assert scope.should_stop


def test_a_watch_that_is_switched_off_leaves_the_model_alone(settings, tmp_path):
    made = model()
    with watch(made, **settings, disable=True) as scope:
        assert made.listeners == []
        by_fit(made)
    assert scope.report.verdict is Verdict.UNDETERMINED
    assert list(tmp_path.iterdir()) == []


def test_validation_is_recorded(settings, tmp_path):
    made = model()
    with watch(made, **settings):
        history = made.fit(X, Y, epochs=3, batch_size=16, validation_data=(X, Y)).history
    trace = recorded(tmp_path)
    column = Column("", "", Stage.LOSS, Stat.VALUE, Phase.VALIDATION)
    found = np.asarray(trace[column])
    assert found[np.isfinite(found)].tolist() == pytest.approx(history["val_loss"])


@WAYS
def test_training_again_goes_on_with_the_run(train, settings, tmp_path):
    made = model()
    with watch(made, **settings):
        train(made)
        train(made)
    assert len(list(tmp_path.glob("*.sqlite"))) == 1
    assert [row.step for row in recorded(tmp_path).rows()] == list(range(24))


def test_nothing_is_left_after_the_scope(settings):
    made = model()
    with watch(made, **settings):
        by_fit(made)
    assert made.listeners == []
    with pytest.raises(KeyError), watch(made, **settings):  # the user's own error
        raise KeyError
    assert made.listeners == []


def test_install_watches_all_and_leaves_nothing(settings, tmp_path):
    remove = install(Session(stethoscope.config.load(settings)))
    by_fit(model())
    by_hand(model())
    remove()
    assert everywhere == []
    by_fit(model())
    assert len(list(tmp_path.glob("*.sqlite"))) == 2


def test_everything_goes_also_when_the_users_program_fails(settings):
    remove = install(Session(stethoscope.config.load(settings)))
    made = model()
    with pytest.raises(ValueError, match="was built for inputs of shape"):
        made.train_on_batch(X[:, :3], Y)
    remove()
    assert everywhere == made.listeners == []


@pytest.mark.parametrize(
    ("method", "seconds"),
    {"_data": 0.3, "goes_on": 0.3, "take": 0.02, "held_out": 0.1, "catch_up": 0.02}.items(),
)
def test_all_that_watching_takes_is_counted(method, seconds, settings, monkeypatch):
    own, calls = getattr(Run, method), []

    def slow(self, *given, **more):
        calls.append(time.sleep(seconds))
        own(self, *given, **more)

    monkeypatch.setattr(Run, method, slow)
    made = model()
    with watch(made, **settings) as scope:
        for _ in range(2):
            made.fit(X, Y, batch_size=32, epochs=2, validation_data=(X, Y))
        least = seconds * len(calls)
    assert "watching stopped" not in scope.report.reason
    seen = scope.report.overhead
    assert 0 < least < seen["seconds"] < seen["total_seconds"]


@pytest.mark.parametrize("method", ["__init__", "take"])
@WAYS
def test_an_error_of_ours_does_not_cost_the_training(train, method, settings, monkeypatch):
    def broken(self, *_, **__):
        raise RuntimeError("ours")

    bare, watched = model(), model()
    train(bare)
    monkeypatch.setattr(Run, method, broken)
    with watch(watched, **settings) as scope:
        train(watched)
    assert scope.report.verdict is Verdict.UNDETERMINED
    assert "watching stopped: RuntimeError: ours" in scope.report.reason
    assert watched.listeners == []
    for name, value in bare.network.weights.items():
        assert value.tobytes() == watched.network.weights[name].tobytes(), name


@WAYS
def test_what_the_process_watches_is_not_watched_twice(train, settings, tmp_path, capsys):
    session = Session(Config(trace_dir=str(tmp_path)))
    undo = install(session)
    other, made = model(), model(("adam", "mae"))
    try:
        train(other)
        with watch(made, **settings) as scope:
            assert scope.reports == []
            train(made)
    finally:
        undo()
    session.close()
    assert len(session.reports) == 2
    (report,) = scope.reports
    assert report.meta["trace"] == session.reports[1].meta["trace"]
    assert len(list(tmp_path.glob("*.sqlite"))) == 2
    assert "this model is watched already" in capsys.readouterr().err
    with watch(made, **settings) as later:
        train(made)
    assert later.report.meta["trace"] != report.meta["trace"]


def test_scopes_of_one_model_share_the_watching(settings, tmp_path):
    made = model()
    with watch(made, **settings) as outer:
        with watch(made) as inner:
            by_fit(made)
        assert made.listeners
        by_fit(made)
    assert not made.listeners
    assert inner.report == outer.report
    assert outer.report.meta["steps"] == 24
    assert len(list(tmp_path.glob("*.sqlite"))) == 1


def test_what_is_told_is_written_as_people_do(settings, capsys):
    x = np.random.default_rng(0).normal(size=(300, 3))
    made = Sequential([Dense(2), Dense(1, "softmax")])
    made.compile("adam", "binary_crossentropy")
    with watch(made, **settings):
        made.fit(x, x.sum(axis=1) > 0, epochs=20)
    assert "missing-hidden-activation is now a note." in capsys.readouterr().err
    made = Sequential([Dense(4), BatchNormalization(), Dense(1)])
    made.compile("adam", "mse")
    with watch(made, **settings) as scope:
        made.fit(X, Y, batch_size=1)
    (few,) = [one for one in scope.report.symptoms if one.name == "batch-norm-on-few"]
    assert few.message == "batch_normalization takes mean and variance over 1 value."
