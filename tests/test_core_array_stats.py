"""The fast descriptions of NumPy arrays equal the slow reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope import stats
from stethoscope.array_stats import SMALL, Look, describe, describe_many
from tests.arrays import ARRAYS, OTHERS, equal

HOW = st.tuples(st.sampled_from([None, (-2.0, 2.0)]), st.sampled_from([None, 0, -1]))


@given(ARRAYS, HOW)
@settings(max_examples=200, deadline=None)
def test_one_array(array, how):
    saturation, unit_axis = how
    given = {"saturation": saturation, "unit_axis": unit_axis}
    equal(describe(array, **given), stats.describe(array, **given))


@pytest.mark.parametrize("name", OTHERS)
def test_other_arrays(name):
    equal(describe(OTHERS[name], unit_axis=-1), stats.describe(OTHERS[name], unit_axis=-1))


@given(st.lists(st.tuples(ARRAYS, HOW), max_size=5), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_many_arrays(drawn, count):
    looks = [Look(*how) for _, how in drawn]
    steps = [[np.roll(array, step) for array, _ in drawn] for step in range(count)]
    found = describe_many(steps, looks)
    assert found.shape == (count, len(drawn), len(stats.TENSOR_STATS))
    for rows, arrays in zip(found, steps, strict=True):
        for row, values, look in zip(rows, arrays, looks, strict=True):
            equal(row, stats.describe(values, **look._asdict()))


def test_many_arrays_of_every_kind_and_size():
    large = np.random.default_rng(0).normal(size=(SMALL // 8 + 1, 8)).astype("float32")
    arrays, look = [*OTHERS.values(), large], Look((-1.0, 1.0), -1)
    (found,) = describe_many([arrays], [look] * len(arrays))
    for row, values in zip(found, arrays, strict=True):
        equal(row, stats.describe(values, **look._asdict()))


def test_steps_are_described_one_by_one():
    """A step that is not finite, dead or constant beside others of its tensor."""
    ordinary = np.random.default_rng(0).normal(size=(6, 4, 3)).astype("float32")
    ordinary[1, :, 1] = 0
    ordinary[2] = 0
    ordinary[3, 0, 0] = np.nan
    ordinary[4] = 7
    ordinary[5] += 1e6
    look = Look((-0.5, 0.5), -1)
    for row, values in zip(describe_many([[x] for x in ordinary], [look]), ordinary, strict=True):
        equal(row[0], stats.describe(values, **look._asdict()))
