"""No rule and no fault reads a name: whatever the layers are called, the diagnosis is the same."""

from __future__ import annotations

import numpy as np
import pytest

from stethoscope.engine.examples import run
from stethoscope.example import Example
from stethoscope.rules import all_rules
from stethoscope.types import Report

MISLEADING = [
    "relu", "softmax", "dense", "bias", "dropout", "output", "loss", "conv", "input", "embedding",
    "batch_norm", "sigmoid", "activation", "weight", "kernel", "head", "backbone", "encoder",
]  # fmt: skip


def told(report: Report, names: list[str]) -> list[tuple[object, ...]]:
    """The diagnoses with layers numbered in the order of the program."""
    number = {name: i for i, name in enumerate(names)}
    return [
        (d.fault, d.severity, number.get(d.place.layer or ""), d.place.param, d.place.stage,
         round(d.confidence, 2), d.first_seen, d.confirmed)
        for d in report.diagnoses
    ]  # fmt: skip


def examples() -> dict[str, Example]:
    wanted = ("initialization", "saturating-stack", "output-range", "double-activation",
              "unscaled-input", "update-ratio-too-large", "dead-units")  # fmt: skip
    return {rule.name: rule.faulty for rule in all_rules() if rule.name in wanted}


@pytest.mark.parametrize("example", examples().values(), ids=examples().keys())
def test_diagnoses_under_random_names_are_the_same(example, tmp_path):
    usual = ["dense", *(f"dense_{i}" for i in range(1, len(MISLEADING)))]
    shuffled = list(np.random.default_rng(5).permutation(MISLEADING))
    plain = told(run(example, trace_dir=str(tmp_path)), usual)
    renamed = told(run(example, shuffled, trace_dir=str(tmp_path)), shuffled)
    assert plain
    assert renamed == plain
