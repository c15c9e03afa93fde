"""Each batch's own loss and metrics, against values computed by hand in NumPy."""

import math

import keras
import numpy as np
import pytest
from keras import layers as kl

from stethoscope.keras.batch_values import difference, unseen_metrics
from stethoscope.keras.meters import Meters

ROWS, BATCH, EPOCHS = 14, 4, 3  # 4 batches an epoch, the last of 2 rows
SLICES = [slice(start, start + BATCH) for start in range(0, ROWS, BATCH)]


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ((0.0, 0.0), (6.0, 4.0), 1.5),
        ((6.0, 4.0), (9.0, 6.0), 1.5),
        ((6.0, 4.0), (math.inf, 6.0), math.inf),
        ((6.0, 4.0), (math.nan, 6.0), math.nan),
        ((math.nan, 4.0), (math.nan, 6.0), math.nan),
        ((math.inf, 4.0), (math.inf, 6.0), math.nan),
        ((6.0, 4.0), (6.0, 4.0), math.nan),
    ],
)
def test_difference_of_two_readings(before, after, wanted):
    assert difference(before, after) == pytest.approx(wanted, nan_ok=True)


class Listener(keras.callbacks.Callback):
    """Reads the totals and counts after every batch of the training and of the validation."""

    def __init__(self):
        super().__init__()
        self.train, self.validation = [], []

    def on_epoch_begin(self, epoch, logs=None):
        self.before = None

    def on_test_begin(self, logs=None):
        self.before = None

    def on_train_batch_end(self, batch, logs=None):
        self.train.append(self.read())

    def on_test_batch_end(self, batch, logs=None):
        self.validation.append(self.read())

    def read(self):
        """(loss, losses of the outputs, metrics) of the batch that ended."""
        meters = Meters(self.model)
        state = getattr(self.model, "_jax_state", None)
        if state is None:
            values = [v.value for v in meters.variables]
        else:  # in the middle of fit the variables of a JAX model are empty
            values = [state["metrics_variables"][place] for place in meters.places]
        after = np.array([keras.ops.convert_to_numpy(v) for v in values], dtype=np.float64)
        before = np.zeros_like(after) if self.before is None else self.before
        self.before = after
        return meters.difference(before, after)


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 3)).astype("float32")
    y = rng.integers(0, 2, size=(ROWS, 1)).astype("float32")
    return x, y, rng.uniform(0.5, 2.0, size=ROWS).astype("float32")


def still_model(*metrics, weighted=None, **options):
    """A model with a learning rate of 0: what it predicts is known for every batch."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), kl.Dense(1, activation="sigmoid")])
    rate = keras.optimizers.SGD(0.0)
    model.compile(rate, "mse", metrics=list(metrics), weighted_metrics=weighted, **options)
    return model


def predicted(model, x):
    kernel, bias = (v.value for v in model.layers[-1].weights)
    kernel, bias = (keras.ops.convert_to_numpy(v) for v in (kernel, bias))
    return 1 / (1 + np.exp(-(x.astype("float64") @ kernel + bias)))


def test_loss_and_metrics_of_each_batch_over_epochs_and_a_ragged_batch():
    x, y, _ = data()
    model = still_model("accuracy", keras.metrics.RootMeanSquaredError(name="rmse"))
    listener = Listener()
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0, callbacks=[listener])
    p = predicted(model, x)
    losses = [float(((p[s] - y[s]) ** 2).mean()) for s in SLICES]
    accuracy = [float(((p[s] > 0.5) == (y[s] > 0.5)).mean()) for s in SLICES]
    assert len(set(losses)) == len(SLICES)
    assert [loss for loss, _, _ in listener.train] == pytest.approx(losses * EPOCHS, rel=1e-5)
    found = [metrics["accuracy"] for _, _, metrics in listener.train]
    assert found == pytest.approx(accuracy * EPOCHS, abs=1e-6)
    found = [metrics["rmse"] for _, _, metrics in listener.train]
    assert found == pytest.approx([math.sqrt(v) for v in losses] * EPOCHS, rel=1e-5)


def test_sample_weights_weigh_the_loss_and_only_the_weighted_metrics():
    x, y, w = data()
    model = still_model("mae", weighted=["accuracy"])
    listener = Listener()
    model.fit(x, y, sample_weight=w, batch_size=BATCH, shuffle=False, verbose=0,
              callbacks=[listener])  # fmt: skip
    p = predicted(model, x)
    right = ((p > 0.5) == (y > 0.5)).astype("float64")[:, 0]
    for (loss, _, metrics), s in zip(listener.train, SLICES, strict=True):
        # Keras divides the weighted sum by the number of rows.
        assert loss == pytest.approx((w[s] * ((p - y) ** 2)[s, 0]).sum() / len(w[s]), rel=1e-5)
        assert metrics["mae"] == pytest.approx(np.abs(p - y)[s].mean(), rel=1e-5)
        assert metrics["accuracy"] == pytest.approx((w[s] * right[s]).sum() / w[s].sum(), rel=1e-5)


def test_the_values_follow_the_weights_while_the_model_learns():
    x, y, _ = data()
    model = still_model("mae")
    model.optimizer.learning_rate = 0.5
    listener = Listener()
    before = predicted(model, x)
    model.fit(x, y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0, callbacks=[listener])
    first = float(((before[SLICES[0]] - y[SLICES[0]]) ** 2).mean())
    assert listener.train[0][0] == pytest.approx(first, rel=1e-5)
    assert listener.train[len(SLICES)][0] < first


def test_validation_batches_are_apart_from_training():
    x, y, _ = data()
    model = still_model("mae")
    listener = Listener()
    model.fit(x[:8], y[:8], validation_data=(x[8:], y[8:]), batch_size=BATCH, epochs=2,
              shuffle=False, verbose=0, callbacks=[listener])  # fmt: skip
    p = predicted(model, x)

    def losses(*slices):
        return [float(((p[s] - y[s]) ** 2).mean()) for s in slices]

    train = losses(slice(0, 4), slice(4, 8))
    validation = losses(slice(8, 12), slice(12, 14))
    assert [loss for loss, _, _ in listener.train] == pytest.approx(train * 2, rel=1e-5)
    assert [loss for loss, _, _ in listener.validation] == pytest.approx(validation * 2, rel=1e-5)


def test_the_loss_of_each_output_is_told_beside_the_total():
    x, y, _ = data()
    keras.utils.set_random_seed(2)
    given = keras.Input((3,))
    model = keras.Model(given, [kl.Dense(1, name="a")(given), kl.Dense(1, name="b")(given)])
    model.compile(keras.optimizers.SGD(0.0), ["mse", "mae"], loss_weights=[1.0, 3.0],
                  metrics={"a": "mae"})  # fmt: skip
    listener = Listener()
    model.fit(x, [y, y], batch_size=BATCH, shuffle=False, verbose=0, callbacks=[listener])
    values = [[keras.ops.convert_to_numpy(v.value) for v in layer.weights]
              for layer in model.layers[1:]]  # fmt: skip
    a, b = (x @ kernel + bias for kernel, bias in values)
    for (loss, outputs, metrics), s in zip(listener.train, SLICES, strict=True):
        mse, mae = ((a[s] - y[s]) ** 2).mean(), np.abs(b[s] - y[s]).mean()
        assert loss == pytest.approx(mse + 3 * mae, rel=1e-4)
        assert outputs["a"] == pytest.approx(mse, rel=1e-4)
        assert outputs["b"] == pytest.approx(mae, rel=1e-4)
        assert metrics["a_mae"] == pytest.approx(np.abs(a[s] - y[s]).mean(), rel=1e-4)


def test_a_metric_that_is_no_mean_is_declared_unseen():
    x, y, _ = data()
    model = still_model("accuracy", keras.metrics.AUC(name="auc"), keras.metrics.F1Score(name="f1"))
    assert set(unseen_metrics(model)) == {"metric auc", "metric f1"}
    listener = Listener()
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[listener])
    assert set(unseen_metrics(model)) == {"metric auc", "metric f1"}
    assert set(listener.train[0][2]) == {"accuracy"}


def test_a_nan_loss_is_nan_in_its_batch_and_untold_until_the_epoch_ends():
    x, y, _ = data()
    x[5, 0] = np.nan
    model = still_model()
    listener = Listener()
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[listener])
    first, second, third, fourth = (loss for loss, _, _ in listener.train)
    assert math.isfinite(first)
    assert math.isnan(second)
    assert third is None and fourth is None


class OwnStep(keras.Model):
    """A training step with a loss tracker of its own, as in Keras's guides."""

    def __init__(self):
        super().__init__()
        self.dense = kl.Dense(1)
        self.own = keras.metrics.Mean(name="loss")

    def call(self, x):
        return self.dense(x)

    @property
    def metrics(self):
        return [self.own]

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = keras.ops.mean((y - y_pred) ** 2)
        self.own.update_state(loss)
        return loss


def test_a_loss_tracker_of_the_models_own_is_read():
    x, y, _ = data()
    model = OwnStep()
    model.compile(keras.optimizers.SGD(0.0))
    listener = Listener()
    model.fit(x, y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0, callbacks=[listener])
    kernel, bias = (keras.ops.convert_to_numpy(v.value) for v in model.dense.weights)
    p = x @ kernel + bias
    losses = [float(((p[s] - y[s]) ** 2).mean()) for s in SLICES]
    assert [loss for loss, _, _ in listener.train] == pytest.approx(losses * 2, rel=1e-4)
