"""A framework and its adapter, in thirty lines: what `run` does around any adapter.

Run as a script, this is the command line with `fakeframe` as the only framework. A user's script
imports `fakeframe` and calls `fakeframe.train(steps)`.
"""

import os
import sys
import types
from pathlib import Path

from stethoscope import cli, launch
from stethoscope.program import Program
from stethoscope.types import Diagnosis, Place, PlaceKind, Report, Severity, Stage, Verdict


def install(session):
    """The adapter: every `train` is a run of its own."""
    framework = sys.modules["fakeframe"]
    bare = framework.train

    def train(steps, loss=1.0):
        monitor = session.open(Program(framework="fakeframe", framework_version="1.0"))
        for step in range(steps):
            monitor.recorder.scalar(Stage.LOSS, loss)
            monitor.end_step(step)

    framework.train = train

    def uninstall():
        framework.train = bare
        print("uninstalled", flush=True)

    return uninstall


class FakeJudge:
    """Finds what the environment says, so that a test chooses the answer."""

    def __init__(self, config):
        self.steps = 0

    def update(self, rows):
        self.steps += len(rows)
        return [(row, []) for row in rows]

    def severity_changes(self):
        return []

    def new_errors(self):
        return [d for d in self.diagnoses() if d.severity is Severity.ERROR]

    failure = None

    def diagnoses(self):
        place = Place(PlaceKind.HYPERPARAMETER, path="optimizer.learning_rate")
        found = os.environ.get("FAKE_SEVERITY")
        if not found:
            return ()
        return (
            Diagnosis(
                "learning-rate-too-high", Severity(found), 0.9, place, (), (), (), "Too high.", 3
            ),
        )

    def report(self, meta, overhead):
        verdict = Verdict(os.environ.get("FAKE_VERDICT", "healthy"))
        meta = {**meta, "steps": self.steps}
        return Report(meta, verdict, "It is so.", self.diagnoses(), (), ("X001",), {}, overhead)


if __name__ == "__main__":
    framework_folder = Path.cwd()
    (framework_folder / "fakeframe.py").write_text("def train(steps, loss=1.0):\n    pass\n")
    adapter = types.ModuleType("fake_adapter")
    adapter.install = install
    if os.environ.get("FAKE_BROKEN"):
        adapter.install = lambda session: 1 / 0
    sys.modules["fake_adapter"] = adapter
    launch.ADAPTERS = {"fakeframe": "fake_adapter"}
    from stethoscope import monitor

    monitor.Judge = FakeJudge
    sys.exit(cli.main())
