"""The folder of traces: whose trace makes room, and which one is the newest."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stethoscope.config import Config
from stethoscope.monitor import Session
from stethoscope.program import Program
from stethoscope.trace import TraceWriter
from stethoscope.trace_folder import KEEP_RUNS, is_trace, new_path, newest, writer_mark
from stethoscope.types import Stage

KEPT = Path(".stethoscope")


@pytest.fixture
def open_run(folder):
    """Opens runs of a script, and closes in the end what a test left open."""
    opened = []

    def make(script="train.py"):
        session = Session(Config(), script, io.StringIO())
        opened.append(session)
        return session, session.open(Program("torch"))

    yield make
    for session in opened:
        session.close()


def train(monitor, steps=1):
    for step in range(steps):
        monitor.recorder.scalar(Stage.LOSS, 1.0)
        monitor.end_step(step)


def age(path, seconds):
    for file in (path, Path(f"{path}-wal")):
        if file.exists():
            os.utime(file, (seconds, seconds))


def test_the_last_runs_are_kept_and_nobody_elses_files(open_run):
    KEPT.mkdir()
    (KEPT / "notes.txt").write_text("mine")
    (KEPT / "notes-1.sqlite").write_text("mine too")
    for number in range(KEEP_RUNS + 5):
        session, monitor = open_run()
        train(monitor)
        session.close()
        age(monitor.path, number)
    numbers = {int(path.stem.split("-")[1]) for path in KEPT.glob("train-*.sqlite")}
    assert numbers == set(range(6, KEEP_RUNS + 6))
    assert (KEPT / "notes.txt").exists()
    assert (KEPT / "notes-1.sqlite").exists()


def test_a_run_that_goes_on_is_never_removed(open_run):
    _, long = open_run("long.py")
    train(long)
    age(long.path, 1)  # as SQLite leaves it: only the log of a running trace changes
    for _ in range(KEEP_RUNS + 5):
        session, _ = open_run("short.py")
        session.close()
    assert long.path.exists()
    assert len(list(KEPT.glob("*.sqlite"))) == KEEP_RUNS


def test_all_ranks_of_a_run_count_as_one(open_run, monkeypatch):
    paths = []
    for rank in range(KEEP_RUNS + 4):
        monkeypatch.setenv("RANK", str(rank))
        session, monitor = open_run("ddp.py")
        session.close()
        paths.append(monitor.path)
    assert all(path.exists() for path in paths)
    assert {path.name.split(".")[0] for path in paths} == {"ddp-1"}


def written(name, **mark):
    return TraceWriter(new_path(KEPT, name, None), {**writer_mark(), **mark})


def gone():
    """The id of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


@pytest.mark.parametrize(
    ("mark", "seconds", "stays"),
    [
        ({}, 0.0, True),
        ({"pid": None}, 0.0, False),
        ({"machine": 1}, None, True),
        ({"machine": 1}, 0.0, False),
        ({"ended": True}, None, False),
    ],
    ids=["of this process", "killed", "of another machine", "long abandoned there", "ended"],
)
def test_a_trace_makes_room_once_nobody_writes_it(folder, mark, seconds, stays):
    KEPT.mkdir()
    if "pid" in mark:
        mark = {"pid": gone()}
    first = written("first", **mark)
    age(first.path, time.time() if seconds is None else seconds)
    for number in range(KEEP_RUNS):
        other = written("other")
        other.close()
        age(other.path, 2e9 + number)
    assert first.path.exists() == stays
    first.close()


def test_another_process_removes_an_old_trace_first(open_run, monkeypatch):
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda at: [*listed(at), at / "gone-1.sqlite"])
    assert open_run()[1].path == Path(".stethoscope/train-1.sqlite").absolute()


def test_the_newest_is_the_one_that_was_written_last(open_run):
    assert newest(Path()) is None
    _, running = open_run("running.py")
    session, ended = open_run("ended.py")
    session.close()
    train(running)
    running._writer.commit()
    age(ended.path, 1000)
    os.utime(running.path, (1, 1))
    assert newest(KEPT.absolute()) == running.path


def test_an_empty_file_is_no_trace(folder):
    empty = new_path(Path(), "train", None)
    assert empty.stat().st_size == 0
    assert not is_trace(empty)
    assert newest(Path()) is None
