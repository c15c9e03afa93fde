"""Data by name: each array goes to the input or output that Keras gives it to."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import layers as kl

from stethoscope.engine.translate import TranslationError
from stethoscope.keras import matched
from stethoscope.keras.engine_fits import EngineFit
from stethoscope.keras.sources import Recorded
from stethoscope.keras.written_fits import training

if keras.backend.backend() == "tensorflow":
    pytest.skip("the order that TensorFlow draws is not known", allow_module_level=True)

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, 40, 4)).astype("float32")
Y = A.sum(axis=1, keepdims=True)
IDS = RNG.integers(0, 3, 40)


def network(inputs=list, outputs=list):
    """Two inputs and two outputs, neither in the order of their names."""
    keras.utils.set_random_seed(0)
    b, a = keras.Input((4,), name="b"), keras.Input((4,), name="a")
    both = kl.Concatenate()([kl.Dense(3)(b), kl.Dense(3, "tanh")(a)])
    z, c = kl.Dense(1, name="z")(both), kl.Dense(3, "softmax", name="c")(both)
    model = keras.Model(
        [b, a] if inputs is list else {"b": b, "a": a},
        [z, c] if outputs is list else {"z": z, "c": c},
    )
    losses = {"z": "mse", "c": "sparse_categorical_crossentropy"}
    model.compile("sgd", losses if outputs is dict else list(losses.values()))
    return model


GIVEN = {
    "lists": (list, list, [B, A], [Y, IDS]),
    "dicts": (list, list, {"a": A, "b": B}, {"c": IDS, "z": Y}),
    "more-than-needed": (list, list, {"a": A, "b": B, "other": B}, {"c": IDS, "z": Y}),
    "dict-of-inputs": (dict, list, {"a": A, "b": B}, [Y, IDS]),
    "dict-of-outputs": (list, dict, [B, A], {"z": Y, "c": IDS}),
}
FIT = {"epochs": 2, "batch_size": 16, "verbose": 0}


def fit_of(model, x, y, **settings):
    signature = {
        "x": x,
        "y": y,
        "sample_weight": None,
        "class_weight": None,
        "validation_data": None,
        "validation_split": 0.0,
        "shuffle": True,
        "steps_per_epoch": None,
        **FIT,
        **settings,
    }
    return EngineFit(model, signature, Recorded()), signature


def in_keras(name):
    make_in, make_out, x, y = GIVEN[name]
    model = network(make_in, make_out)
    return model.fit(x, y, validation_data=(x, y), **FIT).history


@pytest.mark.parametrize("name", GIVEN)
def test_the_losses_are_those_of_keras(name):
    make_in, make_out, x, y = GIVEN[name]
    expected = in_keras(name)
    model = network(make_in, make_out)
    fit, _ = fit_of(model, x, y, validation_data=(x, y))
    found = fit._train(fit.model, verbose=0).history
    for figure in ("loss", "val_loss"):
        np.testing.assert_allclose(found[figure], expected[figure], rtol=1e-3)


@pytest.mark.parametrize("name", GIVEN)
def test_the_written_data_are_in_the_order_of_the_model(name):
    make_in, make_out, x, y = GIVEN[name]
    expected = in_keras(name)
    fit, given = fit_of(network(make_in, make_out), x, y, validation_data=(x, y))
    written = training(fit, given)
    held_out = (list(written.held_out[0]), list(written.held_out[1]))
    found = fit.model.fit(
        list(written.inputs),
        list(written.targets),
        epochs=2,
        order=written.order,
        validation_data=held_out,
    ).history
    for figure in ("loss", "val_loss"):
        np.testing.assert_allclose(found[figure], expected[figure], rtol=1e-3)


class Rows(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return {"a": A[:20], "b": B[:20]}, {"c": IDS[:20], "z": Y[:20]}


def test_batches_of_a_generator_are_matched_too():
    expected = network().fit(Rows(), epochs=2, verbose=0).history["loss"]
    fit, _ = fit_of(network(), Rows(workers=1), None, batch_size=None)
    found = fit._train(fit.model, verbose=0).history["loss"]
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def simple():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), kl.Reshape((2, 2)), kl.Flatten(), kl.Dense(1)])
    model.compile("sgd", "mse")
    return model


@pytest.mark.filterwarnings("ignore:The structure of `inputs`")
def test_lists_of_one_array_and_held_out_ones():
    settings = {"validation_data": ([A], [Y])}
    expected = simple().fit([A], [Y], **FIT | settings).history
    fit, _ = fit_of(simple(), [A], [Y], **settings)
    found = fit._train(fit.model, verbose=0).history
    for figure, values in expected.items():
        np.testing.assert_allclose(found[figure], values, rtol=1e-3)


def test_a_column_for_samples_that_are_numbers():
    model = keras.Sequential([keras.Input((1,)), kl.Dense(1)])
    (found,) = matched.inputs(model, A[:, 0])
    assert found.shape == (40, 1)


REFUSED = {
    "weights": (network, [B, A], [Y, IDS], {"sample_weight": [Y[:, 0]] * 2}, "for each output"),
    "held-out-generator": (simple, A, Y, {"validation_data": Rows()}, "is a Rows; .*takes arrays"),
    "held-out-inputs-only": (simple, A, Y, {"validation_data": (A,)}, "expected 1 targets, got 0"),
    "held-out-width": (
        simple,
        A,
        Y,
        {"validation_data": (A[:, :3], Y)},
        r"has samples of shape \(4,\); got \(3,\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_known_before_a_step(name):
    make, x, y, settings, message = REFUSED[name]
    with pytest.raises(TranslationError, match=message):
        fit_of(make(), x, y, **settings)


def test_what_is_missing_is_named():
    with pytest.raises(TranslationError, match="nothing for input 'b'; they have 'a', 'c'"):
        matched.inputs(network(), {"a": A, "c": B})
    with pytest.raises(TranslationError, match="nothing for output 'c'; they have 'z'"):
        matched.targets(network(), {"z": Y})
    with pytest.raises(TranslationError, match="expected 2 inputs, got 1"):
        matched.inputs(network(), [A])
