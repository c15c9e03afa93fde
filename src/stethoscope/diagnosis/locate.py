"""From a call that is running to the user's source line."""

from __future__ import annotations

import functools
import linecache
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

from stethoscope.types import SourceRef

MAX_OUTER_FRAMES = 4

_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep


@functools.cache
def _library_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
    folders = {os.path.realpath(sysconfig.get_paths()[name]) + os.sep for name in names}
    return (*sorted(folders), _PACKAGE)


@functools.lru_cache(maxsize=4096)
def is_user_file(filename: str) -> bool:
    """Whether code in `filename` was written by the user: no library, no generated code.

    A notebook cell (a file that exists only in `linecache`) is the user's.
    """
    if filename.startswith("<"):
        return filename.startswith("<ipython-input")
    path = os.path.realpath(filename)
    if "site-packages" in path or "dist-packages" in path:
        return False
    return not path.startswith(_library_folders())


def shown_path(filename: str) -> str:
    """The path to show: relative to the script's folder where it lies below, else the bare name."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    folder = os.path.dirname(os.path.abspath(main)) if main else os.getcwd()
    path = os.path.abspath(filename)
    if path.startswith(folder.rstrip(os.sep) + os.sep):
        return os.path.relpath(path, folder)
    return os.path.basename(filename)


def here(frame: FrameType | None = None) -> SourceRef | None:
    """The innermost user frame at or above `frame` (default: the caller), and its outer ones.

    The line is where the running call expression starts. Returns None when no frame on the
    stack belongs to the user.
    """
    frames = _user_frames(frame or sys._getframe(1))
    inner = next(frames, None)
    if inner is None:
        return None
    line, end_line = _lines(inner)
    filename = inner.f_code.co_filename
    via = []
    for outer in frames:
        via.append((shown_path(outer.f_code.co_filename), _lines(outer)[0]))
        if len(via) == MAX_OUTER_FRAMES:
            break
    return SourceRef(
        file=shown_path(filename),
        line=line,
        exact=True,
        via=tuple(via),
        end_line=end_line,
        text=linecache.getline(filename, line).strip(),
    )


def _user_frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def _lines(frame: FrameType) -> tuple[int, int]:
    line, end = _positions(frame.f_code).get(frame.f_lasti, (None, None))
    if line is None:
        line = frame.f_lineno
    return line, end or line


@functools.lru_cache(maxsize=512)
def _positions(code: CodeType) -> dict[int, tuple[int | None, int | None]]:
    return {2 * i: (line, end) for i, (line, end, _, _) in enumerate(code.co_positions())}
