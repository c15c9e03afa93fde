"""Runs a small program under the adapter and hands out what was recorded."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules import module as nn_module
from torch.optim import optimizer as optim_optimizer

import stethoscope
from stethoscope.config import Config
from stethoscope.monitor import Session
from stethoscope.torch import install
from stethoscope.trace import Trace, read
from stethoscope.types import Report

PACKAGE = str(Path(stethoscope.__file__).parent)


class Watched:
    """What came out: the value of the program, the traces, the notes."""

    def __init__(
        self, value: Any, traces: list[Trace], notes: list[str], reports: list[Report]
    ) -> None:
        self.value = value
        self.reports = reports
        self.traces = traces
        self.notes = notes

    @property
    def trace(self) -> Trace:
        assert len(self.traces) == 1, f"expected one run, got {len(self.traces)}"
        return self.traces[0]


def watched(program: Callable[[], Any], folder: Path, seed: int = 0, **settings: Any) -> Watched:
    """Runs `program` as `stethoscope run` would; fails when the adapter gave up."""
    torch.manual_seed(seed)
    config = Config(trace_dir=str(folder), **settings)
    session = Session(config, script="program.py", stderr=io.StringIO())
    uninstall = install(session)
    try:
        value = program()
    finally:
        uninstall()
        session.close()
    assert session.notes == []
    assert_nothing_left()
    paths = sorted(folder.glob("*.sqlite"), key=lambda p: int(p.stem.rpartition("-")[2]))
    return Watched(value, [read(path) for path in paths], session.notes, session.reports)


def assert_nothing_left() -> None:
    """No hook, no mode, no patch."""
    assert not nn_module._global_forward_hooks
    assert not nn_module._global_forward_pre_hooks
    assert not nn_module._global_forward_hooks_always_called
    assert not nn_module._global_forward_hooks_with_kwargs
    assert not optim_optimizer._global_optimizer_pre_hooks
    assert not optim_optimizer._global_optimizer_post_hooks
    assert torch._C._len_torch_function_stack() == 0
    for kind in (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler):
        assert not kind.__init__.__code__.co_filename.startswith(PACKAGE)
