"""What looking at the data of a fit costs, and what it still tells."""

import time

import numpy as np
import pytest

from stethoscope.keras import feed as feeds
from stethoscope.keras.feed import Feed, FitCall
from stethoscope.program import FitSpec

RNG = np.random.default_rng(0)


def looked_at(x, y, shuffle=True):
    return Feed(FitCall(FitSpec(batch_size=32, shuffle=shuffle), x, y))


def test_of_large_inputs_rows_spread_over_all_of_them_are_looked_at(monkeypatch):
    monkeypatch.setattr(feeds, "SAMPLE_ELEMENTS", 4000)
    x = np.repeat(np.arange(20000)[:, None], 4, axis=1)
    feed = looked_at(x, np.arange(20000) % 3)
    spec = feed.inputs()[0]
    assert (spec.rows_seen, spec.complete) == (1000, False)
    assert (spec.min, spec.max) == (pytest.approx(0, abs=20), pytest.approx(19999, abs=20))
    assert spec.mean == pytest.approx(x.mean(), rel=1e-3)
    assert spec.believable
    assert spec.batch_shape == (32, 4)
    target = feed.targets()[0]
    assert (target.rows_seen, target.complete) == (20000, True)
    feed.batch(x[:32], x[:32, 0] % 3)  # nothing is counted twice
    assert feed.inputs()[0].rows_seen == 1000
    assert feed.targets()[0].rows_seen == 20000


def test_data_that_repeats_is_not_met_at_one_phase(monkeypatch):
    monkeypatch.setattr(feeds, "SAMPLE_ELEMENTS", 1000)
    x = np.tile([0.0, 1.0], 5000)[:, None]
    assert looked_at(x, None).inputs()[0].mean == pytest.approx(0.5, abs=0.05)


def test_small_inputs_are_looked_at_whole():
    assert looked_at(RNG.normal(size=(100, 4)), None).inputs()[0].complete


def test_large_targets_are_left_to_the_batches(monkeypatch):
    monkeypatch.setattr(feeds, "WHOLE_ARRAY_BYTES", 1000)
    x, y = RNG.normal(size=(64, 4)), RNG.normal(size=(64, 4))
    feed = looked_at(x, y)
    assert feed.targets() == ()
    feed.batch(x[:32], y[:32])
    assert (feed.targets()[0].rows_seen, feed.targets()[0].complete) == (32, False)
    assert feed.inputs()[0].complete


@pytest.mark.parametrize("kind", ["uint8", "float32"])
def test_the_time_to_look_does_not_grow_with_the_inputs(kind):
    small = RNG.integers(0, 256, (2000, 32, 32, 1)).astype(kind)
    large = np.broadcast_to(small, (20, *small.shape)).reshape(-1, 32, 32, 1)
    cost = []
    for x in (small, large):
        begun = time.process_time()
        looked_at(x, None)
        cost.append(time.process_time() - begun)
    assert cost[1] < 4 * cost[0] + 0.2  # 20 times the data
