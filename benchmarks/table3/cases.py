"""The programs to compare on: `cases.toml`, read."""

from __future__ import annotations

import dataclasses
import functools
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("cases.toml")


@dataclasses.dataclass(frozen=True)
class Figures:
    """What the paper printed; NaN where it printed NaN, None where it printed nothing."""

    loss: float | None = None
    accuracy: float | None = None
    seconds: float | None = None


@dataclasses.dataclass(frozen=True)
class Case:
    """One program.

    Attributes:
        name: Number of the post, or GH and the paper's number.
        topic: What the program is about.
        layers: Keras class (`type`) and arguments of each layer.
        optimizer: Keras class (`name`) and arguments; `decay` as Keras 2 had it.
        loss, metrics, batch_size, epochs: Of `compile` and `fit`.
        data: Function of `data.py`.
        parameters: How many the paper counts.
        rows: Samples, where fewer than in the original.
        cut: What was shortened; "" for nothing.
        paper_keras, paper_library: The figures of the paper.
    """

    name: str
    topic: str
    layers: tuple[Mapping[str, Any], ...]
    optimizer: Mapping[str, Any]
    loss: str
    metrics: tuple[str, ...]
    batch_size: int
    epochs: int
    data: str
    parameters: int
    rows: int | None = None
    cut: str = ""
    paper_keras: Figures = Figures()
    paper_library: Figures = Figures()

    @property
    def random(self) -> bool:
        """Whether a step draws random numbers, which differ between Keras and the engine."""
        return any(layer.get("rate") for layer in self.layers)

    def undropped(self) -> Case:
        """The same program with dropout that drops nothing."""
        layers = ({**layer, "rate": 0.0} if "rate" in layer else layer for layer in self.layers)
        return dataclasses.replace(self, layers=tuple(layers))


@functools.cache
def all_cases() -> tuple[Case, ...]:
    """Every program, in the order of the table."""
    with TABLE.open("rb") as file:
        return tuple(_case(name, entry) for name, entry in tomllib.load(file).items())


def chosen(names: list[str]) -> tuple[Case, ...]:
    """The programs of these names; all without one.

    Raises:
        ValueError: There is no such program.
    """
    known = {case.name: case for case in all_cases()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown programs {unknown}; expected some of {', '.join(known)}.")
    return tuple(known[name] for name in names) if names else all_cases()


def _case(name: str, entry: dict[str, Any]) -> Case:
    for paper in ("paper_keras", "paper_library"):
        entry[paper] = Figures(**entry.get(paper, {}))
    entry["layers"], entry["metrics"] = tuple(entry["layers"]), tuple(entry["metrics"])
    return Case(name, **entry)


def shown(value: float | None) -> str:
    """A figure as the tables print it.

    >>> shown(0.25), shown(3.5e8), shown(float("nan")), shown(None)
    ('0.25', '3.5e+08', 'nan', '')
    """
    if value is None:
        return ""
    return f"{value:.4g}" if math.isfinite(value) else str(value)
