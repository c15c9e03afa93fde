"""Changes carry values that were measured in the run, and training with them works."""

from __future__ import annotations

import pytest

from stethoscope.engine.examples import run
from stethoscope.example import CLASSIFIER, REGRESSOR
from stethoscope.types import Op
from tests.faults.changes import accused, applied


@pytest.mark.parametrize("start", [CLASSIFIER, REGRESSOR], ids=["classifier", "regressor"])
@pytest.mark.parametrize("factor", [100, 1000, 10_000])
def test_rate_that_is_too_high_gets_one_that_learns(start, factor, tmp_path):
    broken = start.but(learning_rate=start.learning_rate * factor)
    report = run(broken, trace_dir=str(tmp_path))
    assert accused(report)[0] == "learning-rate-too-high"
    change = report.diagnoses[0].fixes[0].change
    assert change.op is Op.SET
    assert change.value < broken.learning_rate / 10
    mended = run(applied(broken, change), trace_dir=str(tmp_path))
    assert accused(mended) == []
    assert mended.meta["harm"] == "learning"


@pytest.mark.parametrize("factor", [1e-5, 1e-4])
def test_rate_that_is_too_low_gets_one_that_learns(factor, tmp_path):
    broken = CLASSIFIER.but(learning_rate=0.1 * factor)
    report = run(broken, trace_dir=str(tmp_path))
    assert accused(report)[0] == "learning-rate-too-low"
    mended = run(applied(broken, report.diagnoses[0].fixes[0].change), trace_dir=str(tmp_path))
    assert mended.meta["harm"] == "learning"


@pytest.mark.parametrize("factor", [100.0, 300.0])
def test_features_that_are_too_large_get_their_own_scale(factor, tmp_path):
    broken = CLASSIFIER.but(input_scale=factor, learning_rate=0.3, steps=400)
    report = run(broken, trace_dir=str(tmp_path))
    assert accused(report)[0] == "unscaled-input"
    change = report.diagnoses[0].fixes[0].change
    deviations = [c["std"] for c in change.value["standardize"].values()]
    assert all(factor / 2 < deviation < 5 * factor for deviation in deviations)
    mended = run(applied(broken, change), trace_dir=str(tmp_path))
    assert accused(mended) == []
    assert mended.meta["harm"] == "learning"


def test_divided_class_ids_are_multiplied_back(tmp_path):
    from stethoscope.faults.label_encoding import _repair
    from stethoscope.program import DataSpec

    target = DataSpec(min=0.0, max=9 / 255, integer_valued=False, distinct=10, shape=())
    change = _repair(target, "data.target[0]", None).change
    assert (change.op, change.value) == (Op.SCALE, 255.0)
