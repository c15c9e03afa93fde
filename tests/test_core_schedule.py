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
    assert Schedule(every=7, share=None).describe() == {"every": 7, "dense": 21}
    assert Schedule().describe() == {"every": 20, "dense": 21, "share": 0.1}


def run(schedule, steps, *, cost, seconds=0.01):
    """The steps that are probed when each probe costs `cost`."""
    probed = []
    for step in range(steps):
        if schedule.probe(step):
            probed.append(step)
        now = cost if step in probed[-1:] else 0.0
        schedule.took(step, probed=step in probed[-1:], seconds=seconds, cost=now)
    return probed


@pytest.mark.parametrize(
    ("cost", "interval"), [(0.001, 20), (0.019, 20), (0.03, 40), (0.09, 100), (10.0, 200)]
)
def test_a_dear_probe_is_taken_less_often(cost, interval):
    schedule = Schedule(every=20, dense=3)
    probed = run(schedule, 2001, cost=cost)
    assert schedule.interval == interval
    later = [step for step in probed if step >= 200]
    assert later == list(range(later[0], 2001, interval))
    if interval < 200:
        assert cost * len(later) <= 0.1 * 0.01 * 1801 * 1.05 + cost


def test_an_interval_that_was_asked_for_stays():
    probed = run(Schedule(every=20, dense=3, share=None), 201, cost=10.0)
    assert probed == [0, 1, 2, *range(20, 201, 20)]


def test_the_dense_start_ends_when_it_has_cost_enough():
    schedule = Schedule(every=20, dense=21)
    assert run(schedule, 40, cost=1.5)[:6] == [0, 1, 2, 3, 4, 20]


def test_a_probe_grows_cheap_again():
    schedule = Schedule(every=20, dense=0)
    run(schedule, 401, cost=1.0)
    assert schedule.interval == 200
    for step in range(20):
        schedule.took(step, probed=True, seconds=0.01, cost=0.001)
    assert schedule.interval == 20
