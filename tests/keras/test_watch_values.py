"""What a watched Keras fit records, against values computed by hand."""

import contextlib
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers as kl

from stethoscope import stats, trace
from stethoscope.keras import Stethoscope
from stethoscope.types import Phase, Slot, Stage, Stat, Verdict

ROWS, BATCH, RATE = 22, 8, 0.25  # three batches an epoch, the last of 6 rows
SEEN = keras.backend.backend() != "tensorflow"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 4)).astype("float32")
Y = (X[:, :1] > 0).astype("float32")
SLICES = [slice(i, i + BATCH) for i in range(0, ROWS, BATCH)]


def fit(model, x=X, y=Y, epochs=1, tmp_path=None, **given):
    scope = Stethoscope(quiet=True, trace_dir=str(tmp_path), **given.pop("settings", {}))
    model.fit(
        x,
        y,
        batch_size=BATCH,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=[scope],
        **given,
    )
    assert scope._fits.session.notes == []
    return scope, list(trace.read(scope.report.meta["trace"]).rows())


def network(rate=RATE, metrics=("accuracy",)):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            kl.Dense(3, activation="tanh", name="hidden"),
            kl.Dense(1, activation="sigmoid", name="end"),
        ]
    )
    model.compile(keras.optimizers.SGD(rate), "binary_crossentropy", metrics=list(metrics))
    return model


def by_hand(weights, x, y):
    """Forward and backward of `network` in float64."""
    w1, b1, w2, b2 = (w.astype(np.float64) for w in weights)
    z1 = x @ w1 + b1
    h = np.tanh(z1)
    z2 = h @ w2 + b2
    p = 1 / (1 + np.exp(-z2))
    n = len(x)
    dz2 = (p - y) / n
    dp = (p - y) / (p * (1 - p)) / n
    dh = dz2 @ w2.T
    dz1 = dh * (1 - h * h)
    return {
        "loss": float(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))),
        "accuracy": float(np.mean((p > 0.5) == y)),
        ("hidden", "", Stage.PRE_ACTIVATION): z1,
        ("hidden", "", Stage.OUTPUT): h,
        ("end", "", Stage.PRE_ACTIVATION): z2,
        ("end", "", Stage.OUTPUT): p,
        ("end", "", Stage.OUTPUT_GRAD): dp,
        ("hidden", "", Stage.OUTPUT_GRAD): dh,
        ("hidden", "kernel", Stage.WEIGHT_GRAD): x.T @ dz1,
        ("end", "bias", Stage.WEIGHT_GRAD): dz2.sum(axis=0),
        ("hidden", "kernel", Stage.UPDATE): -RATE * (x.T @ dz1),
        ("hidden", "kernel", Stage.WEIGHT): w1,
        ("", "0", Stage.INPUT): x,
        ("", "0", Stage.TARGET): y,
    }


@pytest.mark.skipif(not SEEN, reason="the TensorFlow backend shows no activations yet")
def test_every_stage_of_a_step_equals_the_hand_computed_one(tmp_path):
    model = network()
    before = model.get_weights()
    _, rows = fit(model, tmp_path=tmp_path)
    wanted = by_hand(before, X[SLICES[0]], Y[SLICES[0]])
    for key in (key for key in wanted if isinstance(key, tuple)):
        slot = Slot(*key)
        reference = stats.describe(wanted[key])
        for stat in (Stat.MEAN, Stat.STD, Stat.MIN, Stat.MAX, Stat.NORM, Stat.COUNT):
            value = rows[0].get(slot, stat)
            close = pytest.approx(reference[stats.POSITION[stat]], rel=2e-4, abs=2e-6)
            assert value == close, (slot, stat)


def test_loss_and_metric_are_those_of_each_batch(tmp_path):
    model = network(rate=0.0)
    weights = model.get_weights()
    _, rows = fit(model, epochs=10, tmp_path=tmp_path)
    assert len(rows) == 30
    assert any(not row.probed for row in rows)
    for i, row in enumerate(rows):
        part = SLICES[i % 3]
        wanted = by_hand(weights, X[part], Y[part])
        assert row.scalar(Stage.LOSS) == pytest.approx(wanted["loss"], rel=1e-4), i
        accuracy = row.scalar(Stage.METRIC, param="accuracy")
        assert accuracy == pytest.approx(wanted["accuracy"], rel=1e-4), i
        assert (row.step, row.epoch, row.batch) == (i, i // 3, i % 3)
        assert row.scalar(Stage.HYPER, param="learning_rate") == 0.0


def test_validation_is_apart_from_training(tmp_path):
    model = network(rate=0.0)
    weights = model.get_weights()
    x, y = X[::-1].copy() + 1, Y[::-1].copy()
    _, rows = fit(model, epochs=2, tmp_path=tmp_path, validation_data=(x, y))
    ends = [row for row in rows if row.kind == "epoch"]
    assert [row.epoch for row in ends] == [0, 1]
    wanted = by_hand(weights, x, y)
    loss = ends[0].scalar(Stage.LOSS, phase=Phase.VALIDATION)
    assert loss == pytest.approx(wanted["loss"], rel=1e-4)
    first = by_hand(weights, X[SLICES[0]], Y[SLICES[0]])
    assert rows[0].scalar(Stage.LOSS) == pytest.approx(first["loss"], rel=1e-4)
    assert np.isnan(rows[0].scalar(Stage.LOSS, phase=Phase.VALIDATION))


def test_each_output_has_its_own_loss(tmp_path):
    inputs = keras.Input((4,))
    ends = [kl.Dense(1, name="left")(inputs), kl.Dense(1, name="right")(inputs)]
    model = keras.Model(inputs, ends)
    model.compile("sgd", ["mse", "mae"], loss_weights=[1.0, 0.5])
    left, right = (np.asarray(v) for v in model.predict(X[:BATCH], verbose=0))
    _, rows = fit(model, y=[Y, Y], tmp_path=tmp_path)
    wanted = np.mean((left - Y[:BATCH]) ** 2), np.mean(abs(right - Y[:BATCH]))
    assert rows[0].scalar(Stage.LOSS, param="left") == pytest.approx(wanted[0], rel=1e-4)
    assert rows[0].scalar(Stage.LOSS, param="right") == pytest.approx(wanted[1], rel=1e-4)
    assert rows[0].scalar(Stage.LOSS) == pytest.approx(wanted[0] + wanted[1] / 2, rel=1e-4)


def test_scheduled_learning_rate_is_that_of_each_step(tmp_path):
    model = network()
    schedule = keras.optimizers.schedules.InverseTimeDecay(0.1, 1, 1.0)
    model.compile(keras.optimizers.SGD(schedule), "mse")
    _, rows = fit(model, epochs=9, tmp_path=tmp_path)
    rates = [row.scalar(Stage.HYPER, param="learning_rate") for row in rows]
    assert rates == pytest.approx([0.1 / (1 + i) for i in range(27)], rel=1e-5)


def test_facts_of_whole_arrays_are_complete_before_the_first_step(tmp_path):
    _, rows = fit(network(), tmp_path=tmp_path)
    program = rows[0].program
    assert program.inputs[0].complete
    assert program.inputs[0].max == pytest.approx(X.max())
    assert program.targets[0].class_counts == ((0.0, (Y == 0).sum()), (1.0, (Y == 1).sum()))
    assert (program.fit.epochs, program.fit.batch_size, program.fit.shuffle) == (1, BATCH, False)
    assert program.losses[0].target_shape == (BATCH, 1)
    assert program.fit.source.file.endswith("test_watch_values.py")
    assert "model.fit(" in program.fit.source.text


@pytest.mark.skipif(not SEEN, reason="the TensorFlow backend shows no activations yet")
def test_data_of_a_generator_is_looked_at_batch_by_batch(tmp_path):
    def batches():
        while True:
            yield X[:BATCH], Y[:BATCH]

    scope = Stethoscope(quiet=True, trace_dir=str(tmp_path))
    network().fit(batches(), steps_per_epoch=6, shuffle=False, verbose=0, callbacks=[scope])
    program = list(trace.read(scope.report.meta["trace"]).rows())[-1].program
    assert not program.inputs[0].complete
    assert program.inputs[0].rows_seen == 5 * BATCH  # the Program is told after 1, 2, 5 batches
    assert program.losses[0].prediction_shape == (BATCH, 1)


def test_second_fit_of_one_callback_is_a_run_of_its_own(tmp_path):
    model = network()
    scope = Stethoscope(quiet=True, trace_dir=str(tmp_path))
    for _ in range(2):
        model.fit(X, Y, verbose=0, callbacks=[scope])
    assert [report.meta["steps"] for report in scope.reports] == [1, 1]


def test_disabled_callback_does_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("STETHOSCOPE_DISABLE", "1")
    scope = Stethoscope(trace_dir=str(tmp_path / "none"))
    network().fit(X, Y, verbose=0, callbacks=[scope])
    assert scope.report.verdict is Verdict.UNDETERMINED
    assert scope.report.reason == "watching is switched off"
    assert not (tmp_path / "none").exists()


@pytest.mark.skipif(SEEN, reason="only TensorFlow's graph is not seen")
def test_rules_that_cannot_run_say_which_backend_shows_more(tmp_path):
    scope, _ = fit(network(), tmp_path=tmp_path)
    reasons = {code: why for code, why in scope.report.skipped.items() if "JAX" not in why}
    assert reasons == {}
    assert len(scope.report.skipped) > 5


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="of JAX's train_function")
def test_a_keras_that_hands_over_lists_trains_unwatched(tmp_path, monkeypatch):
    from stethoscope.keras.jax_watch import JaxWatch

    run = JaxWatch.run

    def as_in_keras_3_6(self, original, state, iterator):
        return run(self, lambda state, data: original(state, iter(data)), state, [next(iterator)])

    monkeypatch.setattr(JaxWatch, "run", as_in_keras_3_6)
    model = network()
    scope = Stethoscope(quiet=True, trace_dir=str(tmp_path))
    history = model.fit(X, Y, batch_size=BATCH, epochs=2, verbose=0, callbacks=[scope])
    assert len(history.history["loss"]) == 2
    assert "expected an iterator" in scope.report.reason
    assert scope.report.verdict is Verdict.UNDETERMINED


def test_before_any_fit_there_is_a_report(tmp_path):
    report = Stethoscope(trace_dir=str(tmp_path)).report
    assert (report.verdict, report.reason) == (Verdict.UNDETERMINED, "no fit was seen")


def test_a_fit_that_cannot_be_watched_says_why(tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("of ours")

    monkeypatch.setattr("stethoscope.keras.fits.Fits.begin", broken)
    scope = Stethoscope(quiet=True, trace_dir=str(tmp_path))
    network().fit(X, Y, verbose=0, callbacks=[scope])
    assert scope.report.verdict is Verdict.UNDETERMINED
    assert "RuntimeError: of ours" in scope.report.reason


def test_a_full_disk_under_stderr_does_not_end_the_fit(tmp_path, monkeypatch):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stderr", full)
        scope = Stethoscope(trace_dir=str(tmp_path))
        network().fit(X, Y, verbose=0, callbacks=[scope])
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()
    assert scope.report.meta["steps"] == 1
