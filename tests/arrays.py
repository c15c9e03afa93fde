"""Arrays on which every description of a tensor is held against the slow reference."""

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

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
