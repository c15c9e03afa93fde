"""Shared fixtures: the command line in a process of its own."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stethoscope.engine.examples import run as run_example

SECONDS = 120


@pytest.fixture(scope="session")
def example_report(tmp_path_factory):
    """Gives the report on an `Example`, which is trained once."""
    folder = str(tmp_path_factory.mktemp("traces"))
    return functools.cache(lambda example: run_example(example, trace_dir=folder))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory, with no settings from the environment."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("STETHOSCOPE_") or name in ("NO_COLOR", "FORCE_COLOR", "RANK"):
            monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def stethoscope(folder):
    """Runs `python -m stethoscope ARGS` in `folder`, in a process of its own."""

    def run(*arguments, env=None, driver=None):
        command = [sys.executable, "-m", "stethoscope"]
        if driver is not None:
            command = [sys.executable, str(driver)]
        return subprocess.run(
            [*command, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
            timeout=SECONDS,
            check=False,
        )

    return run


@pytest.fixture
def bare(folder):
    """Runs `python ARGS` in `folder`."""

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=folder,
            timeout=SECONDS,
            check=False,
        )

    return run


@pytest.fixture
def write(folder):
    """Writes a file below `folder`; returns its path relative to it."""

    def make(name, text):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return Path(name)

    return make
