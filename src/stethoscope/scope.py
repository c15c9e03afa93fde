"""A piece of a program that is watched: what `stethoscope.watch` returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

from stethoscope.monitor import Session
from stethoscope.types import Report, Verdict


class Scope:
    """A training that is watched; a context manager, or a plain object with `close()`.

    Args:
        session: What the reports go to; None when watching is switched off.
        start: Begins to watch, and goes on after `stop`.
        stop: Ends it; what hung on the user's program is gone.
        end: The same for good, without a later `start`; by default `stop`.
        reports: Which ones are shown; by default all of the session.
        owned: False where another scope does the watching and the closing.
        framework: Named in the report when nothing was seen.
    """

    def __init__(
        self,
        session: Session | None,
        start: Callable[[], None],
        stop: Callable[[], None],
        end: Callable[[], None] | None = None,
        *,
        reports: Callable[[], list[Report]] | None = None,
        owned: bool = True,
        framework: str,
    ) -> None:
        self._session = session
        self._start = start
        self._stop = stop
        self._end = end or stop
        self._reports = reports
        self._open = owned and session is not None
        self._framework = framework

    @property
    def report(self) -> Report:
        """What can be said so far; of the last run when there were several."""
        reports = self.reports
        if reports:
            return reports[-1]
        return nothing_seen(self._session, self._framework, "no optimizer step was seen")

    @property
    def reports(self) -> list[Report]:
        """One report for each run in this scope."""
        if self._reports is not None:
            return self._reports()
        return self._session.reports if self._session is not None else []

    @property
    def should_stop(self) -> bool:
        """An ERROR is confirmed, and the settings ask to stop: leave the training loop."""
        return self._session is not None and self._session.should_stop

    def pause(self) -> None:
        """Stops to watch for a while; until `resume` nothing of ours hangs on the program."""
        if self._open:
            self._stop()

    def resume(self) -> None:
        """Goes on to watch after `pause`."""
        if self._open:
            self._start()

    def close(self) -> None:
        """Stops to watch, closes the trace and prints the report (once)."""
        if not self._open or self._session is None:
            return
        self._open = False
        self._end()
        self._session.close()
        show(self._session, self._session.reports)

    def __enter__(self) -> Scope:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def nothing_seen(session: Session | None, framework: str, reason: str) -> Report:
    """The report where no run was seen.

    Args:
        session: None when watching is switched off. Its last note is a better reason.
        framework: As in a Program.
        reason: What was waited for in vain.
    """
    if session is None:
        reason = "watching is switched off"
    elif session.notes:
        reason = session.notes[-1]
    meta = {"framework": framework, "steps": 0}
    return Report(meta, Verdict.UNDETERMINED, reason, (), (), (), {}, {})


def show(session: Session, reports: Sequence[Report]) -> None:
    """Prints reports to the session's stderr, on rank 0, unless it is to be quiet."""
    if session.config.quiet or session.rank != 0:
        return
    from stethoscope.report import stream, terminal

    to = session.stderr
    color, width = stream.use_color(to), stream.width(to)
    verbose = session.config.verbose
    stream.put(terminal.render(reports, color=color, verbose=verbose, width=width), to)
