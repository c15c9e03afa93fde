import math

import numpy as np
import pytest

from stethoscope.program import Program
from stethoscope.recorder import Recorder
from stethoscope.row import RowKind
from stethoscope.stats import describe
from stethoscope.types import Phase, Slot, Stage, Stat

WEIGHT = Slot("dense", "kernel", Stage.WEIGHT)
LOSS = Slot("", "", Stage.LOSS)


@pytest.fixture
def recorder():
    return Recorder(Program("torch"))


def test_a_row_holds_what_its_step_showed(recorder):
    recorder.observe(WEIGHT, describe([1.0, 3.0]))
    recorder.scalar(Stage.LOSS, 0.5)
    row = recorder.end_step(0, epoch=2, batch=1)
    assert (row.order, row.step, row.epoch, row.batch, row.kind) == (0, 0, 2, 1, RowKind.STEP)
    assert row.probed
    assert row.get(WEIGHT, Stat.MEAN) == 2
    assert row.get(LOSS) == row.scalar(Stage.LOSS) == 0.5


def test_nan_in_a_row_means_not_recorded(recorder):
    recorder.observe(WEIGHT, describe([1.0]))
    recorder.scalar(Stage.LOSS, 0.5)
    recorder.end_step(0)
    row = recorder.end_step(1)
    assert not row.probed
    assert math.isnan(row.get(WEIGHT, Stat.MEAN))
    assert math.isnan(row.scalar(Stage.LOSS))
    assert math.isnan(row.get(Slot("never", "seen", Stage.WEIGHT), Stat.MEAN))
    assert list(row.each(Stage.LOSS)) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_nonfinite_loss_is_an_event(recorder, value):
    recorder.scalar(Stage.LOSS, value)
    (event,) = recorder.end_step(0).events
    assert (event.kind, event.payload["stage"]) == ("nonfinite", Stage.LOSS)
    assert str(event.payload["value"]) == str(value)


def test_nonfinite_tensor_is_counted_and_still_a_probed_row(recorder):
    recorder.observe(WEIGHT, describe([math.nan, math.nan]))
    row = recorder.end_step(0)
    assert row.get(WEIGHT, Stat.NAN_COUNT) == 2
    assert [slot for slot, _ in row.each(Stage.WEIGHT, Stat.COUNT)] == [WEIGHT]


def test_of_two_observations_the_worse_counts(recorder):
    for values in ([1.0], [math.inf], [3.0]):
        recorder.observe(WEIGHT, describe(values))
    assert recorder.end_step(0).get(WEIGHT, Stat.INF_COUNT) == 1
    for values in ([1.0], [3.0]):
        recorder.observe(WEIGHT, describe(values))
    assert recorder.end_step(1).get(WEIGHT, Stat.MEAN) == 1


def test_slots_may_come_late_and_old_rows_stay_as_they_were(recorder):
    recorder.observe(WEIGHT, describe([1.0]))
    first = recorder.end_step(0)
    late = Slot("late", "kernel", Stage.WEIGHT)
    recorder.observe(late, describe([5.0]))
    recorder.scalar(Stage.METRIC, 0.9, param="accuracy")
    second = recorder.end_step(1)
    assert math.isnan(first.get(late, Stat.MEAN))
    assert math.isnan(first.scalar(Stage.METRIC, param="accuracy"))
    assert second.get(late, Stat.MEAN) == 5
    assert math.isnan(second.get(WEIGHT, Stat.MEAN))


def test_epoch_row_keeps_validation_apart(recorder):
    recorder.scalar(Stage.LOSS, 0.1)
    recorder.end_step(0)
    recorder.scalar(Stage.LOSS, 0.2, phase=Phase.VALIDATION)
    row = recorder.end_epoch(0, 0)
    assert row.kind is RowKind.EPOCH
    assert row.scalar(Stage.LOSS, phase=Phase.VALIDATION) == 0.2
    assert math.isnan(row.scalar(Stage.LOSS))


def test_a_revision_is_in_force_from_its_step_on(recorder):
    first = recorder.end_step(0)
    recorder.revise(framework_version="2")
    second = recorder.end_step(1)
    recorder.revise(framework_version="2")
    third = recorder.end_step(2)
    assert first.program.framework_version == ""
    assert second.program.framework_version == "2"
    assert third.program is second.program  # nothing changed: rules need not look again


def test_rows_are_handed_on_in_order():
    seen = []
    recorder = Recorder(Program("torch"), on_row=seen.append)
    for step in range(3):
        recorder.scalar(Stage.LOSS, step)
        assert recorder.pending
        recorder.end_step(step)
    assert not recorder.pending
    assert [row.order for row in seen] == [0, 1, 2]
    assert np.array_equal([row.scalar(Stage.LOSS) for row in seen], [0, 1, 2])
