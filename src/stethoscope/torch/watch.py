"""The PyTorch adapter's door: `watch` for a training loop, `install` for a whole process."""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from stethoscope import config
from stethoscope.monitor import Session
from stethoscope.scope import Scope
from stethoscope.torch.registry import Group, parameters, updated
from stethoscope.torch.sources import Sources
from stethoscope.torch.watcher import Watcher

_installed: list[Watcher] = []


def watch(
    model: nn.Module | Sequence[nn.Module],
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    **settings: Any,
) -> Scope:
    """Watches the training of a model in a plain PyTorch loop.

    Args:
        model: The model, or all models that are trained together (a GAN).
        optimizer: Its optimizer, or optimizers: told at once when it updates no parameter of the
            model. Any `torch.optim` optimizer that updates the model is seen, given here or not.
        **settings: Fields of `stethoscope.config.Config`, such as `probe_every` or `on_error`.

    Returns:
        A context manager whose `report` holds the verdict. Scopes may overlap: each has its own
        settings and reports. Where the model is watched already, by a scope that is still open
        or by `stethoscope run`, that watching goes on, and the scope shows its reports.

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
    if not isinstance(model, (nn.Module, Sequence)):
        raise TypeError(
            "model must be a torch.nn.Module, or a sequence of them, "
            f"got {type(model).__name__}: watch(model, optimizer)."
        )
    models = [model] if isinstance(model, nn.Module) else list(model)
    for item in models:
        if not isinstance(item, nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, got {type(item).__name__}.")
    given = [] if optimizer is None else optimizer
    if not isinstance(given, (torch.optim.Optimizer, Sequence)):
        raise TypeError(f"optimizer must be a torch.optim.Optimizer, got {type(given).__name__}.")
    optimizers = [given] if isinstance(given, torch.optim.Optimizer) else list(given)
    for other in optimizers:
        if not isinstance(other, torch.optim.Optimizer):
            raise TypeError(
                f"optimizer must be a torch.optim.Optimizer, got {type(other).__name__}."
            )
    found = config.load(settings)
    if found.disable or in_worker():
        return Scope(None, _nothing, _nothing, framework="torch")
    watcher = next((w for w in reversed(_installed) if w.usable), None) or Watcher()
    own = set().union(*map(parameters, models))
    group = watcher.registry.group_of(own)
    if group is not None:
        scope = _shared(watcher, group, models, settings)
        session = group.session
    else:
        session = Session(found)
        group = watcher.registry.watch(session, models)
        scope = Scope(
            session,
            functools.partial(_start, watcher, group),
            functools.partial(_pause, watcher, group),
            functools.partial(_close, watcher, group),
            framework="torch",
        )
        scope.resume()
    for other in optimizers:
        if own and own.isdisjoint(updated(other)):
            note = (
                f"the {type(other).__name__} that was given updates no parameter of the model: "
                "was it made from other parameters?"
            )
            session.notes.append(note)
            session.tell(note)
    return scope


def _shared(
    watcher: Watcher, group: Group, models: list[nn.Module], settings: dict[str, Any]
) -> Scope:
    """A scope on what `stethoscope run`, or a scope that is still open, watches already."""
    session = group.session
    watcher.registry.watch(session, models, group)
    if settings:
        session.tell(
            "this model is watched already: the settings of that hold, not those of this watch()."
        )
    reports = functools.partial(watcher.registry.reports, models)
    return Scope(session, _nothing, _nothing, reports=reports, owned=False, framework="torch")


def install(session: Session) -> Callable[[], None]:
    """Watches every model that this process trains. Used by `stethoscope run`.

    Returns:
        A function that takes everything away again.
    """
    if session.config.disable or in_worker():
        return lambda: None
    lines = Sources()
    lines.record()
    watcher = Watcher(lines)
    group = watcher.registry.watch(session, None)
    _start(watcher, group)
    return functools.partial(_close, watcher, group)


def _start(watcher: Watcher, group: Group) -> None:
    watcher.start(group)
    if watcher not in _installed:
        _installed.append(watcher)


def _pause(watcher: Watcher, group: Group) -> None:
    watcher.pause(group)
    _tidy()


def _close(watcher: Watcher, group: Group) -> None:
    watcher.close(group)
    _tidy()


def _tidy() -> None:
    _installed[:] = [watcher for watcher in _installed if watcher.busy]


def _nothing() -> None:
    """What a scope has to do that hangs on another."""


def in_worker() -> bool:
    """Whether this process was spawned by another, such as a `DataLoader`'s worker."""
    return multiprocessing.parent_process() is not None
