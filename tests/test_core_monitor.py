"""One run and one process: what is told, what is kept, what is thrown away."""

import io
from pathlib import Path

import pytest

from stethoscope.config import Config
from stethoscope.monitor import Session
from stethoscope.program import Program
from stethoscope.trace import read
from stethoscope.types import Stage

PROGRAM = Program("torch", "2.0")


@pytest.fixture
def session(folder):
    opened = []

    def make(script="train.py", **settings):
        opened.append(Session(Config(**settings), script, io.StringIO()))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def train(session, steps=3):
    monitor = session.open(PROGRAM)
    for step in range(steps):
        monitor.recorder.scalar(Stage.LOSS, 1 / (step + 1))
        monitor.end_step(step)
    return monitor


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("train.py", "train-1"),
        ("deep/x.y.py", "x.y-1"),
        ("pack.mod", "pack.mod-1"),
        (None, "run-1"),
    ],
)
def test_trace_is_named_after_the_script(session, script, name):
    assert train(session(script)).path.name == f"{name}.sqlite"


def test_a_run_that_never_stepped_is_no_report(session):
    watched = session()
    watched.open(PROGRAM)
    assert watched.reports == []
    train(watched)
    assert len(watched.reports) == 1


def test_a_step_that_never_came_to_its_end_is_the_last_row(session):
    monitor = train(session())
    monitor.end_epoch(2, 0)
    monitor.recorder.scalar(Stage.LOSS, 9.0)
    monitor.close()
    rows = list(read(monitor.path).rows())
    assert [row.step for row in rows] == [0, 1, 2, 2, 3]
    assert rows[-1].scalar(Stage.LOSS) == 9


def test_trace_says_what_watching_cost(session):
    monitor = train(session())
    monitor.spent(0.25)
    report = monitor.close()
    assert report.overhead["seconds"] >= 0.25
    assert read(monitor.path).meta["overhead"]["seconds"] == report.overhead["seconds"]


def test_each_rank_has_its_trace_and_rank_0_speaks(session, monkeypatch):
    told = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        watched = session()
        watched.tell("hello")
        told.append(watched.stderr.getvalue())
        assert train(watched).path.name.endswith(f".rank{rank}.sqlite")
    assert told == ["stethoscope: hello\n", ""]


def test_a_rank_that_is_no_number_is_none(session, monkeypatch):
    monkeypatch.setenv("RANK", "worker-3")
    watched = session()
    assert watched.rank == 0
    assert train(watched).path.name == "train-1.sqlite"


def test_another_process_makes_the_folder_first(session, monkeypatch):
    mkdir = Path.mkdir

    def late(folder, *arguments, **options):
        mkdir(folder, exist_ok=True)
        mkdir(folder, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", late)
    assert train(session()).path == Path(".stethoscope/train-1.sqlite").absolute()


def test_a_broken_stderr_never_ends_the_training(session):
    watched = session()
    watched.stderr.close()
    watched.tell("hello")


def test_no_folder_at_all_still_watches(session, monkeypatch):
    Path("file").write_text("")
    monkeypatch.setattr("tempfile.gettempdir", lambda: "file")
    watched = session(trace_dir="file/traces")
    assert train(watched).path is None
    assert "no trace is kept" in watched.stderr.getvalue()
    assert watched.reports[0].meta["steps"] == 3


def test_a_run_that_opens_after_the_program_changed_its_folder_is_kept_where_it_began(
    session, monkeypatch, tmp_path
):
    begun, other = Path.cwd(), tmp_path / "elsewhere"
    other.mkdir()
    watching = session()
    monkeypatch.chdir(other)
    monitor = train(watching)
    assert monitor.path.parent == begun / ".stethoscope"
