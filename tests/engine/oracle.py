"""Two traces of the same training, number by number: an adapter's and the engine's."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from stethoscope import engine
from stethoscope.agreement import CORRELATION
from stethoscope.config import Config
from stethoscope.monitor import Session
from stethoscope.row import RowKind
from stethoscope.stats import POSITION, TENSOR_STATS
from stethoscope.trace import Trace, read
from stethoscope.types import Slot, Stage, Stat

STEPS = 20
RELATIVE = 1e-4
# Of the largest element of the tensor itself: a mean or an extreme near 0 is what is left of larger
# numbers. float32 rounds each to 6e-8 of it, and a step's matrix products add some dozens of them.
FLOOR = 5e-6
# Shares and counts are of integers: a difference is an element that lies on the other side.
EXACT = (
    Stat.ZERO_SHARE,
    Stat.DEAD_SHARE,
    Stat.SATURATED_SHARE,
    Stat.NAN_COUNT,
    Stat.INF_COUNT,
    Stat.COUNT,
)
SHARED = "of a layer that is applied twice, an adapter shows the first call, the engine each"


@dataclasses.dataclass(frozen=True)
class Declared:
    """Columns that only one side has, by definition.

    Attributes:
        reason: Why.
        only: Who has them: "adapter" or "engine".
        stage, layer, param: Which columns; "" stands for any layer or parameter.
    """

    reason: str
    only: str
    stage: Stage
    layer: str = ""
    param: str = ""

    def covers(self, slot: Slot, only: str) -> bool:
        """Whether it speaks of this column."""
        return (
            slot.stage is self.stage
            and only == self.only
            and self.layer in ("", slot.layer)
            and self.param in ("", slot.param)
        )


@contextlib.contextmanager
def session(folder: Path) -> Iterator[Session]:
    """A session that records every step into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Session(Config(trace_dir=str(folder), probe_every=1), stderr=io.StringIO())
    yield made
    made.close()
    assert made.notes == []


def recorded(folder: Path) -> Trace:
    """The only trace in a folder."""
    (path,) = folder.glob("*.sqlite")
    return read(path)


def trained(
    model: engine.Model | engine.Sequential, batches: Sequence[tuple], folder: Path
) -> Trace:
    """Trains an engine model, watched; one step for each (inputs, targets[, weights])."""
    with session(folder) as watched:
        remove = engine.install(watched)
        for x, y, *weight in batches:
            model.train_on_batch(x, y, sample_weight=weight[0] if weight else None)
        remove()
    return recorded(folder)


def differences(
    adapter: Trace,
    reference: Trace,
    names: Mapping[tuple[str, str], tuple[str, str]] = MappingProxyType({}),
    declared: Sequence[Declared] = (),
) -> list[str]:
    """Every column in which the two sides differ, in words; empty where they agree.

    Args:
        adapter: What an adapter recorded.
        reference: What the engine recorded.
        names: (layer, param) of the adapter to those of the engine, where they differ.
        declared: Columns that only one side is to have.
    """
    seen = {_renamed(slot, names): values for slot, values in _columns(adapter).items()}
    wanted = _columns(reference)
    output = reference.program.losses[0].output or ""
    found = []
    used = set()
    for only, slots in (("adapter", seen.keys() - wanted), ("engine", wanted.keys() - seen)):
        for slot in sorted(slots, key=_text):
            reasons = [one for one in declared if one.covers(slot, only)]
            used.update(reasons)
            if not reasons:
                found.append(f"{_text(slot)}: only the {only} has it")
    for slot in sorted(seen.keys() & wanted, key=_text):
        found += _compare(slot, seen[slot], wanted[slot], _floor(slot, wanted, output))
    # What is declared and does not differ is no longer true.
    found += [f"declared in vain: {one}" for one in declared if one not in used]
    return found


def _largest(statistics: np.ndarray) -> np.ndarray:
    """Magnitude of the largest element, step by step."""
    return np.maximum(
        abs(statistics[:, POSITION[Stat.MIN]]), abs(statistics[:, POSITION[Stat.MAX]])
    )


def _floor(slot: Slot, wanted: Mapping[Slot, np.ndarray], output: str) -> np.ndarray | float:
    """What rounding may change in a column, step by step."""
    if slot.param == CORRELATION:  # of what is left of the predictions without their mean
        prediction = wanted[Slot(output, "", Stage.OUTPUT)]
        spread = np.maximum(prediction[:, POSITION[Stat.STD]], np.finfo(np.float32).tiny)
        return FLOOR * _largest(prediction) / spread
    if slot.stage is Stage.METRIC:  # some, as R2, are 1 less a ratio
        return FLOOR
    if slot.stage.is_scalar:
        return 0.0
    floor = FLOOR * _largest(wanted[slot])
    if slot.stage is Stage.UPDATE:  # the difference of two weights, each of which was rounded
        weight = dataclasses.replace(slot, stage=Stage.WEIGHT)
        floor = floor + np.finfo(np.float32).eps * _largest(wanted[weight])
    return floor


def _compare(
    slot: Slot, seen: np.ndarray, wanted: np.ndarray, floor: np.ndarray | float
) -> Iterator[str]:
    if len(seen) != len(wanted):
        yield f"{_text(slot)}: {len(seen)} steps against {len(wanted)}"
        return
    stats = (Stat.VALUE,) if slot.stage.is_scalar else TENSOR_STATS
    for i, stat in enumerate(stats):
        a, b = seen[:, i], wanted[:, i]
        off = abs(a - b) > (0 if stat in EXACT else RELATIVE * abs(b) + floor)
        off |= np.isnan(a) != np.isnan(b)
        if off.any():
            step = int(np.flatnonzero(off)[0])
            yield (
                f"{_text(slot)} {stat}: {a[step]:.7g} of the adapter, {b[step]:.7g} of the engine"
                f" at step {step}, {off.sum()} steps differ"
            )


def _columns(trace: Trace) -> dict[Slot, np.ndarray]:
    """[steps, statistics] of every slot that holds a number."""
    rows = [row for row in trace.rows() if row.kind is RowKind.STEP]
    assert [row.step for row in rows] == list(range(len(rows)))
    assert all(row.probed for row in rows)
    tensors = np.full((len(rows), trace.slots.tensors(), len(TENSOR_STATS)), np.nan)
    scalars = np.full((len(rows), trace.slots.scalars(), 1), np.nan)
    for i, row in enumerate(rows):
        tensors[i, : len(row.stats)] = row.stats
        scalars[i, : len(row.scalars), 0] = row.scalars
    found = {}
    for stage in Stage:
        for slot, number in trace.slots.of(stage):
            values = (scalars if stage.is_scalar else tensors)[:, number]
            if not np.isnan(values).all():
                found[slot] = values
    return found


def _renamed(slot: Slot, names: Mapping[tuple[str, str], tuple[str, str]]) -> Slot:
    layer, param = names.get((slot.layer, slot.param), (slot.layer, slot.param))
    return dataclasses.replace(slot, layer=layer, param=param)


def _text(slot: Slot) -> str:
    return f"{slot.stage} of {'/'.join(filter(None, (slot.layer, slot.param))) or 'the program'}"
