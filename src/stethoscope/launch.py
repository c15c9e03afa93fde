"""Runs a user's script as `python script.py` would, with the adapters installed as it imports.

An adapter is installed at the moment its framework has finished importing, so a script that needs
no framework pays for none, and whatever happens everything is taken back at the end.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import itertools
import os
import sys
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stethoscope.monitor import Session

ADAPTERS = {
    "torch": "stethoscope.torch",
    "keras": "stethoscope.keras",
    "stethoscope.engine": "stethoscope.engine",
}
"""Framework to the module whose `install(session)` watches it."""

Install = Callable[[], Callable[[], None]]
"""Installs an adapter; returns what takes it back."""

INTERRUPTED = 130  # 128 + SIGINT, as a shell shows it

_PACKAGE = str(Path(__file__).resolve().parent) + os.sep


class LaunchError(Exception):
    """There is nothing that can be run; the message says what was expected."""


class Script:
    """What to run: the `__main__` module to be, and its code.

    Args:
        module: The module, with the attributes that Python gives `__main__`.
        code: Called without arguments, compiles it: a broken script fails as a run does.
        folder: What becomes `sys.path[0]`.
        argv: What becomes `sys.argv`.
    """

    def __init__(
        self,
        module: types.ModuleType,
        code: Callable[[], types.CodeType],
        folder: str,
        argv: list[str],
    ) -> None:
        self.module = module
        self.code = code
        self.folder = folder
        self.argv = argv


def script_at(path: str, arguments: Sequence[str]) -> Script:
    """The script at `path`.

    Raises:
        LaunchError: There is no such file, or it cannot be read.
    """
    if Path(path).is_dir():
        raise LaunchError(f"{path} is a directory: expected a Python script.")
    full = str(Path(path).absolute())
    try:
        with io.open_code(full) as file:
            source = file.read()
    except OSError as error:
        reason = error.strerror or str(error)
        raise LaunchError(f"cannot open {path}: {reason}. Expected a Python script.") from error
    module = types.ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", full)
    vars(module).update(
        __file__=full, __builtins__=builtins, __cached__=None, __loader__=loader, __annotations__={}
    )
    folder = str(Path(path).resolve().parent)
    return Script(
        module,
        lambda: compile(source, full, "exec", dont_inherit=True),
        folder,
        [path, *arguments],
    )


def module_named(name: str, arguments: Sequence[str]) -> Script:
    """The module that `python -m name` would run; a package's is its `__main__`.

    Raises:
        LaunchError: There is no such module, or it has no code.
    """
    _set_path(str(Path.cwd()))
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except Exception as error:
        absent = isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}.")
        if absent or isinstance(error, ValueError):  # ValueError: no spec, as of `__main__`
            raise LaunchError(f"no module {name} can be run: {error}.") from error
        return _failing(error, name, arguments)
    loader: Any = spec.loader if spec else None
    if spec is None or not hasattr(loader, "get_code"):
        raise LaunchError(f"no module {name} can be run: it was not found, or it has no code.")
    found = spec
    main = types.ModuleType("__main__")
    vars(main).update(
        __file__=found.origin,
        __builtins__=builtins,
        __cached__=found.cached,
        __loader__=loader,
        __package__=found.parent,
        __spec__=found,
        __annotations__={},
    )

    def code() -> types.CodeType:
        compiled: types.CodeType | None = loader.get_code(found.name)
        if compiled is None:
            raise ImportError(f"no code object available for {found.name}")
        return compiled

    return Script(main, code, str(Path.cwd()), [found.origin or name, *arguments])


def _failing(error: Exception, name: str, arguments: Sequence[str]) -> Script:
    """A module whose package failed as it was imported: the script's failure, not ours."""

    def code() -> types.CodeType:
        raise error

    return Script(types.ModuleType("__main__"), code, str(Path.cwd()), [name, *arguments])


def run(
    target: Script, session: Session | None, adapters: Mapping[str, Install] | None = None
) -> tuple[int, BaseException | None]:
    """Runs `target` as the main program, watched by `session` (None: not watched).

    The user's own exceptions are printed as Python prints them, without our frames.

    Args:
        target: What to run.
        session: What is told of failures of ours, and by default watches.
        adapters: Framework to what is installed once it is imported; default `ADAPTERS`.

    Returns:
        The exit code that Python would give the script, and what ended it, if not its last line.
    """
    installed = Adapters(session, adapters) if session is not None else None
    ended: BaseException | None = None
    sys.argv[:] = target.argv
    _set_path(target.folder)
    sys.modules["__main__"] = target.module
    try:
        if installed is not None:
            installed.install()
        exec(target.code(), vars(target.module))
    except BaseException as error:
        ended = error
    finally:
        if installed is not None:
            installed.uninstall()
    code = _exit_code(ended)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    return code, ended


class Adapters(importlib.abc.MetaPathFinder):
    """Installs each adapter right after its framework was imported."""

    def __init__(self, session: Session, adapters: Mapping[str, Install] | None = None) -> None:
        self._session = session
        self._pending: dict[str, Install] = (
            {name: functools.partial(_watch, module, session) for name, module in ADAPTERS.items()}
            if adapters is None
            else dict(adapters)
        )
        self._undo: list[tuple[str, Callable[[], None]]] = []
        self._looking = False
        os.register_at_fork(after_in_child=self.uninstall)  # a child process is not watched

    def install(self) -> None:
        """Starts to wait for the imports; a framework that is there already is taken at once."""
        sys.meta_path.insert(0, self)
        for name in list(self._pending):
            if name in sys.modules:
                self._imported(name)

    def uninstall(self) -> None:
        """Takes everything back; also after a failure."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        while self._undo:
            name, undo = self._undo.pop()
            try:
                undo()
            except Exception as error:
                self._note(f"{name} could not be released: {_words(error)}")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The ordinary spec of a framework, whose execution tells us when it is done."""
        if fullname not in self._pending or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        loader: Any = spec.loader if spec else None
        if loader is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            del loader.exec_module  # the loader is as it was before anyone can look at it
            execute(module)
            self._imported(fullname)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            self._session.fail(f"{fullname} is not watched: its loader cannot be followed.")
        return spec

    def _imported(self, name: str) -> None:
        adapter = self._pending.pop(name, None)
        if adapter is None:
            return
        try:
            self._undo.append((name, adapter()))
        except Exception as error:  # whatever it is, the user's training goes on
            self._session.fail(f"{name} is not watched: {_words(error)}")

    def _note(self, text: str) -> None:
        self._session.notes.append(text)
        self._session.tell(text)


def _watch(module: str, session: Session) -> Callable[[], None]:
    undo: Callable[[], None] = importlib.import_module(module).install(session)
    return undo


def without_our_frames(error: BaseException) -> None:
    """Takes this package's frames out of the traceback, also of the exceptions it came from."""
    seen: set[int] = set()
    queue: list[BaseException | None] = [error]
    while queue:
        current = queue.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        kept = []
        frame = current.__traceback__
        while frame is not None:
            if not frame.tb_frame.f_code.co_filename.startswith(_PACKAGE):
                kept.append(frame)
            frame = frame.tb_next
        for before, after in itertools.zip_longest(kept, kept[1:]):
            before.tb_next = after
        current.__traceback__ = kept[0] if kept else None
        queue += [current.__cause__, current.__context__]


def _exit_code(ended: BaseException | None) -> int:
    if ended is None:
        return 0
    if isinstance(ended, SystemExit):
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    without_our_frames(ended)
    try:
        sys.excepthook(type(ended), ended, ended.__traceback__)
    except Exception:  # the user's own hook is broken: say what Python would say
        traceback.print_exception(ended)
    return INTERRUPTED if isinstance(ended, KeyboardInterrupt) else 1


def _set_path(folder: str) -> None:
    """What Python does to `sys.path[0]`: nothing in safe-path mode, else replace it."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
