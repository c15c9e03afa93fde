"""Initializers: their distributions, and those of Keras."""

import os

import numpy as np
import pytest

from stethoscope.engine import initializers

os.environ.setdefault("KERAS_BACKEND", "jax")

NOT_THERE = {"Initializer", "STFT", "STFTInitializer", "deserialize", "get", "serialize", "stft"}
"""Public names of keras.initializers that the engine does not have; asking for one is an error."""

SHAPE = (3, 3, 60, 50)
CASES = [
    ("RandomNormal", {}),
    ("RandomNormal", {"mean": 1.0, "stddev": 2.0}),
    ("RandomUniform", {}),
    ("RandomUniform", {"minval": 0.0, "maxval": 3.0}),
    ("TruncatedNormal", {}),
    ("TruncatedNormal", {"mean": 1.0, "stddev": 2.0}),
    *(
        (kind, {})
        for kind in (
            "GlorotNormal",
            "GlorotUniform",
            "HeNormal",
            "HeUniform",
            "LecunNormal",
            "LecunUniform",
            "VarianceScaling",
        )
    ),
    ("VarianceScaling", {"mode": "fan_out", "distribution": "untruncated_normal"}),
    ("VarianceScaling", {"scale": 3.0, "mode": "fan_avg", "distribution": "uniform"}),
]


def told(case):
    return "-".join([case[0], *(f"{k}={v}" for k, v in case[1].items())])


@pytest.mark.parametrize("case", CASES, ids=told)
def test_distribution(case):
    """Mean, deviation and range of 27,000 values."""
    keras = pytest.importorskip("keras")
    kind, settings = case
    rng = np.random.default_rng(0)
    found = getattr(initializers, kind)(**settings)(SHAPE, rng)
    expected = np.asarray(getattr(keras.initializers, kind)(**settings, seed=1)(SHAPE))
    assert found.shape == SHAPE
    assert found.dtype == np.float64
    deviation = float(expected.std())
    assert found.mean() == pytest.approx(expected.mean(), abs=0.03 * deviation)
    assert found.std() == pytest.approx(deviation, rel=0.03)
    if "untruncated" not in told(case) and kind != "RandomNormal":  # what is bounded
        assert found.max() == pytest.approx(expected.max(), abs=0.03 * deviation)
        assert found.min() == pytest.approx(expected.min(), abs=0.03 * deviation)


@pytest.mark.parametrize("shape", [(5,), (4, 6), (3, 4, 6), (2, 3, 4, 6)], ids=str)
def test_fans(shape):
    keras = pytest.importorskip("keras")
    expected = keras.src.initializers.random_initializers.compute_fans(shape)
    assert initializers.fans(shape) == expected


@pytest.mark.parametrize(
    "case", [("Zeros", {}), ("Ones", {}), ("Constant", {"value": 3.0})], ids=told
)
def test_constants(case):
    keras = pytest.importorskip("keras")
    kind, settings = case
    found = getattr(initializers, kind)(**settings)((2, 3), np.random.default_rng(0))
    np.testing.assert_array_equal(found, getattr(keras.initializers, kind)(**settings)((2, 3)))


def test_identity():
    keras = pytest.importorskip("keras")
    found = initializers.Identity(2.0)((2, 3), np.random.default_rng(0))
    np.testing.assert_array_equal(found, keras.initializers.Identity(2.0)((2, 3)))


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (2, 2, 3)], ids=str)
def test_orthogonal(shape):
    found = initializers.Orthogonal(2.0)(shape, np.random.default_rng(0))
    assert found.shape == shape
    flat = found.reshape(-1, shape[-1])
    product = flat.T @ flat if flat.shape[0] >= flat.shape[1] else flat @ flat.T
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


def test_a_seed_of_its_own():
    rng = np.random.default_rng(0)
    seeded = initializers.HeNormal(seed=3)
    np.testing.assert_array_equal(seeded((2, 3), rng), seeded((2, 3), rng))
    free = initializers.HeNormal()
    assert (free((2, 3), rng) != free((2, 3), rng)).all()


def test_names_are_those_of_keras():
    keras = pytest.importorskip("keras")
    public = {name for name in dir(keras.initializers) if not name.startswith("_")}
    assert public >= NOT_THERE
    unnamed = {"Constant", "constant"}  # Keras makes none without its value
    assert all(initializers.get(name) == initializers.Constant(0.0) for name in unnamed)
    for name in public - NOT_THERE - unnamed | {"normal", "uniform", "zero", "one"}:
        config = keras.initializers.get(name).get_config()
        found = initializers.get(name)
        for setting, value in config.items():
            if setting not in ("seed", "input_axes", "output_axes"):
                assert getattr(found, setting) == value, (name, setting)
    for name in NOT_THERE:
        with pytest.raises(ValueError, match="known are"):
            initializers.get(name)


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: initializers.Identity()((2,), rng),
        lambda rng: initializers.Orthogonal()((2,), rng),
        lambda rng: initializers.VarianceScaling(mode="fan"),
        lambda rng: initializers.VarianceScaling(scale=0.0),
        lambda rng: initializers.VarianceScaling(distribution="cauchy"),
    ],
    ids=["identity", "orthogonal", "mode", "scale", "distribution"],
)
def test_what_cannot_be(make):
    with pytest.raises(ValueError, match="got"):
        make(np.random.default_rng(0))
