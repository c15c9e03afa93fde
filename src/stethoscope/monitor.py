"""Recorder, rules and diagnosis together, while training runs.

A `Session` is one process that is watched (`stethoscope run`, or a program that uses the library);
a `Monitor` is one run in it. Adapters open monitors and feed them; nobody else does.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from stethoscope.config import Config
from stethoscope.diagnosis.judge import Judge
from stethoscope.program import Program
from stethoscope.recorder import Recorder
from stethoscope.row import Event, Row
from stethoscope.schedule import PROBE_EVERY, SHARE, Schedule
from stethoscope.trace import TraceWriter
from stethoscope.trace_folder import fallback_folder, new_path, writer_mark
from stethoscope.types import Diagnosis, Report, Severity

ROWS_BEFORE_JUDGING = 64  # plain rows are judged together; a probed row or an event at once


class FaultyTrainingError(RuntimeError):
    """Raised with `on_error="raise"` when a diagnosis is confirmed as an ERROR."""


class Session:
    """The runs of one process, their settings and their reports.

    Attributes:
        notes: What is to be said beside the reports.
        failed: Something of the process was not watched because of an error of ours.

    Args:
        config: The settings in force.
        script: The script that is run; None in library use.
        stderr: Where our own text goes.
        lines: Whether lines are printed while the script runs.
    """

    def __init__(
        self,
        config: Config,
        script: str | None = None,
        stderr: TextIO | None = None,
        *,
        lines: bool = True,
    ) -> None:
        self.config = config
        self.script = script
        self.stderr = stderr or sys.stderr
        self._lines = lines
        self._folder = Path(config.trace_dir).absolute()  # the program may change its folder
        self._rank = _launched_rank()
        self.rank = self._rank or 0
        self.notes: list[str] = []
        self.failed = False
        self._monitors: list[Monitor] = []

    def open(self, program: Program, begun: float | None = None) -> Monitor:
        """Starts to watch a run.

        Args:
            program: What is trained.
            begun: When the watching began (of `time.perf_counter`); None: now.
        """
        monitor = Monitor(self, program, self._writer(program), begun)
        self._monitors.append(monitor)
        return monitor

    @property
    def reports(self) -> list[Report]:
        """One report a run, in the order of their start; open runs are reported so far."""
        seen = [m for m in self._monitors if m.recorder.rows_written or m.failed]
        return [monitor.report() for monitor in seen]

    @property
    def should_stop(self) -> bool:
        """An ERROR is confirmed in one of the runs, and the settings ask to stop."""
        return any(monitor.should_stop for monitor in self._monitors)

    def close(self) -> None:
        """Closes what is still open."""
        for monitor in self._monitors:
            monitor.close()

    def tell(self, text: str, *, error: bool = False) -> None:
        """Prints one line of our own, on rank 0; unless quiet, or it is an error found."""
        if self._lines and self.rank == 0 and (error or not self.config.quiet):
            # a closed pipe or a full disk under stderr must not end the training
            with contextlib.suppress(OSError, ValueError):
                print(f"stethoscope: {text}", file=self.stderr, flush=True)

    def fail(self, text: str) -> None:
        """Says once that an error of ours ended the watching of something."""
        self.failed = True
        self.notes.append(text)
        self.tell(text)

    def _writer(self, program: Program) -> TraceWriter | None:
        stem = Path(self.script).name.removesuffix(".py") if self.script else "run"
        meta = {
            "script": Path(self.script).name if self.script else None,
            "framework": program.framework,
            "rank": self.rank,
            "started": time.time(),
            **writer_mark(),
        }
        for folder in (self._folder, fallback_folder()):
            try:
                if folder.exists() and not folder.is_dir():
                    raise OSError(f"{folder} is a file; expected a folder for traces")
                if not folder.is_dir():
                    folder.mkdir(parents=True, exist_ok=True)  # another rank may make it too
                    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
                return TraceWriter(new_path(folder, stem, self._rank), meta)
            except OSError as error:
                self.tell(f"{error}; trying elsewhere.")
        self.tell("no trace is kept: no folder could be written.")
        return None


class Monitor:
    """One run: takes what the adapter saw, judges it, says when to stop.

    Attributes:
        recorder: What the adapter hands its numbers to.
        schedule: Which steps to probe.
        should_stop: An ERROR is confirmed and the settings ask to stop.
        failed: An error of ours ended the watching, or part of the judging.
        catch_up: Called before a report: an adapter that looks at several steps together hands over
            those that it still holds.
    """

    def __init__(
        self,
        session: Session,
        program: Program,
        writer: TraceWriter | None,
        begun: float | None = None,
    ) -> None:
        self.session = session
        every = session.config.probe_every
        fixed = every is not None or bool(os.environ.get("CI"))  # there runs are compared
        self.schedule = Schedule(every or PROBE_EVERY, share=None if fixed else SHARE)
        self.should_stop = False
        self.catch_up: Callable[[], None] = lambda: None
        self._together = False
        self._writer = writer
        self._judge = Judge(session.config)
        self.recorder = Recorder(program, writer, self._take)
        self._waiting: list[Row] = []
        self._started = time.perf_counter() if begun is None else begun
        self._ended: float | None = None
        self._spent = 0.0
        self._next_step = 0
        self._error: Diagnosis | None = None
        self.failed = False
        if writer is not None:
            writer.meta({"schedule": self.schedule.describe()})

    @property
    def path(self) -> Path | None:
        """Where the trace lies."""
        return self._writer.path if self._writer else None

    @property
    def seconds(self) -> float:
        """Time spent watching so far: the adapter's and the judging."""
        return self._spent

    def spent(self, seconds: float) -> None:
        """Adds time that the adapter spent watching, for the overhead that the report prints."""
        if self._ended is None:
            self._spent += seconds

    def end_step(self, step: int, epoch: int = 0, batch: int = 0) -> None:
        """Closes an optimizer step.

        Raises:
            FaultyTrainingError: with `on_error="raise"`, when an ERROR is confirmed.
        """
        self._next_step = step + 1
        self.recorder.end_step(step, epoch, batch)
        if not self._together:
            self._act()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Steps that end inside are judged together, which costs less.

        Raises:
            FaultyTrainingError: As `end_step`, when it is left.
        """
        self._together = True
        try:
            yield
        finally:
            self._together = False
        self._judge_waiting()
        self._act()

    def end_epoch(self, step: int, epoch: int) -> None:
        """Closes an epoch; see `end_step`."""
        self.recorder.end_epoch(step, epoch)
        self._act()

    def report(self) -> Report:
        """What can be said so far."""
        self.catch_up()
        self._judge_waiting()
        program = self.recorder.program
        meta: dict[str, Any] = {
            "script": Path(self.session.script).name if self.session.script else None,
            "framework": program.framework,
            "framework_version": program.framework_version,
            "backend": program.backend,
            "trace": str(self.path) if self.path else None,
            "trace_problem": self._writer.problem if self._writer else "not written",
            "rank": self.session.rank,
        }
        report = self._judge.report(meta, self._overhead())
        self._tell_failure()
        return report

    def fail(self, text: str) -> None:
        """An error of ours ends the watching: what comes from here on is not seen.

        What was found stands; a run without findings is undetermined from now on, never healthy.
        """
        if self._ended is None:
            self._judge_waiting()
            reason = f"from step {self._next_step} on nothing was seen: {text}"
            self._judge.fail(reason)
            self.failed = True
            if self._writer is not None:  # so that `check` says the same
                self._writer.meta({"failure": reason})
                self._writer.commit()

    def close(self) -> Report:
        """Ends the run: judges what is left and closes the trace."""
        if self._ended is None:
            self.catch_up()
            if self.recorder.pending:
                self.recorder.end_step(self._next_step)  # the step that never came to its end
            elif not self.recorder.rows_written and self.recorder.program.losses:
                self.recorder.end_epoch(0, 0)  # no step at all: the Program alone can be judged
            self._judge_waiting()
            self._ended = time.perf_counter()
            if self._writer is not None:
                self._writer.meta({"overhead": self._overhead()})
                self._writer.close()
                if self._writer.problem:
                    self.session.tell(self._writer.problem)
        return self.report()

    def _overhead(self) -> dict[str, float]:
        total = max((self._ended or time.perf_counter()) - self._started, 1e-9)
        share = self._spent / max(total - self._spent, 1e-9)
        return {"seconds": self._spent, "share": share, "total_seconds": total}

    def _take(self, row: Row) -> None:
        self._waiting.append(row)
        if self._together:
            return
        if row.probed or row.events or len(self._waiting) >= ROWS_BEFORE_JUDGING:
            self._judge_waiting()

    def _judge_waiting(self) -> None:
        if not self._waiting:
            return
        begun = time.perf_counter()
        rows, self._waiting = self._waiting, []
        for row, symptoms in self._judge.update(rows):
            for symptom in symptoms:
                self.schedule.alarm(row.step)
                if self._writer is not None:
                    self._writer.symptom(row.order, symptom)
            for change in self._judge.severity_changes():
                if self._writer is not None:
                    self._writer.event(row.order, row.step, Event("severity", change))
                if change["from"] is Severity.ERROR:
                    now = f"now a {change['to']}" if change["to"] else "gone"
                    text = f"no longer an error (step {row.step}): {change['fault']} is {now}."
                    self.session.tell(text, error=True)
        for diagnosis in self._judge.new_errors():
            self._error = diagnosis
            self.session.tell(one_line(diagnosis), error=True)
        self._tell_failure()
        self._spent += time.perf_counter() - begun

    def _tell_failure(self) -> None:
        if self._judge.failure is not None and not self.failed:
            self.failed = True
            self.session.fail(self._judge.failure)

    def _act(self) -> None:
        if self._error is None or self.session.config.on_error == "warn":
            return
        error, self._error = self._error, None
        if self.session.config.on_error == "raise":
            raise FaultyTrainingError(one_line(error))
        self.should_stop = True


def one_line(diagnosis: Diagnosis) -> str:
    """A diagnosis as one line for a log."""
    source = diagnosis.place.source
    where = f"{source.file}:{source.line}: " if source else ""
    change = f" Try: {diagnosis.fixes[0].title}." if diagnosis.fixes else ""
    step = f" (step {diagnosis.first_seen})"
    return (
        f"{where}{diagnosis.severity.value}: {diagnosis.fault}{step}: {diagnosis.message}{change}"
    )


def _launched_rank() -> int | None:
    """The rank that a launcher gave this process; None without one, or when it is no number."""
    text = os.environ.get("RANK", "").strip()
    return int(text) if text.isdecimal() else None
