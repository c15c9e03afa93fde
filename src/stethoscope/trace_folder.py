"""The folder of traces: names for new ones, room for them, and which is the newest.

A file is `<script>-<number>.sqlite`; under `torchrun` each rank of a run has one, with `.rank<n>`
before the ending.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import sqlite3
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

KEEP_RUNS = 20
ABANDONED_SECONDS = 7 * 86400.0  # without a sign from a process that cannot be asked

_NAMED = re.compile(r"(.+)-(\d+)(\.rank\d+)?\.sqlite")


def fallback_folder() -> Path:
    """Where traces go when the folder asked for cannot be written; one for each user."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f"stethoscope-{user}"


def writer_mark() -> dict[str, int]:
    """What the header says of the process that writes; the machine's name is not told."""
    return {"pid": os.getpid(), "machine": zlib.crc32(platform.node().encode())}


def new_path(folder: Path, stem: str, rank: int | None) -> Path:
    """A new file in `folder`; the oldest runs there make room, unless they still go on.

    Args:
        folder: It exists.
        stem: Name of the script.
        rank: None where a run is one process.

    Raises:
        OSError: The folder cannot be written.
    """
    suffix = "" if rank is None else f".rank{rank}"
    found = [(path, m) for path in folder.iterdir() if (m := _NAMED.fullmatch(path.name))]
    alike = [match for _, match in found if match[1] == stem and (match[3] or "") == suffix]
    number = max((int(match[2]) for match in alike), default=0) + 1  # each rank counts its own
    runs: dict[tuple[str, str], list[Path]] = {}
    for path, match in found:
        if (match[1], match[2]) != (stem, str(number)):  # other ranks of this run may be there
            runs.setdefault((match[1], match[2]), []).append(path)
    _make_room([files for files in runs.values() if any(is_trace(path) for path in files)])
    while True:
        path = folder / f"{stem}-{number}{suffix}.sqlite"
        try:
            path.touch(exist_ok=False)
            return path
        except FileExistsError:
            number += 1


def newest(folder: Path) -> Path | None:
    """The trace that changed last; None without one."""
    return max((p for p in folder.glob("*.sqlite") if is_trace(p)), key=changed, default=None)


def changed(path: Path) -> float:
    """When a trace was last written; 0 where another process has just removed it."""
    times = [0.0]
    with contextlib.suppress(FileNotFoundError):
        times.append(path.stat().st_mtime)
        log = Path(f"{path}-wal").stat()  # while a run goes on only this one changes
        times += [log.st_mtime] if log.st_size else []  # reading makes an empty one
    return max(times)


def is_trace(path: Path) -> bool:
    """Whether a file was written by a `TraceWriter`, of any format."""
    return "format" in _header(path)


def goes_on(path: Path) -> bool:
    """Whether a trace is still written, as far as can be known."""
    header = _header(path)
    if "pid" not in header or "ended" in header:
        return False
    here = writer_mark()
    if header.get("machine") != here["machine"]:
        return time.time() - changed(path) < ABANDONED_SECONDS
    return _is_alive(int(header["pid"]))


def _make_room(runs: list[list[Path]]) -> None:
    """Removes the oldest of `runs` until there is room for one more."""
    surplus = len(runs) - KEEP_RUNS + 1
    for files in sorted(runs, key=lambda files: max(map(changed, files))):
        if surplus <= 0:
            break
        if any(goes_on(path) for path in files):
            continue
        surplus -= 1
        for file in files:
            for path in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
                path.unlink(missing_ok=True)


def _header(path: Path) -> dict[str, Any]:
    """The header of a trace; empty for any other file."""
    try:
        if path.stat().st_size == 0:
            return {}
        address = f"{path.resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as db:
            return {key: json.loads(value) for key, value in db.execute("SELECT * FROM meta")}
    except (OSError, sqlite3.Error, ValueError):
        return {}


def _is_alive(pid: int) -> bool:
    if os.name != "posix":  # there a signal of 0 ends the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True
