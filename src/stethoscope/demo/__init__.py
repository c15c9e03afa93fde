"""A small broken program of the engine and its repair, each run as a user's script would be."""

from __future__ import annotations

import difflib
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from stethoscope.config import load


def show() -> int:
    """Runs both programs and prints their reports.

    Returns:
        0 when the broken program was found faulty and the repaired one was not; 2 otherwise.
    """
    traces = Path(load().trace_dir).absolute()
    codes, text = [], list[str]()
    with tempfile.TemporaryDirectory(prefix="stethoscope-demo-") as folder:
        for name, words in (
            ("broken.py", "A classifier whose output goes through softmax twice:"),
            ("fixed.py", "The same program with the change applied:"),
        ):
            # a copy outside the package: what lies inside counts as ours, not as the user's
            path = Path(folder) / name
            source = resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
            path.write_text(source, encoding="utf-8")
            before, text = text, source.splitlines()
            print(f"\n{words}\n\n{_indented(text, before)}\n\n$ stethoscope run {name}", flush=True)
            command = [sys.executable, "-m", "stethoscope", "run", "--trace-dir", str(traces)]
            codes.append(subprocess.run([*command, str(path)], check=False).returncode)
    return 0 if codes == [1, 0] else 2


def _indented(text: list[str], before: list[str]) -> str:
    """A program; after the first one only what is different."""
    lines = list(difflib.unified_diff(before, text, n=1, lineterm=""))[3:] if before else text
    return "\n".join(f"    {line}".rstrip() for line in lines)
