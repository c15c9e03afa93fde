"""A piece of a program that is watched: what `stethoscope.watch` returns."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from stethoscope.monitor import Session
from stethoscope.types import Report, Verdict


class Scope:
    """A training that is watched; a context manager, or a plain object with `close()`.

    Args:
        session: What the reports go to; None when watching is switched off.
        start: Begins to watch, and goes on after `stop`.
        stop: Ends it; what hung on the user's program is gone.
        owned: False inside another scope, which then does the watching and the closing.
        framework: Named in the report when nothing was seen.
    """

    def __init__(
        self,
        session: Session | None,
        start: Callable[[], None],
        stop: Callable[[], None],
        *,
        owned: bool,
        framework: str,
    ) -> None:
        self._session = session
        self._start = start
        self._stop = stop
        self._open = owned and session is not None
        self._framework = framework

    @property
    def report(self) -> Report:
        """What can be said so far; of the first run when there were several."""
        return self.reports[0] if self.reports else self._nothing_seen()

    @property
    def reports(self) -> list[Report]:
        """One report for each run in this scope."""
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
        self._stop()
        self._session.close()
        _print(self._session)

    def __enter__(self) -> Scope:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _nothing_seen(self) -> Report:
        if self._session is None:
            reason = "watching is switched off"
        elif self._session.failed:  # of notes, the failure is the one to read
            reason = self._session.notes[-1]
        else:
            reason = "no optimizer step was seen"
        meta = {"framework": self._framework, "steps": 0}
        return Report(meta, Verdict.UNDETERMINED, reason, (), (), (), {}, {})


def _print(session: Session) -> None:
    settings = session.config
    if settings.quiet or session.rank != 0:
        return
    from stethoscope.report.terminal import render

    stream = session.stderr
    text = render(session.reports, color=stream.isatty(), verbose=settings.verbose, width=100)
    print(text, file=stream, flush=True)
