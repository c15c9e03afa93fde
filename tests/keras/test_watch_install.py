"""Watching an unmodified script: exact lines, and nothing that stays."""

import gc
import io
import time
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers as kl
from keras.src.losses.loss import Loss
from keras.src.ops.operation import Operation
from keras.src.optimizers.base_optimizer import BaseOptimizer

import stethoscope
from stethoscope.config import Config
from stethoscope.keras import Stethoscope, install
from stethoscope.monitor import Session
from stethoscope.types import Verdict

PACKAGE = str(Path(stethoscope.__file__).parent)

X = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")
Y = X[:, :1]
PATCHED = [*keras.Model.__mro__, Operation, BaseOptimizer, Loss]
PATCHED += [v for v in vars(keras.optimizers.schedules).values() if isinstance(v, type)]


def attributes():
    return [(kind, dict(vars(kind))) for kind in PATCHED]


@pytest.fixture
def session(tmp_path):
    session = Session(Config(trace_dir=str(tmp_path)), script="train.py", stderr=io.StringIO())
    uninstall = install(session)
    yield session
    uninstall()
    session.close()


def network():
    model = keras.Sequential([keras.Input((4,)), kl.Dense(3, activation="relu"), kl.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), loss=keras.losses.MeanSquaredError())
    return model


def program(session):
    return session._monitors[-1].recorder.program


def test_everything_is_put_back(tmp_path):
    before = attributes()
    session = Session(Config(trace_dir=str(tmp_path)), stderr=io.StringIO())
    uninstall = install(session)
    assert attributes() != before
    network().fit(X, Y, verbose=0)
    uninstall()
    session.close()
    for (kind, now), (_, then) in zip(attributes(), before, strict=True):
        assert {k: v for k, v in now.items() if then.get(k) is not v} == {}, kind


def test_lines_are_exact(session):
    def marked(name):
        lines = Path(__file__).read_text().splitlines()
        return next(i for i, text in enumerate(lines, 1) if text.endswith(f"# {name}"))

    model = keras.Sequential()
    model.add(keras.Input((4,)))
    for _ in range(2):
        model.add(kl.Dense(3, activation="relu"))  # in a loop
    model.add(
        kl.Dense(  # over several lines
            1,
        )
    )
    rate = keras.optimizers.schedules.ExponentialDecay(0.01, 10, 0.9)  # the schedule
    optimizer = keras.optimizers.SGD(rate)  # the optimizer
    model.compile(optimizer, loss="mse")  # compiled
    model.fit(X, Y, verbose=0)  # fitted
    found = program(session)
    assert [layer.source.line for layer in found.layers[:2]] == [marked("in a loop")] * 2
    assert found.layers[2].source.line == marked("over several lines")
    assert found.optimizers[0].source.line == marked("the optimizer")
    assert found.optimizers[0].rate_source.line == marked("the schedule")
    assert found.losses[0].source.line == marked("compiled")
    assert found.fit.source.line == marked("fitted")
    assert all(layer.source.exact for layer in found.layers)


def test_fits_of_one_model_are_one_run(session):
    model = network()
    for _ in range(3):
        model.fit(X, Y, batch_size=8, verbose=0)
    network().fit(X, Y, batch_size=8, verbose=0)
    assert [report.meta["steps"] for report in session.reports] == [9, 3]


def test_callbacks_of_the_user_stay_as_they_are(session):
    own = [keras.callbacks.History()]
    model = network()
    history = model.fit(X, Y, 8, 1, 0, own)
    assert history is own[0]
    assert len(own) == 1
    together = keras.callbacks.CallbackList([], add_history=True, model=model, epochs=1)
    model.fit(X, Y, verbose=0, callbacks=together)
    assert not any(isinstance(one, Stethoscope) for one in together.callbacks)
    assert session.reports[0].meta["steps"] == 4


class Boom(keras.callbacks.Callback):
    def __init__(self, where):
        super().__init__()
        setattr(self, where, self.fail)

    def fail(self, *_, **__):
        raise ValueError("user")


@pytest.mark.parametrize("library", [True, False], ids=["callback", "installed"])
@pytest.mark.parametrize("where", ["on_train_batch_end", "on_epoch_end", "data", "on_train_begin"])
def test_nothing_is_left_after_an_exception(where, library, tmp_path, monkeypatch):
    def batches():
        yield X[:8], Y[:8]
        yield X[:8], Y[:8]
        raise ValueError("user")

    session = Session(Config(trace_dir=str(tmp_path)), stderr=io.StringIO())
    uninstall = (lambda: None) if library else install(session)
    model = network()
    callbacks = [Stethoscope(quiet=True, trace_dir=str(tmp_path))] if library else []
    try:
        if where == "data":
            with pytest.raises(Exception, match="user"):
                model.fit(
                    batches(), shuffle=False, steps_per_epoch=5, verbose=0, callbacks=callbacks
                )
        else:
            with pytest.raises(ValueError, match="user"):
                model.fit(X, Y, verbose=0, callbacks=[*callbacks, Boom(where)])
    finally:
        uninstall()
        session.close()
    gc.collect()
    reports = callbacks[0].reports if library else session.reports
    ends = time.monotonic() + 20
    while library and where != "on_train_begin" and not reports and time.monotonic() < ends:
        time.sleep(0.01)  # a thread of Keras's may be the last to hold the list of callbacks
    inner = getattr(model.train_function, "__code__", None)
    assert inner is None or not inner.co_filename.startswith(PACKAGE)
    for layer in model._flatten_layers():
        assert not {"call"} & set(vars(layer))
    assert "apply" not in vars(model.optimizer)
    if where != "on_train_begin":
        assert reports[0].meta["steps"] >= 1


def test_loops_that_are_not_watched_are_said(session):
    model = network()
    model.train_on_batch(X, Y)
    model.train_on_batch(X, Y)
    assert session.notes == ["train_on_batch() is not watched: only fit() is"]


def test_error_of_ours_does_not_reach_the_user(session, monkeypatch):
    from stethoscope.recorder import Recorder

    steps, real = iter(range(50)), Recorder.scalar

    def broken(*args, **kwargs):
        if kwargs.get("param") == "learning_rate" and next(steps, None) is None:
            raise KeyError("ours")
        real(*args, **kwargs)

    monkeypatch.setattr(Recorder, "scalar", broken)
    model = network()
    model.fit(X, Y, verbose=0, epochs=200, batch_size=24)
    assert len(session.notes) == 1
    assert "KeyError" in session.notes[0]
    assert model.optimizer.iterations == 200
    report = session.reports[0]
    assert report.verdict is Verdict.UNDETERMINED
    assert "KeyError: 'ours'" in report.reason
    assert report.ran == ()
    assert session.failed
