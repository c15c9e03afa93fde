"""Calls a torch function as if from the user's line, so that its warnings name that line.

`warnings` takes file, line and registry from the frame that called; between the user's line and
the function there is ours. The function is therefore called from a frame that looks like the
user's: same file, line and globals. Where torch itself made the call (a loss module), it looks
like that line of torch, as in a run that is not watched.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from torch import overrides

_UNITS_OF_AN_ENTRY = 8  # code units that one entry of a line table can cover
_NO_COLUMNS = 13  # kind of entry (see CPython's Objects/locations.md): a line, no columns


def _call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func(*args, **kwargs)


def call(
    frame: types.FrameType | None,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The result of `func(*args, **kwargs)`.

    Args:
        frame: Of the `__torch_function__` that torch has called.
        func: The torch function or method.
        args: Its arguments.
        kwargs: Likewise.
    """
    frame = frame.f_back if frame is not None else None
    if frame is not None and frame.f_code is overrides.handle_torch_function.__code__:
        # A torch function that is written in Python: it asked for us, and was called itself.
        outer = frame.f_back
        frame = outer.f_back if outer is not None else None
    if frame is None:
        return func(*args, **kwargs)
    code = _looking_like(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    disguised = types.FunctionType(code, frame.f_globals)
    del frame
    try:
        return disguised(func, args, kwargs)
    except BaseException as error:
        # Our own frame and the one that looks like the user's line: it is there already.
        ours = error.__traceback__
        inner = ours.tb_next if ours is not None else None
        raise error.with_traceback(inner.tb_next if inner is not None else None)  # noqa: B904


@functools.lru_cache(maxsize=1024)
def _looking_like(file: str, line: int, name: str) -> types.CodeType:
    code = _call.__code__
    units = len(code.co_code) // 2
    table = bytearray()
    while units > 0:
        covered = min(units, _UNITS_OF_AN_ENTRY)
        table += bytes((0x80 | _NO_COLUMNS << 3 | covered - 1, 0))  # same line as before
        units -= covered
    return code.replace(
        co_filename=file,
        co_name=name,
        co_qualname=name,
        co_firstlineno=line,
        co_linetable=bytes(table),
    )


def is_scaler(frame: types.FrameType | None) -> bool:
    """Whether a `GradScaler` made the call; `frame` as in `call`."""
    caller = frame.f_back if frame is not None else None
    return caller is not None and caller.f_globals.get("__name__") == "torch.amp.grad_scaler"
