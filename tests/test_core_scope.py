"""What a scope prints, and where nothing can be printed."""

import contextlib
import io
from pathlib import Path

import pytest

from stethoscope.config import Config
from stethoscope.monitor import Session
from stethoscope.program import Program
from stethoscope.report.stream import PLAIN_WIDTH
from stethoscope.scope import Scope
from stethoscope.types import Stage


class Terminal(io.StringIO):
    def isatty(self):
        return True


def closed(stderr, **settings):
    """A scope that saw three steps and was closed."""
    session = Session(Config(**settings), "train.py", stderr)
    scope = Scope(session, lambda: None, lambda: None, framework="torch")
    monitor = session.open(Program("torch", "2.0"))
    for step in range(3):
        monitor.recorder.scalar(Stage.LOSS, 1.0)
        monitor.end_step(step)
    scope.close()
    scope.close()  # prints once
    return scope


def test_the_report_is_printed_once(folder):
    stderr = io.StringIO()
    closed(stderr)
    assert stderr.getvalue().count("3 steps seen") == 1
    assert max(map(len, stderr.getvalue().splitlines())) <= PLAIN_WIDTH


def test_quiet_prints_nothing(folder):
    stderr = io.StringIO()
    closed(stderr, quiet=True)
    assert stderr.getvalue() == ""


@pytest.mark.parametrize(
    ("stream", "environment", "coloured"),
    [
        (io.StringIO, {}, False),
        (io.StringIO, {"FORCE_COLOR": "1"}, True),
        (Terminal, {"TERM": "xterm"}, True),
        (Terminal, {"TERM": "dumb"}, False),
        (Terminal, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
    ids=["a file", "forced", "a terminal", "a dumb terminal", "without colour"],
)
def test_colour_is_as_on_the_command_line(folder, monkeypatch, stream, environment, coloured):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stderr = stream()
    closed(stderr)
    assert ("\x1b[" in stderr.getvalue()) == coloured


def test_a_full_disk_under_stderr_does_not_reach_the_script(folder):
    full = Path("/dev/full").open("w")  # noqa: SIM115 (closing it fails)
    scope = closed(full)
    assert scope.report.meta["steps"] == 3
    with contextlib.suppress(OSError):
        full.close()


def test_a_closed_stderr_does_not_reach_the_script(folder):
    stderr = io.StringIO()
    stderr.close()
    assert closed(stderr).report.meta["steps"] == 3
