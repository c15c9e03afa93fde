"""The fast descriptions of NumPy arrays equal the slow reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope import stats
from stethoscope.array_stats import SMALL, Tensor, describe, describe_many
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


@given(st.lists(st.tuples(ARRAYS, HOW), max_size=5))
@settings(max_examples=100, deadline=None)
def test_many_arrays(drawn):
    tensors = [Tensor(array, *how) for array, how in drawn]
    found = describe_many(tensors)
    assert found.shape == (len(tensors), len(stats.TENSOR_STATS))
    for row, (values, saturation, unit_axis) in zip(found, tensors, strict=True):
        equal(row, stats.describe(values, saturation=saturation, unit_axis=unit_axis))


def test_many_arrays_of_every_kind_and_size():
    large = np.random.default_rng(0).normal(size=(SMALL // 8 + 1, 8)).astype("float32")
    tensors = [Tensor(values, (-1.0, 1.0), -1) for values in (*OTHERS.values(), large)]
    for row, (values, saturation, unit_axis) in zip(describe_many(tensors), tensors, strict=True):
        equal(row, stats.describe(values, saturation=saturation, unit_axis=unit_axis))
