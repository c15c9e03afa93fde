"""The stream that reports are printed to: its colours, its width, and that it may be broken."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TextIO

PLAIN_WIDTH = 100  # where there is no terminal to ask


def use_color(stream: TextIO | None) -> bool:
    """Whether to colour: NO_COLOR, then FORCE_COLOR, then whether `stream` is a terminal."""
    if stream is None or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def width(stream: TextIO | None) -> int:
    """Columns to write."""
    return shutil.get_terminal_size().columns if is_terminal(stream) else PLAIN_WIDTH


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person reads it."""
    try:
        return stream is not None and stream.isatty()
    except (ValueError, AttributeError):  # closed, or an object of the script's own
        return False


def put(text: str, stream: TextIO) -> None:
    """Prints; a closed pipe or a full disk under the stream is no reason to fail."""
    with contextlib.suppress(OSError, ValueError):
        print(text, end="" if text.endswith("\n") else "\n", file=stream, flush=True)
