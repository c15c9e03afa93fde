"""The PyTorch adapter's door: `watch` for a training loop, `install` for a whole process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from stethoscope import config
from stethoscope.monitor import Session
from stethoscope.scope import Scope
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
        return Scope(None, _nothing, _nothing, owned=False, framework="torch")
    if _installed:
        outer = _installed[-1].session
        return Scope(outer, _nothing, _nothing, owned=False, framework="torch")
    watcher = Watcher(Session(found), models)
    _start(watcher)
    return Scope(
        watcher.session,
        lambda: _start(watcher),
        lambda: _stop(watcher),
        owned=True,
        framework="torch",
    )


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
    _start(watcher)
    return lambda: _stop(watcher)


def _start(watcher: Watcher) -> None:
    watcher.start()
    if watcher not in _installed:
        _installed.append(watcher)


def _stop(watcher: Watcher) -> None:
    watcher.stop()
    if watcher in _installed:
        _installed.remove(watcher)


def _nothing() -> None:
    """What a scope inside another has to do."""


def in_worker() -> bool:
    """Whether this process was spawned by another, such as a `DataLoader`'s worker."""
    return multiprocessing.parent_process() is not None
