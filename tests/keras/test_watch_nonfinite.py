"""The first non-finite tensor of a Keras fit is named with its stage, step, layer and rows."""

import keras
import numpy as np
import pytest
from keras import layers as kl

from stethoscope import trace
from stethoscope.keras import Stethoscope

pytestmark = pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="no activations and gradients there yet"
)

BATCH, STEPS = 8, 50
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH * STEPS, 4)).astype("float32")
Y = RNG.normal(size=(BATCH * STEPS, 1)).astype("float32")


class Root(kl.Layer):
    """Finite for finite inputs of 0 or more; its gradient is infinite at 0."""

    def call(self, x):
        return keras.ops.sqrt(x * x)


class Log(kl.Layer):
    def call(self, x):
        return keras.ops.log(x)


def network(middle=None, optimizer="sgd"):
    keras.utils.set_random_seed(0)
    layers = [keras.Input((4,)), kl.Dense(6, activation="tanh", name="first"), kl.Dropout(0.2)]
    layers += [middle] if middle is not None else []
    model = keras.Sequential([*layers, kl.Dense(1, name="last")])
    model.compile(optimizer, "mse")
    return model


def first_event(model, x, y, tmp_path):
    scope = Stethoscope(quiet=True, trace_dir=str(tmp_path))
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[scope])
    assert scope._fits.session.notes == []
    events = trace.read(scope.report.meta["trace"]).events
    step, event = next((step, e) for step, e in events if e.kind == "nonfinite")
    return step, event.payload


@pytest.mark.parametrize(
    ("step", "stage"),
    [(5, "input"), (20, "target"), (30, "target"), (37, "input"), (48, "target")],
)
def test_bad_row_in_the_data(step, stage, tmp_path):
    x, y = X.copy(), Y.copy()
    (x if stage == "input" else y)[step * BATCH + 3, 0] = np.nan
    found, event = first_event(network(), x, y, tmp_path)
    assert (found, event["stage"], event["rows"]) == (step, stage, [3])
    assert (event["param"], event["what"]) == ("0", "nan")


def test_layer_whose_output_is_not_finite(tmp_path):
    step, event = first_event(network(Log(name="log")), X, Y, tmp_path)
    assert (step, event["stage"], event["layer"]) == (0, "output", "log")


def test_gradient_that_is_not_finite_while_the_forward_pass_is(tmp_path):
    found, event = first_event(network(Root(name="root")), X, Y, tmp_path)
    assert event["stage"] == "output_grad"
    assert event["layer"].startswith("dropout")
    assert found == 0  # the dropout before the root makes exact zeros from the first step on


@pytest.mark.parametrize("step", [6, 29])
def test_update_that_is_not_finite_while_the_gradient_is(step, tmp_path):
    class Rate(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, number):
            number = keras.ops.cast(number, "float32")
            return keras.ops.where(number == step, 1e38, 1e-4) * 100.0

    model = network(optimizer=keras.optimizers.SGD(Rate()))
    found, event = first_event(model, X, Y * 0 + 5, tmp_path)
    assert (found, event["stage"]) == (step, "update")


def test_healthy_training_has_no_event(tmp_path):
    scope = Stethoscope(quiet=True, trace_dir=str(tmp_path))
    network().fit(X, Y, batch_size=BATCH, verbose=0, callbacks=[scope])
    events = trace.read(scope.report.meta["trace"]).events
    assert [event for _, event in events if event.kind == "nonfinite"] == []
