"""The trace file: what is written is read, also after a kill, and a bad file says what it is."""

import itertools
import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest

from stethoscope.program import FitSpec, Program
from stethoscope.recorder import Recorder
from stethoscope.row import RowKind
from stethoscope.stats import describe
from stethoscope.trace import TraceError, TraceWriter, read
from stethoscope.trace_folder import is_trace
from stethoscope.types import (
    Column,
    Evidence,
    Phase,
    Place,
    PlaceKind,
    Slot,
    Stage,
    Stat,
    Symptom,
    SymptomClass,
)

WEIGHT = Slot("dense", "kernel", Stage.WEIGHT)
SYMPTOM = Symptom(
    "G001",
    "exploding-gradient",
    SymptomClass.EVENT,
    Place(PlaceKind.LAYER, "dense", "kernel", Stage.WEIGHT_GRAD, step=1, rows=(3,)),
    (Evidence("norm", math.inf, 10.0, ">"),),
    "It explodes.",
)


def write(path, steps=6):
    """Three epochs of two steps; every other step is probed; a revision in the middle."""
    writer = TraceWriter(path, {"script": "train.py"})
    rows = []
    recorder = Recorder(Program("torch"), writer, rows.append)
    for step in range(steps):
        if step == steps // 2:
            recorder.revise(fit=FitSpec(epochs=3))
        recorder.scalar(Stage.LOSS, 1 / (step + 1))
        if step % 2 == 0:
            recorder.observe(WEIGHT, describe([step, step + 1.0]))
        if step == 3:
            recorder.scalar(Stage.METRIC, math.nan, param="accuracy")
            recorder.event("note", text="odd")
        recorder.end_step(step, epoch=step // 2, batch=step % 2)
        if step % 2:
            recorder.scalar(Stage.LOSS, step, phase=Phase.VALIDATION)
            recorder.end_epoch(step, step // 2)
    return writer, rows


def same(found, expected):
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        for field in ("order", "step", "epoch", "batch", "kind", "program", "probed"):
            assert getattr(mine, field) == getattr(theirs, field)
        np.testing.assert_array_equal(mine.scalars, theirs.scalars)
        if mine.probed:
            np.testing.assert_array_equal(mine.stats, theirs.stats)
        assert [e.kind for e in mine.events] == [e.kind for e in theirs.events]


def test_rows_are_read_back_as_they_were_handed_to_the_rules(tmp_path):
    writer, rows = write(tmp_path / "t.sqlite")
    writer.symptom(1, SYMPTOM)
    writer.close()
    trace = read(tmp_path / "t.sqlite")
    same(list(trace.rows()), rows)
    assert trace.meta["script"] == "train.py"
    assert trace.symptoms[0].place == SYMPTOM.place
    assert trace.program.fit.epochs == 3
    assert [(step, event.kind) for step, event in trace.events] == [(3, "nonfinite"), (3, "note")]


def test_series(tmp_path):
    writer, _ = write(tmp_path / "t.sqlite")
    writer.close()
    trace = read(tmp_path / "t.sqlite")
    means = trace[Column("dense", "kernel", Stage.WEIGHT, Stat.MEAN)]
    np.testing.assert_array_equal(means, [0.5, np.nan, 2.5, np.nan, 4.5, np.nan])
    validation = trace[Column("", "", Stage.LOSS, Stat.VALUE, Phase.VALIDATION)]
    np.testing.assert_array_equal(validation, [1, 3, 5])


def test_open_trace_is_readable_meanwhile(tmp_path):
    writer, rows = write(tmp_path / "t.sqlite")
    writer.commit()
    same(list(read(tmp_path / "t.sqlite").rows()), rows)
    writer.close()


def test_steps_are_on_disk_when_they_are_over(tmp_path):
    writer = TraceWriter(tmp_path / "t.sqlite", {})
    recorder = Recorder(Program("torch"), writer)
    for step in range(20):
        time.sleep(0.01)  # as a step takes
        recorder.scalar(Stage.LOSS, 1.0)
        recorder.end_step(step)
    assert len(list(read(tmp_path / "t.sqlite").rows())) >= 19  # the last may wait for the next
    writer.close()


def test_dear_commits_are_made_every_second(tmp_path, monkeypatch):
    now = itertools.count()  # each look at the clock is 0.1 s later
    monkeypatch.setattr("stethoscope.trace.time.perf_counter", lambda: next(now) / 10)
    writer = TraceWriter(tmp_path / "t.sqlite", {})
    recorder = Recorder(Program("torch"), writer)
    made = []
    for step in range(40):
        recorder.scalar(Stage.LOSS, 1.0)
        before = writer._last_commit
        recorder.end_step(step)
        made += [step] * (writer._last_commit != before)
    assert made[:3] == [0, 1, 2]  # at once
    later = set(np.diff(made[3:]))
    assert later == {11}  # 10 rows look at the clock, then one commits: a second and a bit
    writer.close()


def test_nothing_but_the_file_remains(tmp_path):
    writer, _ = write(tmp_path / "t.sqlite")
    writer.close()
    writer.close()  # twice is fine
    assert is_trace(tmp_path / "t.sqlite")
    read(tmp_path / "t.sqlite")
    assert [path.name for path in tmp_path.iterdir()] == ["t.sqlite"]


def test_an_old_trace_of_the_name_is_replaced(tmp_path):
    for steps in (6, 2):
        writer, rows = write(tmp_path / "t.sqlite", steps)
        writer.close()
    same(list(read(tmp_path / "t.sqlite").rows()), rows)


def test_folder_that_cannot_be_made_is_an_oserror(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        TraceWriter(tmp_path / "file" / "t.sqlite", {})


def test_full_disk_stops_the_writing_and_says_so(tmp_path):
    writer, _ = write(tmp_path / "t.sqlite")
    writer._db.execute(f"PRAGMA max_page_count = {16}")
    writer.meta({"big": "x" * 1_000_000})
    assert "full" in writer.problem
    writer.meta({"more": 1})
    writer.close()
    assert writer.problem.startswith("the trace ")


def test_a_forked_child_writes_nothing(tmp_path):
    writer, rows = write(tmp_path / "t.sqlite")
    child = os.fork()
    if child == 0:
        writer.meta({"child": True})
        writer.commit()
        writer.close()
        os._exit(0)
    os.waitpid(child, 0)
    writer.close()
    trace = read(tmp_path / "t.sqlite")
    assert "child" not in trace.meta
    same(list(trace.rows()), rows)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "is not a file"),
        (b"", "not a Stethoscope trace"),
        (b"hello", "not a Stethoscope trace"),
        (b"SQLite format 3\0" + b"\0" * 500, "not a Stethoscope trace"),
    ],
    ids=["absent", "empty", "text", "half a database"],
)
def test_a_file_that_is_no_trace_says_what_it_is(tmp_path, content, words):
    path = tmp_path / "t.sqlite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TraceError, match=words):
        read(path)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE meta SET value = '99' WHERE key = 'format'", "format 99"),
        ("DELETE FROM meta", "format None"),
        ("UPDATE meta SET value = '{'", "not a Stethoscope trace"),
        ("UPDATE slots SET stage = 'nonsense'", "not a Stethoscope trace"),
        ("UPDATE programs SET program = '[]'", "not a Stethoscope trace"),
        ("UPDATE steps SET scalars = x'00'", "not a Stethoscope trace"),
        ("DROP TABLE probes", "not a Stethoscope trace"),
    ],
)
def test_a_damaged_trace_says_so(tmp_path, statement, words):
    writer, _ = write(tmp_path / "t.sqlite")
    writer.close()
    with sqlite3.connect(tmp_path / "t.sqlite") as db:
        db.execute(statement)
    db.close()
    with pytest.raises(TraceError, match=words):
        read(tmp_path / "t.sqlite")


KILLED = """
import sys
from stethoscope import trace
from stethoscope.program import Program
from stethoscope.recorder import Recorder
from stethoscope.stats import describe
from stethoscope.types import Slot, Stage

trace.COMMIT_SECONDS = 0.002
from pathlib import Path
writer = trace.TraceWriter(Path(sys.argv[1]), {"script": "killed.py"})
recorder = Recorder(Program("torch"), writer)
print("on", flush=True)
step = 0
while True:
    recorder.scalar(Stage.LOSS, step)
    if step % 3 == 0:
        recorder.observe(Slot(f"layer{step % 50}", "w", Stage.WEIGHT), describe([step, 1.0]))
    recorder.end_step(step)
    step += 1
"""


def test_survives_a_kill_at_random_moments(tmp_path):
    moments = random.Random(0)
    longest = 0
    for number in range(20):
        path = tmp_path / f"{number}.sqlite"
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        time.sleep(moments.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        trace = read(path)
        assert trace.meta["script"] == "killed.py"
        rows = list(trace.rows())
        assert [row.order for row in rows] == list(range(len(rows)))
        assert all(row.kind is RowKind.STEP for row in rows)
        assert [row.scalar(Stage.LOSS) for row in rows] == list(range(len(rows)))
        assert [row.probed for row in rows] == [row.step % 3 == 0 for row in rows]
        longest = max(longest, len(rows))
    assert longest > 20  # some were killed in the midst of writing
