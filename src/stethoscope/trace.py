"""The trace: what was seen of one run, kept on disk.

A trace is one SQLite file in WAL mode:

    meta(key, value)                    script, framework, versions, schedule: JSON values
    programs(first_order, program)      a Program revision and the first row it is in force for
    slots(scalar, id, layer, param, stage, phase)
                                        tensors (scalar 0) and scalars, each numbered from 0
    steps(row_order, step, epoch, batch, kind, scalars)
                                        every optimizer step: LOSS, METRIC and HYPER, float64
    probes(row_order, stats)            probed steps: float64 [slots, TENSOR_STATS]
    events(row_order, step, kind, payload)
    symptoms(row_order, symptom)

Rows are keyed by the global order of optimizer steps; `step` counts per optimizer. NaN in a blob
means *not recorded*: non-finite tensors show in `nan_count` and `inf_count`. A blob may be shorter
than the slots known later; what is missing is not recorded.

Committed steps survive a kill. A step is committed when it is over, unless committing as often
would take more than a fiftieth of the time (steps below a millisecond on a local disk): then the
next one that is due commits both, after a second at most. At every event all are committed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import statistics
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stethoscope.codec import decode, encode
from stethoscope.program import Program
from stethoscope.row import Event, Row, RowKind, Slots
from stethoscope.stats import TENSOR_STATS, FloatArray
from stethoscope.types import Column, Phase, Slot, Stage, Symptom

FORMAT = 1
COMMIT_SECONDS = 1.0  # of training between two commits, however dear they are
COMMIT_SHARE = 0.02  # of the time may go into commits: a local disk takes about 10 microseconds
LAST_COMMITS = 9  # an odd number: the median of what they took
MOST_ROWS = 64  # that wait for the next commit
FIRST_ROWS = 3  # committed at once: a run that is killed early leaves what it was

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE programs (first_order INTEGER NOT NULL, program TEXT NOT NULL);
CREATE TABLE slots (scalar INTEGER NOT NULL, id INTEGER NOT NULL, layer TEXT NOT NULL,
    param TEXT NOT NULL, stage TEXT NOT NULL, phase TEXT NOT NULL, PRIMARY KEY (scalar, id));
CREATE TABLE steps (row_order INTEGER PRIMARY KEY, step INTEGER NOT NULL, epoch INTEGER NOT NULL,
    batch INTEGER NOT NULL, kind TEXT NOT NULL, scalars BLOB NOT NULL);
CREATE TABLE probes (row_order INTEGER PRIMARY KEY, stats BLOB NOT NULL);
CREATE TABLE events (row_order INTEGER NOT NULL, step INTEGER NOT NULL, kind TEXT NOT NULL,
    payload TEXT NOT NULL);
CREATE TABLE symptoms (row_order INTEGER NOT NULL, symptom TEXT NOT NULL);
"""


class TraceError(Exception):
    """A file that should be a trace cannot be read as one; the message says why."""


class TraceWriter:
    """Appends to one trace file. Belongs to the process that made it; a no-op in a fork.

    A full or vanished disk never reaches the caller: writing stops, and `problem` says why.

    Args:
        path: File to create; an existing one is replaced.
        meta: Written at once.

    Raises:
        OSError: The file cannot be created.
    """

    def __init__(self, path: Path, meta: Mapping[str, Any]) -> None:
        self.path = path
        self.problem: str | None = None
        self._pid = os.getpid()
        self._written = [0, 0]
        self._last_commit = time.perf_counter()
        self._commits: deque[float] = deque(maxlen=LAST_COMMITS)
        self._steps: list[tuple[Any, ...]] = []
        self._probes: list[tuple[int, bytes]] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            for stale in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
                stale.unlink(missing_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")  # answers "delete" on network file systems
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
            self._db.execute("BEGIN")
            self.meta({"format": FORMAT, **meta})
            self.commit()
        except sqlite3.Error as error:
            raise OSError(f"cannot create the trace {path}: {error}") from error

    def meta(self, values: Mapping[str, Any]) -> None:
        """Adds or replaces entries of the header."""
        rows = [(k, json.dumps(encode(v), allow_nan=False)) for k, v in values.items()]
        self._many("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)

    def program(self, first_order: int, program: Program) -> None:
        """Stores a revision that is in force from row `first_order` on."""
        self._many("INSERT INTO programs VALUES (?, ?)", [(first_order, program.to_json())])

    def row(self, row: Row) -> None:
        """Appends one row with its events; commits when it is time."""
        self._slots(row.slots)
        scalars = row.scalars.astype("<f8", copy=False).tobytes()
        step = (row.order, row.step, row.epoch, row.batch, row.kind.value, scalars)
        self._steps.append(step)
        if row.stats is not None:
            self._probes.append((row.order, row.stats.astype("<f8", copy=False).tobytes()))
        for event in row.events:
            self.event(row.order, row.step, event)
        if len(self._steps) >= MOST_ROWS:
            self._put()
        waited = time.perf_counter() - self._last_commit
        if row.events or row.order < FIRST_ROWS or waited > self._patience():
            self.commit()

    def event(self, order: int, step: int, event: Event) -> None:
        """Appends something that happened at a row."""
        payload = json.dumps(encode(event.payload), allow_nan=False)
        self._many("INSERT INTO events VALUES (?, ?, ?, ?)", [(order, step, event.kind, payload)])

    def symptom(self, order: int, symptom: Symptom) -> None:
        """Appends what a rule saw, and commits: evidence is never lost."""
        text = json.dumps(encode(symptom), allow_nan=False)
        self._many("INSERT INTO symptoms VALUES (?, ?)", [(order, text)])
        self.commit()

    def commit(self) -> None:
        """Makes everything so far survive a kill."""
        self._put()
        begun = time.perf_counter()
        self._run(lambda: (self._db.execute("COMMIT"), self._db.execute("BEGIN")))
        self._last_commit = time.perf_counter()
        self._commits.append(self._last_commit - begun)

    def close(self) -> None:
        """Commits and closes the file."""
        if os.getpid() != self._pid:
            return
        self.meta({"ended": time.time()})
        self._put()
        self._run(lambda: self._db.execute("COMMIT"))
        with contextlib.suppress(sqlite3.Error):  # a reader may be in the way
            self._db.execute("PRAGMA journal_mode=DELETE")  # so that reading leaves no files
        try:
            self._db.close()
        except sqlite3.Error as error:
            self.problem = self.problem or str(error)
        self._pid = -1

    def _put(self) -> None:
        """Hands the rows that wait to the database: together they cost less."""
        steps, self._steps = self._steps, []
        probes, self._probes = self._probes, []
        self._many("INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?)", steps)
        self._many("INSERT INTO probes VALUES (?, ?)", probes)

    def _patience(self) -> float:
        """Seconds between two commits."""
        if not self._commits:
            return COMMIT_SECONDS
        return min(COMMIT_SECONDS, statistics.median(self._commits) / COMMIT_SHARE)

    def _slots(self, slots: Slots) -> None:
        sizes = (slots.tensors(), slots.scalars())
        if list(sizes) == self._written:
            return
        rows = []
        for stage in Stage:
            kind = int(stage.is_scalar)
            for phase in Phase:
                for slot, number in slots.of(stage, phase):
                    if number >= self._written[kind]:
                        key = (slot.layer, slot.param, slot.stage.value, slot.phase.value)
                        rows.append((kind, number, *key))
        self._many("INSERT INTO slots VALUES (?, ?, ?, ?, ?, ?)", rows)
        self._written = list(sizes)

    def _many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            self._run(lambda: self._db.executemany(statement, rows))

    def _run(self, action: Any) -> None:
        if self.problem is not None or os.getpid() != self._pid:
            return
        try:
            action()
        except sqlite3.Error as error:
            self.problem = f"the trace {self.path} is incomplete: {error}"


class Trace:
    """A trace that was read from disk.

    Attributes:
        path: Where it lies.
        meta: The header.
        slots: All slots recorded.
        symptoms: As stored by the live run.
    """

    def __init__(
        self,
        path: Path,
        meta: Mapping[str, Any],
        slots: Slots,
        rows: list[Row],
        symptoms: tuple[Symptom, ...],
    ) -> None:
        self.path = path
        self.meta = meta
        self.slots = slots
        self.symptoms = symptoms
        self._rows = rows

    @property
    def program(self) -> Program:
        """The last revision."""
        return self._rows[-1].program if self._rows else Program(framework="unknown")

    @property
    def events(self) -> list[tuple[int, Event]]:
        """All events as (step, event)."""
        return [(row.step, event) for row in self._rows for event in row.events]

    def rows(self) -> Iterator[Row]:
        """The rows in order: what the rules fold over."""
        return iter(self._rows)

    def __getitem__(self, column: Column) -> FloatArray:
        """One series over all step rows; NaN where it was not recorded."""
        slot = Slot(column.layer, column.param, column.stage, column.phase)
        kind = RowKind.STEP if column.phase is Phase.TRAIN else RowKind.EPOCH
        return np.array([row.get(slot, column.stat) for row in self._rows if row.kind is kind])


def read(path: str | Path) -> Trace:
    """Reads a trace, also one whose writer was killed.

    Raises:
        TraceError: There is no such file, or it is not a trace of this format.
    """
    path = Path(path)
    if not path.is_file():
        raise TraceError(f"{path} is not a file: expected a trace written by `stethoscope run`.")
    try:
        with contextlib.closing(sqlite3.connect(path)) as db:
            return _read(path, db)
    except (sqlite3.Error, ValueError, KeyError, TypeError, IndexError) as error:
        raise TraceError(f"{path} is not a Stethoscope trace: {error}") from error


def _read(path: Path, db: sqlite3.Connection) -> Trace:
    meta = {key: json.loads(value) for key, value in db.execute("SELECT key, value FROM meta")}
    if meta.get("format") != FORMAT:
        raise TraceError(
            f"{path} has trace format {meta.get('format')}, this version reads {FORMAT}: "
            "read it with the version of Stethoscope that wrote it."
        )
    slots = Slots()
    query = "SELECT layer, param, stage, phase FROM slots ORDER BY scalar, id"
    for layer, param, stage, phase in db.execute(query):
        slots.add(Slot(layer, param, Stage(stage), Phase(phase)))
    programs = [
        (order, Program.from_json(text))
        for order, text in db.execute("SELECT first_order, program FROM programs ORDER BY rowid")
    ]
    probes = dict(db.execute("SELECT row_order, stats FROM probes"))
    events: dict[int, list[Event]] = {}
    for order, kind, payload in db.execute("SELECT row_order, kind, payload FROM events"):
        events.setdefault(order, []).append(Event(kind, json.loads(payload)))
    rows: list[Row] = []
    program, following = Program(framework="unknown"), 0
    query = "SELECT row_order, step, epoch, batch, kind, scalars FROM steps ORDER BY row_order"
    for order, step, epoch, batch, kind, scalars in db.execute(query):
        while following < len(programs) and programs[following][0] <= order:
            program, following = programs[following][1], following + 1
        blob = probes.get(order)
        stats = blob and np.frombuffer(blob, dtype="<f8").reshape(-1, len(TENSOR_STATS))
        happened, values = tuple(events.get(order, ())), np.frombuffer(scalars, dtype="<f8")
        rows.append(
            Row(order, step, epoch, batch, RowKind(kind), program, slots, values, stats, happened)
        )
    symptoms = tuple(
        decode(Symptom, json.loads(text))
        for (text,) in db.execute("SELECT symptom FROM symptoms ORDER BY rowid")
    )
    return Trace(path, meta, slots, rows, symptoms)
