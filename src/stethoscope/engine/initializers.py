"""First values of weights, with Keras's names, definitions and defaults."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Initializer = Callable[[tuple[int, ...], np.random.Generator], Array]
"""(shape, random numbers) -> float64 array of that shape."""

TRUNCATION = 2.0  # standard deviations, Keras's truncated_normal
TRUNCATED_DEVIATION = 0.87962566103423978  # of a standard normal truncated there


def fans(shape: tuple[int, ...]) -> tuple[float, float]:
    """How many inputs and outputs one unit of a kernel [*window, in, out] has.

    >>> fans((3, 3, 16, 32))
    (144.0, 288.0)
    """
    if len(shape) < 1:
        return 1.0, 1.0
    if len(shape) == 1:
        return float(shape[0]), float(shape[0])
    window = math.prod(shape[:-2])
    return float(shape[-2] * window), float(shape[-1] * window)


@dataclasses.dataclass(frozen=True)
class Constant:
    """Every value the same, or those of an array that is broadcast to the shape."""

    value: npt.ArrayLike = 0.0

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """The values."""
        return np.broadcast_to(np.asarray(self.value, np.float64), shape).copy()


@dataclasses.dataclass(frozen=True)
class Zeros(Constant):
    """Zeros."""

    value: npt.ArrayLike = dataclasses.field(default=0.0, init=False)


@dataclasses.dataclass(frozen=True)
class Ones(Constant):
    """Ones."""

    value: npt.ArrayLike = dataclasses.field(default=1.0, init=False)


@dataclasses.dataclass(frozen=True)
class Identity:
    """The identity matrix times `gain`; ones on the diagonal if it is not square."""

    gain: float = 1.0

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """The values.

        Raises:
            ValueError: The shape is not that of a matrix.
        """
        if len(shape) != 2:
            raise ValueError(f"Identity makes matrices; got shape {shape}: use another one.")
        return self.gain * np.eye(*shape)


@dataclasses.dataclass(frozen=True)
class RandomNormal:
    """Normal values.

    Attributes:
        mean, stddev: Of the distribution.
        seed: Of these values alone, the same at every call; None draws from the model's numbers.
    """

    mean: float = 0.0
    stddev: float = 0.05
    seed: int | None = None

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws the values."""
        return _numbers(self.seed, rng).normal(self.mean, self.stddev, shape)


@dataclasses.dataclass(frozen=True)
class TruncatedNormal:
    """Normal values; those farther than two standard deviations from the mean are drawn again.

    Attributes:
        mean, stddev: Of the distribution before it is truncated.
        seed: As of `RandomNormal`.
    """

    mean: float = 0.0
    stddev: float = 0.05
    seed: int | None = None

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws the values."""
        rng = _numbers(self.seed, rng)
        values = rng.standard_normal(math.prod(shape))
        far = np.flatnonzero(np.abs(values) > TRUNCATION)
        while far.size:
            values[far] = rng.standard_normal(far.size)
            far = far[np.abs(values[far]) > TRUNCATION]
        drawn: Array = self.mean + self.stddev * values.reshape(shape)
        return drawn


@dataclasses.dataclass(frozen=True)
class RandomUniform:
    """Uniform values.

    Attributes:
        minval, maxval: Bounds.
        seed: As of `RandomNormal`.
    """

    minval: float = -0.05
    maxval: float = 0.05
    seed: int | None = None

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws the values."""
        return _numbers(self.seed, rng).uniform(self.minval, self.maxval, shape)


@dataclasses.dataclass(frozen=True)
class VarianceScaling:
    """Random values with mean 0 and variance scale / fan.

    Attributes:
        scale: Factor of the variance.
        mode: "fan_in", "fan_out" or "fan_avg".
        distribution: "uniform", "truncated_normal" (or "normal") or "untruncated_normal".
        seed: As of `RandomNormal`.

    Raises:
        ValueError: A setting is none of these.
    """

    scale: float = 1.0
    mode: str = "fan_in"
    distribution: str = "truncated_normal"
    seed: int | None = None

    def __post_init__(self) -> None:
        modes = ("fan_in", "fan_out", "fan_avg")
        distributions = ("uniform", "truncated_normal", "normal", "untruncated_normal")
        if self.scale <= 0 or self.mode not in modes or self.distribution not in distributions:
            raise ValueError(
                f"VarianceScaling takes a scale above 0, a mode of {', '.join(modes)} and a "
                f"distribution of {', '.join(distributions)}; got {self.scale}, {self.mode!r} and "
                f"{self.distribution!r}."
            )

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws the values."""
        fan_in, fan_out = fans(shape)
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        deviation = math.sqrt(self.scale / max(fan, 1.0))
        if self.distribution == "uniform":
            limit = math.sqrt(3) * deviation
            return RandomUniform(-limit, limit, self.seed)(shape, rng)
        if self.distribution == "untruncated_normal":
            return RandomNormal(0.0, deviation, self.seed)(shape, rng)
        return TruncatedNormal(0.0, deviation / TRUNCATED_DEVIATION, self.seed)(shape, rng)


@dataclasses.dataclass(frozen=True)
class Orthogonal:
    """A random matrix with orthogonal rows or columns, of equal length `gain`.

    All axes but the last are taken together.

    Attributes:
        gain: Length of each row or column, whichever is the shorter list.
        seed: As of `RandomNormal`.

    Source: Saxe et al., "Exact Solutions to the Nonlinear Dynamics of Learning in Deep Linear
    Neural Networks", 2014.
    """

    gain: float = 1.0
    seed: int | None = None

    def __call__(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws the values.

        Raises:
            ValueError: The shape has fewer than two axes.
        """
        if len(shape) < 2:
            raise ValueError(f"Orthogonal needs two axes or more; got shape {shape}.")
        rows, columns = math.prod(shape[:-1]), shape[-1]
        normal = _numbers(self.seed, rng).standard_normal((max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(normal)
        q *= np.sign(np.diag(r))  # otherwise not uniform over the orthogonal matrices
        values: Array = self.gain * (q.T if rows < columns else q).reshape(shape)
        return values


def GlorotUniform(seed: int | None = None) -> VarianceScaling:  # noqa: N802 (as Keras spells it)
    """Uniform, variance 1 / mean of the fans (Glorot and Bengio 2010)."""
    return VarianceScaling(1.0, "fan_avg", "uniform", seed)


def GlorotNormal(seed: int | None = None) -> VarianceScaling:  # noqa: N802
    """Truncated normal, variance 1 / mean of the fans (Glorot and Bengio 2010)."""
    return VarianceScaling(1.0, "fan_avg", "truncated_normal", seed)


def LecunUniform(seed: int | None = None) -> VarianceScaling:  # noqa: N802
    """Uniform, variance 1 / fan-in (LeCun et al. 1998)."""
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


def LecunNormal(seed: int | None = None) -> VarianceScaling:  # noqa: N802
    """Truncated normal, variance 1 / fan-in (LeCun et al. 1998)."""
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


def HeUniform(seed: int | None = None) -> VarianceScaling:  # noqa: N802
    """Uniform, variance 2 / fan-in (He et al. 2015)."""
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


def HeNormal(seed: int | None = None) -> VarianceScaling:  # noqa: N802
    """Truncated normal, variance 2 / fan-in (He et al. 2015)."""
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


def get(initializer: str | Initializer) -> Initializer:
    """The initializer of a name, with its defaults.

    Args:
        initializer: A class's name ("HeNormal"), the same in snake case, or an initializer.

    Raises:
        ValueError: There is none of this name.

    >>> get("he_normal").scale
    2.0
    """
    if not isinstance(initializer, str):
        return initializer
    if initializer not in _NAMED:
        known = ", ".join(sorted(name for name in _NAMED if name.islower()))
        raise ValueError(f"unknown initializer {initializer!r}; known are {known}.")
    return _NAMED[initializer]()


def _numbers(seed: int | None, rng: np.random.Generator) -> np.random.Generator:
    return rng if seed is None else np.random.default_rng(seed)


_MAKERS: tuple[Callable[[], Initializer], ...] = (
    Constant,
    GlorotNormal,
    GlorotUniform,
    HeNormal,
    HeUniform,
    Identity,
    LecunNormal,
    LecunUniform,
    Ones,
    Orthogonal,
    RandomNormal,
    RandomUniform,
    TruncatedNormal,
    VarianceScaling,
    Zeros,
)
_NAMED: dict[str, Callable[[], Initializer]] = {
    **{maker.__name__: maker for maker in _MAKERS},
    **{re.sub(r"(?<!^)(?=[A-Z])", "_", maker.__name__).lower(): maker for maker in _MAKERS},
    "IdentityInitializer": Identity,
    "OrthogonalInitializer": Orthogonal,
    "normal": RandomNormal,
    "one": Ones,
    "uniform": RandomUniform,
    "zero": Zeros,
}
