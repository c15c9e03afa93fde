"""The correlation of predictions with targets, against NumPy's."""

import numpy as np
import pytest

from stethoscope.agreement import correlation

RNG = np.random.default_rng(0)
X, NOISE = RNG.normal(size=(2, 400))


@pytest.mark.parametrize("shape", [(400,), (400, 1)], ids=str)
def test_of_one_value_is_pearsons(shape):
    expected = np.corrcoef(X, X + NOISE)[0, 1]
    assert correlation((X + NOISE).reshape(shape), X) == pytest.approx(expected)


def test_of_images_does_not_count_the_mean_image():
    images = RNG.normal(size=(5, 5)) + 0.1 * RNG.normal(size=(200, 5, 5))
    mean = np.broadcast_to(images.mean(axis=0), images.shape)
    assert correlation(mean + 1e-9 * RNG.normal(size=images.shape), images) == 0.0


@pytest.mark.parametrize("size", [1e-7, 1e-2])
def test_of_a_dead_network_is_none(size):
    """What is left of the input behind ten sigmoid layers goes with the targets, and is nothing."""
    ids = (X > 0).astype(int)
    scores = 0.5 + size * np.stack([-X, X], axis=1)
    found = correlation(scores, ids)
    assert found == 0 if size < 1e-4 else found > 0.5


@pytest.mark.parametrize("axis", [1, None], ids=["first", "last"])
def test_of_classes_is_that_of_one_hot_rows(axis):
    ids = RNG.integers(0, 3, (64, 7))
    scores = 2 * np.eye(3)[ids] + RNG.normal(size=(64, 7, 3))
    shifted = scores + 100 * RNG.normal(size=(64, 7, 1))  # softmax does not see it
    given = np.moveaxis(shifted, -1, 1) if axis == 1 else shifted
    centred = (scores - scores.mean(-1, keepdims=True)).reshape(-1, 3)
    hot = np.eye(3)[ids.reshape(-1)]
    a, b = (centred - centred.mean(0)).ravel(), (hot - hot.mean(0)).ravel()
    expected = (a @ b) / np.sqrt((a @ a) * (b @ b))
    assert correlation(given, ids, axis) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("prediction", "target"),
    [
        (X, np.ones(400)),
        (X, X[:10]),
        (X[:1], X[:1]),
        (np.where(X > 2, np.nan, X), X),
        (X.reshape(-1, 1), np.full(400, -100)),
    ],
    ids=["constant target", "other length", "one sample", "not finite", "all ignored"],
)
def test_what_cannot_be_told(prediction, target):
    assert correlation(prediction, target) is None
