"""The callback of a user's script under `stethoscope run`: one fit, one report."""

import io

import keras
import numpy as np
import pytest
from keras import layers as kl

from stethoscope import engine as numpy_engine
from stethoscope.config import Config
from stethoscope.keras import Stethoscope, install
from stethoscope.monitor import Session
from stethoscope.types import Verdict

if keras.backend.backend() == "tensorflow":
    pytest.skip("the order that TensorFlow draws is not known", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax")

X = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
Y = (X[:, :1] > 0).astype("float32")


@pytest.fixture(params=["native", "numpy"], ids=["in-keras", "in-engine"])
def session(request, tmp_path):
    config = Config(trace_dir=str(tmp_path), engine=request.param)
    session = Session(config, script="train.py", stderr=io.StringIO())
    undo = [numpy_engine.install(session), install(session)]
    yield session
    for one in reversed(undo):
        one()
    session.close()


def network():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), kl.Dense(1, "softmax")])
    model.compile("adam", "binary_crossentropy")
    return model


def given(callback, model):
    return keras.callbacks.CallbackList(
        [callback], add_history=True, model=model, epochs=2, steps=2, verbose=0
    )


@pytest.mark.parametrize(
    "callbacks",
    [
        lambda one, model: [one],
        lambda one, model: one,
        lambda one, model: [Stethoscope(), one],
        given,
    ],
    ids=["list", "alone", "two", "callback-list"],
)
def test_one_fit_one_report(session, callbacks, capsys, tmp_path):
    callback, model = Stethoscope(), network()
    model.fit(X, Y, epochs=2, verbose=0, callbacks=callbacks(callback, model))
    (report,) = session.reports
    assert report.verdict is Verdict.FAULTY
    assert callback.report.verdict is Verdict.FAULTY
    assert [one.meta["trace"] for one in callback.reports] == [report.meta["trace"]]
    assert len(list(tmp_path.glob("*.sqlite"))) == 1
    assert "FAULTY" not in capsys.readouterr().err


def test_settings_of_the_callback_do_not_hold(session, capsys, tmp_path):
    model = network()
    callback = Stethoscope(trace_dir=str(tmp_path / "other"))
    for _ in range(2):
        model.fit(X, Y, epochs=1, verbose=0, callbacks=[callback])
    assert capsys.readouterr().err.count("this fit is watched already") == 1
    assert not (tmp_path / "other").exists()
    assert len(callback.reports) == 2


def test_a_callback_that_is_switched_off_sees_nothing(session):
    callback = Stethoscope(disable=True)
    network().fit(X, Y, epochs=1, verbose=0, callbacks=[callback])
    assert len(session.reports) == 1
    assert callback.reports == []


def test_a_fit_that_fails(session):
    def rows():
        yield X[:8], Y[:8]
        raise OSError("the data is gone")

    callback = Stethoscope()
    with pytest.raises(Exception, match="the data is gone"):
        network().fit(rows(), epochs=1, verbose=0, shuffle=False, callbacks=[callback])
    assert len(callback.reports) <= 1
    network().fit(X, Y, epochs=1, verbose=0, callbacks=[callback])
    assert callback.reports[-1].meta["trace"] == session.reports[-1].meta["trace"]
