import pytest

from stethoscope.schedule import Schedule


def test_dense_start_then_every_kth():
    schedule = Schedule(every=20, dense=5)
    assert [s for s in range(61) if schedule.probe(s)] == [0, 1, 2, 3, 4, 20, 40, 60]


def test_every_step():
    assert all(Schedule(every=1, dense=0).probe(step) for step in range(50))


def test_after_an_alarm_the_next_three_are_probed_too():
    schedule = Schedule(every=1000, dense=0)
    schedule.alarm(50)
    assert [s for s in range(51, 60) if schedule.probe(s)] == [51, 52, 53]
    schedule.alarm(10)  # an older alarm takes nothing back
    assert schedule.probe(53)


@pytest.mark.parametrize("every", [0, -1])
def test_interval_must_be_positive(every):
    with pytest.raises(ValueError, match="1 or more"):
        Schedule(every=every)


def test_is_stored():
    assert Schedule(every=7).describe() == {"every": 7, "dense": 21}
