"""The lines that constructed layers, optimizers, losses and schedules, and compiled models.

`Recorded` notes them while they run, under `stethoscope run` only. `found` looks them up by
reading the source, for library use.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

import keras
from keras.src.losses.loss import Loss
from keras.src.ops.operation import Operation
from keras.src.optimizers.base_optimizer import BaseOptimizer
from keras.src.trainers.trainer import Trainer

from stethoscope.diagnosis import locate, search
from stethoscope.keras.names import from_library
from stethoscope.types import SourceRef


class Lines(Mapping[int, SourceRef]):
    """id of a live object to a line; an entry goes with its object."""

    def __init__(self) -> None:
        self._lines: dict[int, tuple[weakref.ref[Any], SourceRef]] = {}

    def note(self, thing: Any, source: SourceRef | None) -> None:
        """Notes the line of `thing`, over an earlier one."""
        if source is not None:
            key = id(thing)
            self._lines[key] = (weakref.ref(thing, lambda _: self._lines.pop(key, None)), source)

    def __getitem__(self, key: int) -> SourceRef:
        return self._lines[key][1]

    def __iter__(self) -> Iterator[int]:
        return iter(tuple(self._lines))

    def __len__(self) -> int:
        return len(self._lines)


class Recorded:
    """Notes constructions and `compile` calls while they run.

    Attributes:
        lines: Of layers, operations, optimizers, losses and schedules.
        compiled: Of models, their last `compile`.
    """

    def __init__(self) -> None:
        self.lines = Lines()
        self.compiled = Lines()
        self._undo: list[Callable[[], None]] = []

    def start(self) -> None:
        """Starts to note. `stop` takes everything back."""
        self._replace(Operation, "__new__", self._new)
        kinds = [BaseOptimizer, Loss]
        schedules = vars(keras.optimizers.schedules).values()
        kinds += [kind for kind in schedules if isinstance(kind, type) and "__init__" in vars(kind)]
        for kind in kinds:
            self._replace(kind, "__init__", self._init)
        self._replace(Trainer, "compile", self._compile)

    def stop(self) -> None:
        """Puts everything back; what was noted stays."""
        while self._undo:
            self._undo.pop()()

    def _replace(self, kind: type, name: str, wrap: Callable[[Any], Any]) -> None:
        self._undo.append(replaced(kind, name, wrap))

    def _new(self, original: Any) -> Any:
        function = original.__func__  # `__new__` is a static method

        @functools.wraps(function)
        def new(cls: type, *args: Any, **kwargs: Any) -> Any:
            thing = function(cls, *args, **kwargs)
            self._note(self.lines, thing, sys._getframe(1))
            return thing

        return staticmethod(new)

    def _init(self, original: Any) -> Any:
        @functools.wraps(original)
        def init(thing: Any, *args: Any, **kwargs: Any) -> None:
            original(thing, *args, **kwargs)
            if id(thing) not in self.lines:
                self._note(self.lines, thing, _outside(thing, sys._getframe(1)))

        return init

    def _compile(self, original: Any) -> Any:
        @functools.wraps(original)
        def compile_(model: Any, *args: Any, **kwargs: Any) -> Any:
            self._note(self.compiled, model, sys._getframe(1))
            return original(model, *args, **kwargs)

        return compile_

    def _note(self, lines: Lines, thing: Any, frame: FrameType | None) -> None:
        try:
            lines.note(thing, locate.here(frame))
        except Exception:
            self.stop()  # never at the user's expense


def replaced(kind: type, name: str, wrap: Callable[[Any], Any]) -> Callable[[], None]:
    """Replaces `kind.name` by `wrap(kind.name)`; returns what puts it back."""
    original = vars(kind)[name]
    wrapped = wrap(original)
    setattr(kind, name, wrapped)

    def undo() -> None:
        # Somebody may have wrapped it after us: then ours stays inside.
        if vars(kind).get(name) is wrapped:
            setattr(kind, name, original)

    return undo


def _outside(thing: Any, frame: FrameType | None) -> FrameType | None:
    """The frame that called the constructor: past the `__init__`s of `thing`'s own classes."""
    while frame is not None and frame.f_code.co_name == "__init__":
        names = frame.f_code.co_varnames
        if not names or frame.f_locals.get(names[0]) is not thing:
            break
        frame = frame.f_back
    return frame


def found(
    model: Any, layers: Mapping[str, Any], files: list[str]
) -> tuple[dict[int, SourceRef], SourceRef | None]:
    """Looks up the lines of a model's parts in the user's source.

    Args:
        model: The compiled model.
        layers: Path to layer object, in the order of the Program.
        files: The user's files on the stack, innermost first.

    Returns:
        (id of an object to its line, the `compile` call), none of them exact.
    """
    lines: dict[int, SourceRef] = {}
    totals = Counter(type(layer).__name__ for layer in layers.values())
    numbers: Counter[str] = Counter()
    own_class = type(model) if not from_library(type(model)) else None
    for path, layer in layers.items():
        name = type(layer).__name__
        index = numbers[name]
        numbers[name] += 1
        places: list[tuple[Any, str]] = [(file, path.rpartition("/")[2]) for file in files]
        if own_class is not None:
            places.insert(0, (own_class, _attribute(model, layer)))
        for where, attribute in places:
            line = search.find_layer(where, attribute, name, index, totals[name])
            if line is not None:
                lines[id(layer)] = line
                break
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        line = _call(files, [type(optimizer).__name__])
        if line is not None:
            lines[id(optimizer)] = line
    loss = getattr(model, "loss", None)
    if isinstance(loss, Loss):
        line = _call(files, [type(loss).__name__])
        if line is not None:
            lines[id(loss)] = line
    return lines, _call(files, [".compile"])


def _call(files: list[str], names: list[str]) -> SourceRef | None:
    for file in files:
        line = search.find_call(file, names)
        if line is not None:
            return line
    return None


def _attribute(model: Any, layer: Any) -> str:
    """The attribute under which a model holds a layer; "" when it is in a list or elsewhere."""
    return next((str(name) for name, value in vars(model).items() if value is layer), "")


def user_files(frame: FrameType | None) -> list[str]:
    """The user's files on the stack above `frame`, innermost first."""
    files: dict[str, None] = {}
    while frame is not None:
        if locate.is_user_file(frame.f_code.co_filename):
            files[frame.f_code.co_filename] = None
        frame = frame.f_back
    return list(files)
