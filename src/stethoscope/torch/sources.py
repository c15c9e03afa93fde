"""The lines that constructed modules, optimizers and schedules, recorded while they run.

`record()` wraps three constructors of torch; it is used under `stethoscope run` only, where the
user's program is known to be the whole process. In library use lines are found by reading.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from stethoscope.diagnosis import locate
from stethoscope.diagnosis.search import find_layer
from stethoscope.types import SourceRef


class Sources:
    """Where live objects were constructed."""

    def __init__(self) -> None:
        self._lines: dict[int, tuple[weakref.ref[Any], SourceRef]] = {}
        self._schedules: dict[int, tuple[weakref.ref[Any], str, SourceRef | None]] = {}
        self._undo: list[Callable[[], None]] = []

    def of(self, thing: Any) -> SourceRef | None:
        """The call that constructed `thing`; None when it was not seen."""
        found = self._lines.get(id(thing))
        return found[1] if found is not None and found[0]() is thing else None

    def modules(self) -> list[torch.nn.Module]:
        """The modules whose construction was seen, and that live."""
        things = [reference() for reference, _ in list(self._lines.values())]
        return [thing for thing in things if isinstance(thing, torch.nn.Module)]

    def schedule_of(self, optimizer: Any) -> tuple[str, SourceRef | None] | None:
        """Class name and line of the learning-rate schedule that drives `optimizer`."""
        found = self._schedules.get(id(optimizer))
        return found[1:] if found is not None and found[0]() is optimizer else None

    def record(self) -> None:
        """Starts to record constructions."""
        self._wrap(torch.nn.Module, self._constructed)
        self._wrap(torch.optim.Optimizer, self._constructed)
        self._wrap(LRScheduler, self._scheduled)

    def stop(self) -> None:
        """Puts the constructors back; what was recorded stays."""
        while self._undo:
            self._undo.pop()()

    def _wrap(self, kind: type, note: Callable[[Any, tuple[Any, ...], FrameType], None]) -> None:
        original = kind.__init__  # type: ignore[misc]

        @functools.wraps(original)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            # Never inside a compiled graph, and never at the user's expense.
            if not torch.compiler.is_compiling():
                try:
                    note(self, args, sys._getframe(1))
                except Exception:
                    stop()
            original(self, *args, **kwargs)

        stop = self.stop

        def undo() -> None:
            # Somebody may have wrapped it after us: then ours stays inside, and does nothing.
            if kind.__init__ is init:  # type: ignore[misc]
                kind.__init__ = original  # type: ignore[misc]

        kind.__init__ = init  # type: ignore[misc]
        self._undo.append(undo)

    def _constructed(self, thing: Any, args: tuple[Any, ...], frame: FrameType | None) -> None:
        if self.of(thing) is not None:
            return
        source = locate.here(outside(thing, frame))
        if source is not None:
            key = id(thing)
            reference = weakref.ref(thing, lambda _: self._lines.pop(key, None))
            self._lines[key] = (reference, source)

    def _scheduled(self, thing: Any, args: tuple[Any, ...], frame: FrameType | None) -> None:
        self._constructed(thing, args, frame)
        if args and isinstance(args[0], torch.optim.Optimizer):
            key = id(args[0])
            reference = weakref.ref(args[0], lambda _: self._schedules.pop(key, None))
            self._schedules[key] = (reference, type(thing).__name__, self.of(thing))


class Finder:
    """The lines of the modules of a run: recorded, else of what holds the module, else searched.

    Args:
        lines: What was recorded.
        modules: Every module of the run by root and path.
        user_file: The file with the training loop, where a model without a class was built.
    """

    def __init__(
        self,
        lines: Sources,
        modules: Mapping[tuple[int, str], torch.nn.Module],
        user_file: str | None,
    ) -> None:
        self._lines = lines
        self._modules = modules
        self._file = user_file
        self._same: dict[tuple[int, type], list[tuple[int, str]]] = {}
        for key, module in modules.items():
            self._same.setdefault((key[0], type(module)), []).append(key)

    def __call__(self, key: tuple[int, str]) -> SourceRef | None:
        """The call that constructed the module at `key`."""
        number, path = key
        while True:
            # A copied layer was constructed by nobody: the line of what holds it is right.
            found = self._lines.of(self._modules.get((number, path)))
            if found is not None:
                return found
            if not path:
                return self._search(key)
            path = path.rpartition(".")[0]

    def _search(self, key: tuple[int, str]) -> SourceRef | None:
        module, model = self._modules[key], self._modules.get((key[0], ""))
        same = self._same[key[0], type(module)]
        index, total = same.index(key), len(same)
        by_class = type(model) if model is not None else type(module)
        name = type(module).__name__
        if not by_class.__module__.startswith("torch."):
            found = find_layer(by_class, key[1], name, index, total)
            if found is not None:
                return found
        return find_layer(self._file, key[1], name, index, total) if self._file else None


def outside(thing: Any, frame: FrameType | None) -> FrameType | None:
    """The frame that called the constructor: past the `__init__`s of `thing`'s own classes."""
    while frame is not None and frame.f_code.co_name == "__init__":
        names = frame.f_code.co_varnames
        if not names or frame.f_locals.get(names[0]) is not thing:
            break
        frame = frame.f_back
    return frame


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user at or above `frame`."""
    while frame is not None and not locate.is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def variable_name(thing: Any, frame: FrameType | None) -> str | None:
    """The name under which the user's frame holds `thing`: a variable, or an attribute of self."""
    frame = user_frame(frame)
    while frame is not None:
        for scope in (frame.f_locals, frame.f_globals):
            for name, value in scope.items():
                if value is thing and not name.startswith("_") and name != "self":
                    return str(name)
        owner = frame.f_locals.get("self")
        for name, value in getattr(owner, "__dict__", {}).items():
            if value is thing:
                return str(name)
        modules = getattr(owner, "_modules", None) or {}
        for name, value in modules.items():
            if value is thing:
                return str(name)
        frame = user_frame(frame.f_back)
    return None
