"""Steps that are looked at together are recorded as each one by itself."""

from __future__ import annotations

import numpy as np
import pytest

import stethoscope
from stethoscope.engine import Dense, Dropout, Sequential, watch
from stethoscope.engine.run import TOGETHER, Run
from stethoscope.engine.step import Listener
from stethoscope.monitor import FaultyTrainingError
from stethoscope.stats import POSITION
from stethoscope.types import Stat

X = np.random.default_rng(0).normal(size=(400, 4)).astype("float32")
Y = (X.sum(axis=1) > 0).astype("float32")
STEPS = 100


def model(rate=0.05):
    made = Sequential([Dense(8, "relu"), Dropout(0.2), Dense(1, "sigmoid")], input_shape=(4,))
    made.compile("sgd", "binary_crossentropy", metrics=["accuracy"])
    made.optimizer.learning_rate = rate
    return made


def fit(made, x=X):
    made.fit(x, Y, batch_size=4, epochs=1, shuffle=False)


@pytest.fixture
def calls(monkeypatch):
    """How many steps each call of `catch_up` recorded."""
    counts, own = [], Run.catch_up

    def counted(self):
        counts.append(len(self._held))
        own(self)

    monkeypatch.setattr(Run, "catch_up", counted)
    return counts


def rows(folder):
    return list(stethoscope.read(next(folder.glob("*.sqlite"))).rows())


def test_rows_are_those_of_steps_one_by_one(tmp_path, calls, monkeypatch):
    verdicts = set()
    for name, together in (("many", TOGETHER), ("one", 1)):
        monkeypatch.setattr("stethoscope.engine.run.TOGETHER", together)
        made = model()
        with watch(made, quiet=True, probe_every=1, trace_dir=str(tmp_path / name)) as scope:
            fit(made)
        verdicts.add((scope.report.verdict, scope.report.reason))
    assert max(calls) == TOGETHER
    assert len(verdicts) == 1
    many, one = rows(tmp_path / "many"), rows(tmp_path / "one")
    assert len(many) == STEPS
    for together, alone in zip(many, one, strict=True):
        assert together.step == alone.step
        np.testing.assert_array_equal(together.scalars, alone.scalars)
        np.testing.assert_allclose(together.stats, alone.stats, rtol=1e-12, atol=1e-300)


def test_hand_written_loop_may_write_into_its_arrays(tmp_path, calls):
    made = model()
    with watch(made, quiet=True, probe_every=1, trace_dir=str(tmp_path)):
        for _ in range(50):
            made.train_on_batch(X[:4], Y[:4])
    assert max(calls) == 1


def test_steps_that_are_not_probed_are_not_held(tmp_path, calls):
    made = model()
    with watch(made, quiet=True, probe_every=20, trace_dir=str(tmp_path)):
        fit(made)
    assert [n for n in calls if n][-20:] == [1] * 20
    assert [row.step for row in rows(tmp_path) if row.probed] == [*range(21), 40, 60, 80]


def test_report_in_the_middle_knows_every_step(tmp_path):
    made, seen = model(), []

    class Asking(Listener):
        only_reads = True

        def step(self, model, step):
            seen.append((step.number + 1, scope.report.meta["steps"]))
            return False

    with watch(made, quiet=True, probe_every=1, trace_dir=str(tmp_path)) as scope:
        made.listeners.append(Asking())
        fit(made)
    assert seen == [(n, n) for n in range(1, STEPS + 1)]


def test_nonfinite_step_is_told_at_once(tmp_path, calls):
    bad = X.copy()
    bad[4 * 57] = np.nan
    made, stopped = model(), []

    class Watching(Listener):
        only_reads = True

        def step(self, model, step):
            stopped.append(step.number)
            return scope.should_stop

    with watch(made, quiet=True, probe_every=1, trace_dir=str(tmp_path), on_error="stop") as scope:
        made.listeners.append(Watching())
        fit(made, bad)
    assert stopped[-1] == 57
    assert scope.report.diagnoses[0].first_seen == 57


def test_error_that_is_raised_leaves_no_step_unrecorded(tmp_path):
    made = model(rate=1e6)
    with (
        pytest.raises(FaultyTrainingError),
        watch(made, quiet=True, probe_every=1, trace_dir=str(tmp_path), on_error="raise"),
    ):
        fit(made)
    assert [row.step for row in rows(tmp_path)] == list(range(made.steps))


def test_interrupted_fit_is_recorded_to_its_last_step(tmp_path):
    made = model()

    class Interrupting(Listener):
        only_reads = True

        def step(self, model, step):
            if step.number == 70:
                raise KeyboardInterrupt
            return False

    with (
        pytest.raises(KeyboardInterrupt),
        watch(made, quiet=True, probe_every=1, trace_dir=str(tmp_path)),
    ):
        made.listeners.append(Interrupting())
        fit(made)
    assert [row.step for row in rows(tmp_path)] == list(range(71))


def test_steps_of_short_epochs_are_held_over_their_end(tmp_path, calls):
    made = model()
    with watch(made, quiet=True, probe_every=1, trace_dir=str(tmp_path)):
        made.fit(X[:8], Y[:8], batch_size=4, epochs=50)
        assert not made.stopped
    assert max(calls) == TOGETHER
    assert [row.step for row in rows(tmp_path)] == list(range(100))


def test_nothing_is_held_when_a_fit_is_over(tmp_path, calls):
    made = model()
    with watch(made, quiet=True, probe_every=1, trace_dir=str(tmp_path)):
        fit(made)
        assert sum(calls) == STEPS


class Clipping(Listener):
    """A listener that writes, as users do."""

    def step(self, model, step):
        for weight in model.network.weights.values():
            np.clip(weight, -0.1, 0.1, out=weight)
        step.done.values[-1][:] = 777
        return False


def test_steps_are_not_held_where_somebody_may_write_into_them(tmp_path, calls):
    made = model()
    with watch(made, quiet=True, probe_every=1, trace_dir=str(tmp_path)):
        made.listeners.append(Clipping())
        fit(made)
    assert max(calls) == 1
    high = stethoscope.read(next(tmp_path.glob("*.sqlite")))
    assert max(row.stats[:, POSITION[Stat.MAX]].max() for row in high.rows() if row.step > 3) < 777
