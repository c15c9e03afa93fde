"""The fast statistics against `stats.describe`, on whatever a tensor can hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stethoscope import stats
from stethoscope.stats import POSITION
from stethoscope.torch.tensors import dense, describe, measurable
from stethoscope.types import Stat

EXACT = [Stat.COUNT, Stat.NAN_COUNT, Stat.INF_COUNT, Stat.ZERO_SHARE, Stat.DEAD_SHARE]
EXACT += [Stat.MIN, Stat.MAX, Stat.SATURATED_SHARE]


def compare(tensor: torch.Tensor, **options: object) -> None:
    values = tensor.detach().double().numpy()
    expected, got = stats.describe(values, **options), describe(tensor, **options)
    for stat in EXACT:
        np.testing.assert_array_equal(got[POSITION[stat]], expected[POSITION[stat]], err_msg=stat)
    finite = values[np.isfinite(values)]
    scale = float(np.abs(finite).max()) if finite.size else 1.0
    for stat in (Stat.MEAN, Stat.STD, Stat.NORM, Stat.SAMPLE_STD):
        size = scale * (np.sqrt(finite.size) if stat is Stat.NORM else 1)
        np.testing.assert_allclose(
            got[POSITION[stat]],
            expected[POSITION[stat]],
            rtol=2e-3 if stat in (Stat.STD, Stat.SAMPLE_STD) else 1e-5,
            atol=1e-6 * size,
            err_msg=stat,
        )


shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)
numbers = st.one_of(
    st.floats(width=32, allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, 0.0, 1.0, -1.0]),
)


@settings(deadline=None, max_examples=150)
@given(
    values=shapes.flatmap(lambda s: hnp.arrays(np.float32, s, elements=numbers)),
    dtype=st.sampled_from(["float32", "float64", "bfloat16", "float16"]),
    axis=st.sampled_from([None, 0, 1, -1]),
    bounds=st.sampled_from([None, (-1.0, 1.0), (-5.0, float("inf"))]),
)
def test_any_values(
    values: np.ndarray, dtype: str, axis: int | None, bounds: tuple[float, float] | None
) -> None:
    if axis == 1 and values.ndim < 2:
        axis = None
    tensor = torch.from_numpy(values.copy()).to(getattr(torch, dtype))
    compare(tensor, saturation=bounds, unit_axis=axis)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([[0, 1], [0, -7]]),
        torch.tensor([[True, False], [False, False]]),
        torch.tensor(3.0),
        torch.empty(0, 4),
        torch.arange(24.0).reshape(2, 3, 4).transpose(0, 2),
        torch.arange(24.0)[::3],
        torch.ones(4, 1).expand(4, 5),
        torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
        torch.full((64, 8), 1000.0) + torch.rand(64, 8) * 1e-2,
        torch.full((64, 8), 0.1),
        torch.tensor([3e38, -3e38]).repeat(50),
        torch.tensor([1e-30, -1e-30]).repeat(50),
        torch.nn.Parameter(torch.randn(5, 5)),
    ],
    ids=[
        *("int", "bool", "scalar", "empty", "transposed", "strided", "expanded", "channels-last"),
        *("small-spread", "constant", "huge", "tiny", "parameter"),
    ],
)
def test_particular_tensors(tensor: torch.Tensor) -> None:
    compare(tensor, unit_axis=1 if tensor.ndim > 1 else None, saturation=(-1.0, 1.0))


def test_relu_outputs_with_dead_units() -> None:
    torch.manual_seed(0)
    outputs = torch.randn(32, 8, 5, 5).relu()
    outputs[:, 2:5] = 0
    compare(outputs, unit_axis=1)
    assert describe(outputs, unit_axis=1)[POSITION[Stat.DEAD_SHARE]] == 3 / 8


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(2, device="meta"),
        torch.ones(2, dtype=torch.complex64),
        torch.eye(3).to_sparse(),
    ],
    ids=["meta", "complex", "sparse"],
)
def test_what_cannot_be_measured_is_said(tensor: torch.Tensor) -> None:
    assert not measurable(tensor)


def test_a_sparse_gradient_is_measured_by_its_values() -> None:
    gradient = torch.eye(3).to_sparse()
    assert describe(dense(gradient))[POSITION[Stat.NORM]] == pytest.approx(3**0.5)
