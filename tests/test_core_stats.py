"""`stats.describe` is the reference of every fast version: held against exact sums and SciPy."""

import math

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stethoscope.stats import POSITION, TENSOR_STATS, describe, empty
from stethoscope.types import Stat

SIDE = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5)
TAME = st.floats(-1e6, 1e6, width=32)
ANY = st.floats(width=32)


def named(row):
    return {stat.value: row[POSITION[stat]] for stat in TENSOR_STATS}


@given(hnp.arrays(np.float32, SIDE, elements=TAME))
def test_agrees_with_exact_sums_on_finite_tensors(tensor):
    found = named(describe(tensor))
    flat = tensor.astype(np.float64).ravel()
    mean, scale = math.fsum(flat) / flat.size, float(np.abs(flat).max())
    assert found["mean"] == pytest.approx(mean, abs=1e-12 * scale)
    variance = math.fsum((flat - mean) ** 2) / flat.size
    assert found["std"] ** 2 == pytest.approx(variance, rel=1e-9, abs=1e-12 * scale**2)
    assert (found["min"], found["max"]) == (min(flat), max(flat))
    assert found["norm"] == pytest.approx(scipy.linalg.norm(flat))
    assert found["zero_share"] == (flat.size - np.count_nonzero(flat)) / flat.size
    assert (found["nan_count"], found["inf_count"]) == (0, 0)
    assert found["count"] == flat.size


@given(hnp.arrays(np.float32, SIDE, elements=ANY))
def test_nonfinite_elements_are_counted_and_left_out(tensor):
    found = named(describe(tensor))
    finite = tensor[np.isfinite(tensor)]
    assert found["count"] == tensor.size
    assert found["nan_count"] + found["inf_count"] == tensor.size - finite.size
    if finite.size:
        alone = named(describe(finite))
        for stat in ("mean", "std", "min", "max", "norm", "zero_share"):
            assert found[stat] == alone[stat]
    else:
        assert np.isnan(found["mean"])
        assert np.isnan(found["norm"])


@given(hnp.arrays(np.float32, (4, 3, 2), elements=TAME), st.sampled_from([1, 2, -1, -2]))
def test_units(tensor, axis):
    found = named(describe(tensor, unit_axis=axis))
    units = np.moveaxis(tensor, axis, 0).reshape(tensor.shape[axis], -1)
    assert found["dead_share"] == np.mean([not unit.any() for unit in units])
    spread = [np.var(tensor[:, i, j].astype(float)) for i in range(3) for j in range(2)]
    assert found["sample_std"] ** 2 == pytest.approx(np.mean(spread), rel=1e-9, abs=1e-3)


def test_same_output_for_every_sample_has_no_spread():
    batch = np.tile([[1.0, -2.0, 3.0]], (5, 1))
    assert describe(batch, unit_axis=1)[POSITION[Stat.SAMPLE_STD]] == 0


@pytest.mark.parametrize(
    ("interval", "share"), [((-1, 1), 0.5), ((-9, 9), 0.0), ((-np.inf, 0), 0.75)]
)
def test_saturated_share(interval, share):
    values = [-3.0, 0.0, 0.5, 1.0]
    assert describe(values, saturation=interval)[POSITION[Stat.SATURATED_SHARE]] == share


def test_what_does_not_apply_is_not_recorded():
    found = named(describe([[1.0, 2.0]]))
    absent = {name for name, value in found.items() if np.isnan(value)}
    assert absent == {"dead_share", "saturated_share", "sample_std"}
    assert np.isnan(empty()).all()


@pytest.mark.parametrize("tensor", [np.zeros((0, 3)), np.float32(2.0), np.array([True, False])])
def test_odd_tensors_do_not_fail(tensor):
    assert describe(tensor)[POSITION[Stat.COUNT]] == np.size(tensor)
