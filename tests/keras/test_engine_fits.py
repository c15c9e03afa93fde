"""`run --engine numpy`: the fits of a Keras script train in the engine, and nobody sees it."""

from __future__ import annotations

import contextlib
import io
import re

import keras
import numpy as np
import pytest
from keras import layers as kl

from stethoscope import engine as numpy_engine
from stethoscope.config import Config
from stethoscope.keras import install
from stethoscope.monitor import Session
from stethoscope.trace import read
from stethoscope.types import Column, Stage, Stat, Verdict

if keras.backend.backend() == "tensorflow":
    pytest.skip("the order that TensorFlow draws is not known", allow_module_level=True)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)).astype("float32")
Y = (X[:, 0] > 0).astype("int64")
FIT = {"epochs": 3, "batch_size": 16, "verbose": 0}


@contextlib.contextmanager
def in_engine(folder, **settings):
    """A session whose fits run in the engine; its reports are there when it is over."""
    config = Config(trace_dir=str(folder), engine="numpy", **settings)
    session = Session(config, script="train.py", stderr=io.StringIO())
    undo = [numpy_engine.install(session), install(session)]
    try:
        yield session
    finally:
        for one in reversed(undo):
            one()
        session.close()


@pytest.fixture
def engine(tmp_path):
    with in_engine(tmp_path) as session:
        yield session


def network(*first, rate=0.01, **compiled):
    keras.utils.set_random_seed(0)
    layers = first or (keras.Input((4,)), kl.Dense(8, "relu"))
    model = keras.Sequential([*layers, kl.Dense(2, "softmax")])
    settings = {"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"], **compiled}
    model.compile(settings.pop("optimizer", None) or keras.optimizers.Adam(rate), **settings)
    return model


def one_unit(**compiled):
    model = keras.Sequential([keras.Input((4,)), kl.Dense(1, "sigmoid")])
    model.compile("adam", "binary_crossentropy", **compiled)
    return model


PROGRAMS = {
    "plain": ({}, {}),
    "validation-split": ({}, {"validation_split": 0.2}),
    "validation-data": ({}, {"validation_data": (X[:20], Y[:20])}),
    "in-order": ({}, {"shuffle": False}),
    "class-weight": ({}, {"class_weight": {0: 1.0, 1: 3.0}}),
    "sample-weight": ({}, {"sample_weight": RNG.uniform(size=120).astype("float32")}),
    "steps": ({}, {"steps_per_epoch": 4}),
}


def trained(**fit):
    model = network()
    history = model.fit(X, Y, **FIT | fit)
    return model, history


@pytest.mark.parametrize("name", PROGRAMS)
def test_history_and_weights_are_those_of_keras(name, tmp_path):
    settings = PROGRAMS[name][1]
    expected, same = trained(**settings)
    with in_engine(tmp_path) as session:
        model, history = trained(**settings)
    assert len(session.reports) == 1
    assert history.epoch == same.epoch
    assert history.history.keys() == same.history.keys()
    for figure, values in same.history.items():
        np.testing.assert_allclose(history.history[figure], values, rtol=1e-3, err_msg=figure)
    assert model.history is history
    for value, other in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        model.evaluate(X, Y, verbose=0), expected.evaluate(X, Y, verbose=0), rtol=1e-3
    )


def test_a_model_that_the_fit_builds(tmp_path):
    """It draws one order more than a model that was built before."""

    def train():
        keras.utils.set_random_seed(0)
        model = keras.Sequential([kl.Dense(8, "relu"), kl.Dense(2, "softmax")])
        model.compile("adam", "sparse_categorical_crossentropy")
        return model.fit(X, Y, **FIT).history["loss"]

    expected = train()
    with in_engine(tmp_path) as session:
        found = train()
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert len(session.reports) == 1


def test_a_second_fit_continues_the_optimizer(tmp_path):
    def train():
        model = network()
        model.fit(X, Y, **FIT)
        second = model.fit(X, Y, **FIT).history["loss"]
        return second, int(model.optimizer.iterations.numpy())

    expected, steps = train()
    with in_engine(tmp_path):
        found, same = train()
    assert same == steps == 48
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_every_stage_is_in_view_and_judged(engine):
    model = network(rate=0.02)
    model.fit(X, Y, **FIT | {"epochs": 15})
    trace = engine._monitors[-1].recorder
    assert trace.program.layers[0].source.file.endswith("test_engine_fits.py")
    (optimizer,), (loss,) = trace.program.optimizers, trace.program.losses
    for source in (optimizer.source, loss.source):
        assert source.file.endswith("test_engine_fits.py")
        assert source.text.startswith("model.compile(settings.pop(")
    engine.close()
    assert engine.reports[-1].verdict is Verdict.HEALTHY
    stored = read(engine.reports[-1].meta["trace"])
    layer = trace.program.layers[0].path
    before = stored[Column(layer, "", Stage.PRE_ACTIVATION, Stat.STD)]
    assert len(before) == 120
    assert np.isfinite(before[:20]).all()


def test_a_schedule_has_a_line_of_its_own(engine):
    rate = keras.optimizers.schedules.ExponentialDecay(0.01, 10, 0.9)
    network(optimizer=keras.optimizers.Adam(rate)).fit(X, Y, **FIT)
    (optimizer,) = engine._monitors[-1].recorder.program.optimizers
    assert optimizer.source.text.startswith("network(optimizer=keras")
    assert optimizer.rate_source.text.startswith("rate = keras")


def test_a_faulty_program(engine):
    model = network(loss="mse", rate=0.0)
    model.fit(X, np.eye(2)[Y], **FIT | {"epochs": 10})
    engine.close()
    assert engine.reports[-1].verdict is Verdict.FAULTY


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (
            network,
            {"callbacks": [keras.callbacks.TerminateOnNaN()]},
            r"fit cannot be run in the engine: it is given callbacks \(TerminateOnNaN\)",
        ),
        (
            network,
            {"initial_epoch": 1},
            "fit cannot be run in the engine: it is given initial_epoch",
        ),
        (
            lambda: network(keras.Input((4,)), kl.UnitNormalization(name="u")),
            {},
            r"layer 'u' \(UnitNormalization, .*test_engine_fits.py:\d+\) cannot be translated: "
            r"the engine has no such layer\.",
        ),
        (
            lambda: one_unit(metrics=["AUC"]),
            {},
            r"metric 'AUC' cannot be translated: the engine has no such metric\.",
        ),
    ],
    ids=["callbacks", "initial-epoch", "layer", "metric"],
)
def test_what_the_engine_cannot_run_trains_in_keras(engine, make, settings, message):
    model = make()
    for _ in range(2):
        history = model.fit(X, Y, **FIT | settings)
    assert history.history["loss"]
    assert len(engine.notes) == 1, engine.notes  # not for every fit
    (note,) = engine.notes
    assert re.fullmatch(message + r"\.? It trains in Keras and is watched there\.", note)
    (report,) = engine.reports
    assert report.meta["framework"] == "keras"
    assert report.meta["steps"] > 0


def test_callbacks_that_need_nothing(engine):
    given = keras.callbacks.History()
    model = network()
    for _ in range(2):
        assert model.fit(X, Y, **FIT | {"callbacks": [given]}) is given
    assert [report.meta["framework"] for report in engine.reports] == ["numpy"] * 2
    assert len(given.history["loss"]) == 6  # as Keras goes on
    assert given.epoch == [0, 1, 2]
    model.fit(X, Y, **FIT | {"callbacks": []})
    assert not engine.notes


def test_params_are_those_of_keras(tmp_path):
    expected = trained()[1].params
    with in_engine(tmp_path):
        assert trained()[1].params == expected


def test_what_only_the_first_step_shows_trains_in_keras(engine, monkeypatch):
    def broken(*_):
        raise ValueError("shapes that do not fit")

    monkeypatch.setattr(numpy_engine.Model, "_measure", broken)
    assert len(network().fit(X, Y, **FIT).history["loss"]) == 3
    (report,) = engine.reports
    assert report.meta["framework"] == "keras"
    assert "shapes that do not fit" in engine.notes[0]


def test_a_fit_that_cannot_be_translated_draws_as_without_us(tmp_path):
    def train():
        keras.utils.set_random_seed(1)
        model = network(keras.Input((4,)), kl.UnitNormalization(), kl.Dense(3))
        return model.fit(X, Y, **FIT).history["loss"]

    expected = train()
    with in_engine(tmp_path):
        found = train()
    assert found == expected


def test_nothing_is_left(tmp_path):
    before = [dict(vars(kind)) for kind in keras.Model.__mro__]
    with in_engine(tmp_path):
        assert [dict(vars(kind)) for kind in keras.Model.__mro__] != before
        network().fit(X, Y, **FIT)
    assert [dict(vars(kind)) for kind in keras.Model.__mro__] == before


def test_overflow_of_float32_only_is_said_to_be_one(engine):
    x = np.full((16, 1), 1e19, "float32") * np.linspace(1, 2, 16, dtype="float32")[:, None]
    model = keras.Sequential([keras.Input((1,)), kl.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(1e-40), "mse")
    model.fit(x, -x, **FIT)
    assert any(
        note.startswith("In float64 the same training stays finite") for note in engine.notes
    )


def test_what_diverges_in_float64_too(engine):
    model = keras.Sequential([keras.Input((4,)), kl.Dense(1)])
    model.compile(keras.optimizers.SGD(1e30), "mse")
    model.fit(X, X[:, :1], **FIT | {"epochs": 8})
    assert any("precision is not the cause" in note for note in engine.notes)


def test_a_fit_that_is_stopped_is_not_repeated(tmp_path):
    with in_engine(tmp_path, on_error="stop") as session:
        model = keras.Sequential([keras.Input((4,)), kl.Dense(1)])
        model.compile(keras.optimizers.SGD(1e30), "mse")
        model.fit(X, X[:, :1], **FIT | {"epochs": 8})
    assert session.reports[0].verdict is Verdict.FAULTY
    assert session.reports[0].meta["steps"] < 64
    assert not session.notes


def test_figures_of_several_outputs_are_those_of_keras(tmp_path):
    def train():
        keras.utils.set_random_seed(0)
        start = keras.Input((4,))
        inner = kl.Dense(8, "tanh")(start)
        outputs = [kl.Dense(2, "softmax", name="cls")(inner), kl.Dense(1, name="reg")(inner)]
        model = keras.Model(start, outputs)
        model.compile(
            "adam",
            ["sparse_categorical_crossentropy", "mse"],
            metrics=[["accuracy"], []],
            loss_weights=[1.0, 0.5],
        )
        held_out = (X[:24], [Y[:24], X[:24, :1]])
        return model.fit(X, [Y, X[:, :1]], validation_data=held_out, **FIT).history

    expected = train()
    with in_engine(tmp_path) as session:
        found = train()
    assert not session.notes
    assert found.keys() == expected.keys() > {"cls_loss", "val_reg_loss", "val_cls_accuracy"}
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-3, err_msg=name)


def rows():
    for start in range(0, 96, 16):
        yield X[start : start + 16], Y[start : start + 16]


def test_a_generator_is_gone_through_once_and_from_its_start(tmp_path):
    settings = {"epochs": 2, "steps_per_epoch": 3, "verbose": 0, "shuffle": False}
    same = network().fit(rows(), **settings).history
    given = rows()
    with in_engine(tmp_path) as session:
        found = network().fit(given, **settings).history
    assert session.reports
    assert list(given) == []  # as many were drawn as Keras draws
    np.testing.assert_allclose(found["loss"], same["loss"], rtol=1e-4)


def test_a_generator_for_a_model_that_is_not_built_is_left_to_keras(tmp_path):
    def fit():
        keras.utils.set_random_seed(0)
        model = keras.Sequential([kl.Dense(2, "softmax")])
        model.compile("sgd", "sparse_categorical_crossentropy")
        return model.fit(rows(), steps_per_epoch=6, verbose=0, shuffle=False).history

    same = fit()
    with in_engine(tmp_path) as session:
        found = fit()
    assert "a generator is gone through once" in session.notes[0]
    assert found == same
