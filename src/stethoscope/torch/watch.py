"""The PyTorch adapter's door: `watch` for a training loop, `install` for a whole process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import nn

from stethoscope import config
from stethoscope.config import Config
from stethoscope.monitor import Session
from stethoscope.torch.sources import Sources
from stethoscope.torch.watcher import Watcher
from stethoscope.types import Report, Verdict

_installed: list[Watcher] = []


class Scope:
    """A training loop that is watched; a context manager, or a plain object with `close()`.

    Made by `watch`.
    """

    def __init__(self, session: Session | None, watcher: Watcher | None, owned: bool) -> None:
        self._session = session
        self._watcher = watcher
        self._owned = owned
        self._closed = False

    @property
    def report(self) -> Report:
        """What can be said so far; of the first run when there were several."""
        reports = self._session.reports if self._session is not None else []
        return reports[0] if reports else nothing_seen(self._session)

    @property
    def reports(self) -> list[Report]:
        """One report for each run in this scope."""
        return self._session.reports if self._session is not None else []

    @property
    def should_stop(self) -> bool:
        """An ERROR is confirmed, and the settings ask to stop: leave the training loop."""
        runs = self._watcher.runs if self._watcher is not None else []
        return any(run.monitor is not None and run.monitor.should_stop for run in runs)

    def pause(self) -> None:
        """Stops to watch for a while; until `resume` nothing of ours hangs on torch."""
        if self._watcher is not None and self._owned and not self._closed:
            self._watcher.stop()

    def resume(self) -> None:
        """Goes on to watch after `pause`."""
        if self._watcher is not None and self._owned and not self._closed:
            self._watcher.start()

    def close(self) -> None:
        """Stops to watch, closes the trace and prints the report (once)."""
        if self._closed or not self._owned or self._session is None or self._watcher is None:
            return
        self._closed = True
        self._watcher.stop()
        if self._watcher in _installed:
            _installed.remove(self._watcher)
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


def watch(
    model: nn.Module | Sequence[nn.Module],
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    **settings: Any,
) -> Scope:
    """Watches the training of a model in a plain PyTorch loop.

    Args:
        model: The model, or all models that are trained together (a GAN).
        optimizer: Its optimizer, or optimizers. Any `torch.optim` optimizer that updates the
            model is seen, whether it is given here or not.
        **settings: Fields of `stethoscope.config.Config`, such as `probe_every` or `on_error`.

    Returns:
        A context manager whose `report` holds the verdict.

    Raises:
        TypeError: `model` is no module, or `optimizer` no optimizer.
        ConfigError: a setting is unknown or cannot have its value.

    >>> import torch
    >>> model = torch.nn.Linear(4, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with watch(model, optimizer, quiet=True) as scope:
    ...     for _ in range(3):
    ...         optimizer.zero_grad()
    ...         loss = torch.nn.functional.mse_loss(model(torch.ones(8, 4)), torch.ones(8, 1))
    ...         loss.backward()
    ...         optimizer.step()
    >>> scope.report.meta["steps"]
    3
    """
    models = [model] if isinstance(model, nn.Module) else list(model)
    for item in models:
        if not isinstance(item, nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, got {type(item).__name__}.")
    given = [] if optimizer is None else optimizer
    for other in [given] if isinstance(given, torch.optim.Optimizer) else given:
        if not isinstance(other, torch.optim.Optimizer):
            raise TypeError(
                f"optimizer must be a torch.optim.Optimizer, got {type(other).__name__}."
            )
    found = config.load(settings)
    if found.disable or in_worker():
        return Scope(None, None, owned=False)
    if _installed:
        outer = _installed[-1]
        return Scope(outer.session, outer, owned=False)
    session = Session(found)
    watcher = Watcher(session, models)
    watcher.start()
    _installed.append(watcher)
    return Scope(session, watcher, owned=True)


def install(session: Session) -> Callable[[], None]:
    """Watches every model that this process trains. Used by `stethoscope run`.

    Returns:
        A function that takes everything away again.
    """
    if session.config.disable or in_worker():
        return lambda: None
    lines = Sources()
    lines.record()
    watcher = Watcher(session, None, lines)
    watcher.start()
    _installed.append(watcher)

    def uninstall() -> None:
        watcher.stop()
        if watcher in _installed:
            _installed.remove(watcher)

    return uninstall


def in_worker() -> bool:
    """Whether this process was spawned by another, such as a `DataLoader`'s worker."""
    return multiprocessing.parent_process() is not None


def nothing_seen(session: Session | None) -> Report:
    """The report when no step was seen."""
    disabled = session is None
    reason = "watching is switched off" if disabled else "no optimizer step was seen"
    return Report(
        {"framework": "torch", "steps": 0}, Verdict.UNDETERMINED, reason, (), (), (), {}, {}
    )


def _print(session: Session) -> None:
    settings: Config = session.config
    if settings.quiet or session.rank != 0:
        return
    try:
        from stethoscope.report.terminal import render
    except ImportError:
        return
    stream = session.stderr
    text = render(session.reports, color=stream.isatty(), verbose=settings.verbose, width=100)
    print(text, file=stream, flush=True)
