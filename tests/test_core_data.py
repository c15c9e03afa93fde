"""Facts of data over batches: the same as of the whole array at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stethoscope.data import DataProfile
from stethoscope.program import ColumnFacts

TAME = st.floats(-1e3, 1e3, width=32)


def profile(*batches, **options):
    found = DataProfile(**options)
    for batch in batches:
        found.add(batch)
    return found.spec()


@settings(deadline=None)
@given(hnp.arrays(np.float32, st.tuples(st.integers(2, 12), st.integers(1, 4)), elements=TAME))
def test_batches_give_the_facts_of_the_whole(values):
    half = len(values) // 2
    found = profile(values[:half], values[half:])
    whole = values.astype(np.float64)
    assert (found.min, found.max) == (whole.min(), whole.max())
    assert found.mean == pytest.approx(whole.mean(), rel=1e-9, abs=1e-6)
    assert found.std == pytest.approx(whole.std(), rel=1e-6, abs=1e-3)
    assert found.integer_valued == bool(np.all(whole == np.floor(whole)))
    assert found.distinct == len(np.unique(whole))
    assert found.constant == (whole.min() == whole.max())
    assert (found.rows_seen, found.batches_seen) == (len(values), 2)
    np.testing.assert_allclose([c.max for c in found.columns], whole.max(0))
    np.testing.assert_allclose([c.mean for c in found.columns], whole.mean(0), atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e8, 1.7e9])
def test_spread_survives_a_large_offset(offset):
    values = offset + np.random.default_rng(0).normal(size=(3200, 2))
    found = profile(*np.split(values, 50))
    assert found.std == pytest.approx(values.std(), rel=1e-6)
    assert [c.std for c in found.columns] == pytest.approx(list(values.std(axis=0)), rel=1e-6)
    assert found.best_constant.squared == pytest.approx(values.var(axis=0).mean(), rel=1e-6)


def test_batch_without_a_known_value_in_a_column_leaves_its_facts_alone():
    found = profile([[100.0, 1.0], [120.0, 2.0]], [[np.nan, 1.0], [np.nan, 2.0]])
    assert found.columns[0] == ColumnFacts(100.0, 120.0, 110.0, 10.0)
    never = profile([[np.nan, 1.0]], [[np.nan, 2.0]])
    assert np.isnan(never.columns[0].mean)
    assert never == profile([[np.nan, 1.0]], [[np.nan, 2.0]])


@pytest.mark.parametrize("shape", [(), (3,), (2, 5, 4), (70, 70)], ids=str)
def test_best_constant_is_that_of_each_position(shape):
    rng = np.random.default_rng(0)
    values = rng.uniform(size=shape) * rng.uniform(size=(1200, *shape))
    found = profile(*np.split(values, 12)).best_constant
    few = np.prod(shape) == 4900  # a share of the positions speaks for all of them
    assert found.squared == pytest.approx(values.var(axis=0).mean(), rel=0.05 if few else 1e-9)
    exact = np.abs(values - np.median(values, axis=0)).mean()
    assert found.absolute == pytest.approx(exact, rel=0.05 if few else 1e-3)
    p = values.mean(axis=0)
    exact = -(p * np.log(p) + (1 - p) * np.log(1 - p)).mean()
    assert found.binary == pytest.approx(exact, rel=0.05 if few else 1e-9)


def test_samples_that_differ_in_shape_have_no_best_constant():
    assert profile(np.ones((4, 3)), np.ones((4, 5))).best_constant is None


def test_class_counts_of_ids():
    found = profile([0, 1, 1], [2, 1, 0])
    assert found.class_counts == ((0.0, 2), (1.0, 3), (2.0, 1))
    assert found.one_hot is None


def test_class_counts_of_one_hot_rows():
    found = profile(np.eye(3)[[0, 1]], np.eye(3)[[1, 1]])
    assert (found.one_hot, found.rows_sum_to_one) == (True, True)
    assert found.class_counts == ((0.0, 1), (1.0, 3), (2.0, 0))


def test_rows_that_sum_to_one_but_are_not_one_hot():
    found = profile([[0.25, 0.75], [0.5, 0.5]])
    assert (found.one_hot, found.rows_sum_to_one) == (False, True)
    assert found.class_counts == ()


def test_one_row_that_does_not_sum_to_one_is_enough():
    assert profile(np.eye(2), [[1.0, 1.0]]).rows_sum_to_one is False


def test_negative_rows_that_sum_to_one_are_no_distribution():
    assert profile([[-1.0, 2.0]]).rows_sum_to_one is False


def test_nonfinite_elements_are_a_share_and_no_part_of_the_rest():
    found = profile([[1.0, np.nan], [np.inf, 3.0]])
    assert found.nonfinite_share == 0.5
    assert (found.min, found.max, found.mean) == (1, 3, 2)


def test_nothing_finite_at_all():
    found = profile([np.nan, np.nan])
    assert found.nonfinite_share == 1
    assert (found.min, found.mean, found.class_counts) == (None, None, ())


def test_many_kinds_are_not_classes():
    found = profile(np.arange(5000))
    assert (found.distinct, found.class_counts) == (None, ())
    assert found.integer_valued is True


@pytest.mark.parametrize(
    "batch",
    [np.zeros((0, 3)), np.array(["a", "b"]), np.array(3.0), np.zeros((2, 3), dtype=bool)],
    ids=["empty", "text", "scalar", "bool"],
)
def test_odd_batches_do_not_fail(batch):
    assert profile(batch).batches_seen == 1


def test_shape_is_without_the_batch_axis():
    found = profile(np.zeros((8, 3, 2)))
    assert (found.shape, found.batch_shape) == ((3, 2), (8, 3, 2))
    assert found.dtype == "float64"
