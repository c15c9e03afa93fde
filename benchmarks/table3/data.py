"""The data of the cases: made, or taken from scikit-learn, with the original's shapes and ranges.

Every function takes a generator and the number of samples, and gives inputs and targets.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import datasets

from table3.cases import Case

Array = npt.NDArray[Any]
Pair = tuple[Array, Array]
Rng = np.random.Generator
SEED = 0  # of all data: what differs between repetitions is the weights and the order


def of(case: Case, rows: int | None = None) -> Pair:
    """Inputs and targets of a case, float32.

    Args:
        case: The program.
        rows: Samples; None takes as many as the case has.
    """
    make = getattr(sys.modules[__name__], case.data)
    count = [] if case.rows is None else [case.rows]
    x, y = make(np.random.default_rng(SEED), *count)
    return x[:rows].astype(np.float32), y[:rows].astype(np.float32)


def digits(rng: Rng, rows: int) -> Pair:
    """28x28 digits in a row, 0..1, and 10 classes."""
    images, labels = _digit_images(rng, rows)
    return images.reshape(rows, -1), np.eye(10)[labels]


def digits_255(rng: Rng, rows: int) -> Pair:
    """The same, as 0..255."""
    x, y = digits(rng, rows)
    return np.round(255 * x), y


def digit_images_scaled_labels(rng: Rng, rows: int) -> Pair:
    """28x28 images, 0..1; the labels divided by 255 as well."""
    images, labels = _digit_images(rng, rows)
    return images[..., None], labels[:, None] / 255


def xor(rng: Rng) -> Pair:
    """The truth table."""
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    return x, x.sum(axis=1, keepdims=True) % 2


def xor_repeated(rng: Rng) -> Pair:
    """The truth table with two of its rows twice."""
    x = np.array([[1, 1], [0, 0], [0, 1], [1, 0], [1, 1], [0, 0]])
    return x, x.sum(axis=1, keepdims=True) % 2


def squares(rng: Rng) -> Pair:
    """Two squares that do not touch, point by point in turn."""
    low = np.tile([0.2, 0.5], 100)[:, None]
    return low + rng.uniform(0, 0.2, (200, 2)), np.tile(np.eye(2), (100, 1))


def partly_negative(rng: Rng) -> Pair:
    """17 rows of a table; some of the targets are below 0."""
    x = rng.normal(0.6, 0.9, (17, 2))
    return x, np.clip(x.mean(axis=1) + rng.normal(0, 0.5, 17), -1.053, 2.712)


def multi_label(rng: Rng, rows: int) -> Pair:
    """Counts of 20 words, 3 topics."""
    return _multi_label(rows, 20, 3)


def one_topic(rng: Rng) -> Pair:
    """Counts of 4 words, 1 topic."""
    x, y = _multi_label(720, 4, 1)
    return x, y[:, 0]


def linear(rng: Rng, rows: int) -> Pair:
    """A linear function of numbers up to 10,000."""
    x = rng.uniform(0, 1e4, (rows, 3))
    return x, x @ [2, 1, 0.5] + 2.2


def ones_and_zeros(rng: Rng, rows: int) -> Pair:
    """Rows of 128 ones, then rows of 128 zeros."""
    y = np.arange(rows) < rows // 2
    return np.repeat(y[:, None], 128, axis=1), y


def letters(rng: Rng) -> Pair:
    """Codes of three letters: 65, 66, 67 or 68, 69, 70, some with another last one."""
    y = np.array([0] * 8 + [1] * 5)
    x = np.where(y[:, None] == 1, [68, 69, 70], [65, 66, 67])
    x[::4, 2] = 135 - x[::4, 2]
    return x, y


def permuted_bits(rng: Rng) -> Pair:
    """All bytes, to be mapped to each other at random."""
    x = np.arange(256)[:, None] >> np.arange(8)[::-1] & 1
    return x, rng.permutation(x)


def noisy_parabola(rng: Rng) -> Pair:
    """5 x^2 with the cube of a normal number."""
    x = np.arange(50)[:, None] / 10
    return x, 5 * x**2 + rng.normal(size=x.shape) ** 3


def census(rng: Rng, rows: int) -> Pair:
    """14 columns of very different scales, 76 to 24."""
    binary = rng.random((rows, 8)) < 0.2
    gains = np.where(rng.random((rows, 2)) < 0.08, rng.uniform(0, [99999, 4356], (rows, 2)), 0)
    age, years, hours = rng.integers([17, 1, 1], [91, 17, 100], (rows, 3)).T
    weight = np.exp(rng.normal(12.0, 0.5, rows)).clip(1.2e4, 1.5e6)
    score = 0.05 * age + 0.25 * years + 0.03 * hours + gains[:, 0] / 5000 + rng.normal(size=rows)
    y = score > np.quantile(score, 0.759)
    return np.column_stack([age, weight, years, gains, hours, binary]), np.eye(2)[y.astype(int)]


def iris(rng: Rng) -> Pair:
    """150 flowers, 3 classes."""
    x, y = datasets.load_iris(return_X_y=True)
    return x, np.eye(3)[y]


def iris_half(rng: Rng) -> Pair:
    """Half of them, not scaled."""
    x, y = iris(rng)
    half = rng.permutation(len(x))[:75]
    return x[half], y[half]


def fourth_power(rng: Rng) -> Pair:
    """x^4 up to 100^4."""
    x = np.arange(-100, 100, 0.5)[:, None]
    return x, x[:, 0] ** 4


def one_label(rng: Rng) -> Pair:
    """A sine and an earlier value of it; every label is 1."""
    wave = np.abs(np.sin(np.linspace(0, 20, 239))) * 0.84
    return np.column_stack([wave, wave - rng.exponential(0.5, 239).clip(0, 2.15)]), np.ones(239)


def counties(rng: Rng) -> Pair:
    """9 rows: people, incomes, percentages; two classes."""
    scales = [6e5, 3e5, 1e5, 5e4, 2e4, 1e4, *[100] * 8, 2, 2]
    x = rng.uniform(0, scales, (9, 16))
    x[:, -2:] -= 1.2
    return x, np.eye(2)[np.arange(9) % 2]


def parabola(rng: Rng) -> Pair:
    """x^2 + 3 of three quarters of 201 points."""
    x = rng.permutation(np.arange(-100, 101) / 10)[:150, None]
    return x, x[:, 0] ** 2 + 3


def photos(rng: Rng, rows: int) -> Pair:
    """150x150 photos, 0..1, three classes in one column."""
    return _textures(rng, rows, 150, 3, 3)


def textures(rng: Rng, rows: int) -> Pair:
    """64x64 photos, 0..1, two classes."""
    x, labels = _textures(rng, rows, 64, 3, 2)
    return x, np.eye(2)[labels]


def colour_images(rng: Rng, rows: int) -> Pair:
    """32x32 photos, 0..255, ten classes."""
    x, labels = _textures(rng, rows, 32, 3, 10)
    return np.round(255 * x), np.eye(10)[labels]


def noise(rng: Rng, rows: int) -> Pair:
    """Nothing to learn, [rows, 5, 1]."""
    return rng.random((rows, 5, 1)), rng.random((rows, 5, 1))


def packets(rng: Rng) -> Pair:
    """21 network packets: two addresses as numbers of 3.2e9 and 9 small ones."""
    addresses = 3.2e9 + rng.integers(0, 1000, (21, 2)) * 256
    rest = rng.integers(0, [65536, 2, 2, 2, 2, 64, 1500, 1500, 600000], (21, 9))
    return np.column_stack([addresses, rest]), np.arange(21) >= 8


def threshold(rng: Rng) -> Pair:
    """Whether a number is below 20,000."""
    x = rng.integers(15041, 24988, (799, 1))
    return x, x < 20000


def passengers(rng: Rng) -> Pair:
    """712 rows: codes of names and tickets, ages, fares, small categories; 62 to 38."""
    codes = rng.integers(0, [891, 891, 681, 148], (712, 4))
    age, fare = rng.normal(30, 13, 712).clip(0, 80), rng.exponential(32, 712).clip(0, 512)
    small = rng.integers(0, [3, 2, 6, 4], (712, 4))
    score = -small[:, 0] + 2 * small[:, 1] + rng.normal(0, 1, 712)
    y = score > np.quantile(score, 0.62)
    return np.column_stack([codes, age, fare, small]), np.eye(2)[y.astype(int)]


def leading_digit(rng: Rng) -> Pair:
    """A number of up to 9 digits; its class is its first digit and its length, 69 of them."""
    lengths, first = rng.integers(0, 9, 1767), rng.integers(1, 10, 1767)
    x = first * 10**lengths + (rng.random(1767) * 10**lengths).astype(int)
    return x[:, None], np.eye(69)[(9 * lengths + first - 1) % 69]


def flows(rng: Rng, rows: int) -> Pair:
    """27 raw counters of network flows, 5 classes, nine of ten in the first."""
    labels = np.where(rng.random(rows) < 0.9, 0, rng.integers(1, 5, rows))
    centres = rng.uniform(0, 10.0 ** rng.integers(0, 6, 27), (5, 27))
    return np.round(centres[labels] * rng.uniform(0.5, 1.5, (rows, 27))), np.eye(5)[labels]


def faces(rng: Rng, rows: int) -> Pair:
    """96x96 pixels in a row with 15 bright points, and where these are, -1..1."""
    places = rng.integers(8, 88, (rows, 15, 2))
    x = rng.uniform(0, 0.3, (rows, 96, 96))
    x[np.arange(rows)[:, None], places[..., 1], places[..., 0]] = 1
    return x.reshape(rows, -1), (places.reshape(rows, -1) - 48) / 48


def clinical(rng: Rng) -> Pair:
    """8 clinical measurements of 768 people, 65 to 35."""
    x = rng.uniform(0, 1, (768, 8)) ** 2 * [17, 199, 122, 99, 846, 67, 2.4, 60] + np.eye(8)[7] * 21
    score = x[:, 1] / 50 + x[:, 5] / 20 + rng.normal(0, 1, 768)
    return x, score > np.quantile(score, 0.65)


def life(rng: Rng) -> Pair:
    """Boards of the Game of Life, 3x3 wrapped to 5x5, and the next state of each cell."""
    board = rng.integers(0, 2, (8000, 3, 3))
    x = np.pad(board, ((0, 0), (1, 1), (1, 1)), "wrap")
    around = sum(x[:, i : i + 3, j : j + 3] for i in range(3) for j in range(3)) - board
    return x[..., None], ((around == 3) | ((around == 2) & (board == 1)))[..., None]


def reviews(rng: Rng, rows: int) -> Pair:
    """Which of 10,000 words occur; a few hundred of them tell the class."""
    y = np.arange(rows) % 2
    share = np.full((2, 10000), 0.012)
    share[:, :300] *= np.where(rng.random(300) < 0.5, [[2.5], [0.5]], [[0.5], [2.5]])
    return rng.random((rows, 10000)) < share[y], y


def averages(rng: Rng, rows: int) -> Pair:
    """Two numbers of 0..1 and their mean."""
    x = rng.integers(0, 101, (rows, 2)) / 100
    return x, x.mean(axis=1)


def _multi_label(rows: int, features: int, classes: int) -> Pair:
    x, y = datasets.make_multilabel_classification(
        n_samples=rows, n_features=features, n_classes=classes, random_state=SEED
    )
    return x, y


def _digit_images(rng: Rng, rows: int) -> Pair:
    """Scikit-learn's 8x8 digits, three times as large, somewhere in 28x28."""
    small, labels = datasets.load_digits(return_X_y=True)
    which = rng.permutation(np.arange(rows) % len(small))
    large = np.kron(small[which].reshape(-1, 8, 8) / 16, np.ones((1, 3, 3)))
    images = np.zeros((rows, 28, 28))
    for image, digit, (top, left) in zip(images, large, rng.integers(0, 5, (rows, 2)), strict=True):
        image[top : top + 24, left : left + 24] = digit
    return images, labels[which]


def _textures(rng: Rng, rows: int, size: int, channels: int, classes: int) -> Pair:
    """Waves whose direction and colours tell the class, with noise."""
    labels = rng.permutation(np.arange(rows) % classes)
    angle = np.pi * labels / classes
    across = np.arange(size) / size
    phase = np.cos(angle)[:, None, None] * across[:, None] + np.sin(angle)[:, None, None] * across
    wave = np.sin(2 * np.pi * (6 * phase + rng.random((rows, 1, 1))))[..., None]
    colour = rng.uniform(0.1, 0.3, (classes, channels))[labels][:, None, None]
    return (0.5 + colour * wave + rng.normal(0, 0.1, (rows, size, size, channels))).clip(
        0, 1
    ), labels
