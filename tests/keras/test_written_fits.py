"""The fits that `stethoscope translate` hands to the engine: every way to give data."""

import keras
import numpy as np
import pytest
from keras import layers

from stethoscope.engine.translate.write import program
from stethoscope.keras import written_fits

if keras.backend.backend() == "tensorflow":
    pytest.skip("the order that TensorFlow draws cannot be drawn again", allow_module_level=True)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(100, 4))
Y = X[:, :1] * 2 + X[:, 1:2] ** 2
FIT = {"epochs": 3, "batch_size": 16, "verbose": 0}


class Rows(keras.utils.PyDataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return X[index * 20 : index * 20 + 20], Y[index * 20 : index * 20 + 20]


class TakenError(Exception):
    pass


class Taker:
    def called(self):
        return True

    def take(self, model, training, source):
        self.model, self.training, self.source = model, training, source
        raise TakenError

    def refuse(self, reason, source):
        self.reason = reason
        raise TakenError


def network():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), layers.Dense(4, "tanh"), layers.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"])
    return model


def taken(*data, **settings):
    taker = Taker()
    uninstall = written_fits.install(taker)
    try:
        with pytest.raises(TakenError):
            network().fit(*data, **settings)
    finally:
        uninstall()
    return taker


FITS = {
    "plain": ((X, Y), FIT),
    "in-order": ((X, Y), {**FIT, "shuffle": False}),
    "some-steps": ((X, Y), {**FIT, "steps_per_epoch": 2}),
    "class-weight": ((X, X[:, 0] > 0), {**FIT, "class_weight": {0: 1, 1: 3}}),
    "sample-weight": ((X, Y), {**FIT, "sample_weight": np.linspace(0, 1, 100)}),
    "weighted-held-out": (
        (X, Y),
        {**FIT, "validation_split": 0.2, "sample_weight": np.linspace(0, 1, 100)},
    ),
    "held-out": ((X, Y), {**FIT, "validation_split": 0.2}),
    "generator": ((Rows(),), {"epochs": 3, "verbose": 0}),
}


@pytest.mark.parametrize("name", FITS)
def test_the_written_program_trains_to_the_numbers_of_keras(name, tmp_path, monkeypatch):
    data, settings = FITS[name]
    expected = network().fit(*data, **settings).history
    taker = taken(*data, **settings)
    path = tmp_path / "imperative.py"
    program(taker.model, taker.training, path=path.name, origin=taker.source).save(path)
    monkeypatch.chdir(tmp_path)
    namespace = {"__file__": str(path), "__name__": "__main__"}
    exec(compile(path.read_text(), path, "exec"), namespace)
    found = namespace["history"].history
    assert found.keys() == expected.keys()
    for figure, values in expected.items():
        np.testing.assert_allclose(found[figure], values, rtol=1e-3, err_msg=figure)


@pytest.mark.parametrize(
    ("data", "settings", "reason"),
    [
        ((X,), FIT, "no targets"),
        ((X, Y), {**FIT, "callbacks": [keras.callbacks.TerminateOnNaN()]}, "given callbacks"),
    ],
    ids=["no-targets", "callbacks"],
)
def test_what_is_refused(data, settings, reason):
    assert reason in taken(*data, **settings).reason


def test_a_generator_of_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(written_fits, "MOST_BYTES", 2**10)
    assert "give it arrays, or fewer epochs" in taken(Rows(), epochs=3, verbose=0).reason


def test_nothing_is_left():
    before = [dict(vars(kind)) for kind in keras.Model.__mro__]
    taken(X, Y, **FIT)
    assert [dict(vars(kind)) for kind in keras.Model.__mro__] == before
