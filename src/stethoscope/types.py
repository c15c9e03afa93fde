"""Every shared word of Stethoscope, as frozen dataclasses and closed enumerations.

Nothing here knows a framework, a rule or a fault.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any


class Stage(enum.StrEnum):
    """Which tensor of a training step, in the order in which a step computes them."""

    INPUT = "input"
    TARGET = "target"
    PRE_ACTIVATION = "pre_activation"
    OUTPUT = "output"
    LOSS = "loss"
    METRIC = "metric"
    OUTPUT_GRAD = "output_grad"
    WEIGHT_GRAD = "weight_grad"
    UPDATE = "update"
    WEIGHT = "weight"
    HYPER = "hyper"

    @property
    def code(self) -> str | None:
        """DeepLocalize's code of this stage (ICSE'21, Table II); None where the paper has none."""
        return _PAPER_CODES.get(self)

    @property
    def position(self) -> int:
        """Place in the order of a step: 0 is the most upstream stage."""
        return list(Stage).index(self)

    @property
    def is_scalar(self) -> bool:
        """True where the stage is one number of a step and not a tensor."""
        return self in _SCALARS


_SCALARS = frozenset({Stage.LOSS, Stage.METRIC, Stage.HYPER})

_PAPER_CODES = {
    Stage.PRE_ACTIVATION: "EBA",
    Stage.OUTPUT: "EAA",
    Stage.LOSS: "ELF",
    Stage.METRIC: "EAF",
    Stage.OUTPUT_GRAD: "EBDW",
    Stage.WEIGHT_GRAD: "EBDW",
    Stage.UPDATE: "EBDW",
    Stage.WEIGHT: "EBW",
}


class Phase(enum.StrEnum):
    """Training or validation: the two are never mixed in one column."""

    TRAIN = "train"
    VALIDATION = "validation"


class Stat(enum.StrEnum):
    """What is recorded of one tensor; `stats.py` holds the one definition of each."""

    MEAN = "mean"
    STD = "std"
    MIN = "min"
    MAX = "max"
    NORM = "norm"
    ZERO_SHARE = "zero_share"
    DEAD_SHARE = "dead_share"
    SATURATED_SHARE = "saturated_share"
    SAMPLE_STD = "sample_std"
    NAN_COUNT = "nan_count"
    INF_COUNT = "inf_count"
    COUNT = "count"
    VALUE = "value"


class Severity(enum.StrEnum):
    """How bad a diagnosis is. NOTE is hidden by default."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for the most severe."""
        return list(Severity).index(self)


class SymptomClass(enum.StrEnum):
    """What kind of claim a rule makes.

    A contradiction is something the program cannot mean; a suspicion may be fine; an event is
    something that went wrong at one step.
    """

    CONTRADICTION = "contradiction"
    SUSPICION = "suspicion"
    EVENT = "event"


class Verdict(enum.StrEnum):
    """The answer to "is this training faulty?"."""

    FAULTY = "faulty"
    HEALTHY = "healthy"
    UNDETERMINED = "undetermined"


class PlaceKind(enum.StrEnum):
    """What a place is part of."""

    LAYER = "layer"
    HYPERPARAMETER = "hyperparameter"
    DATA = "data"
    LOSS = "loss"
    LOOP = "loop"


class Op(enum.StrEnum):
    """What a change does to the value at its path."""

    SET = "set"
    INSERT = "insert"
    REMOVE = "remove"
    SCALE = "scale"
    WRAP = "wrap"


@dataclasses.dataclass(frozen=True)
class SourceRef:
    """A call in the user's program.

    Attributes:
        file: Path as the user gave it, relative to the script's folder where it lies below it.
        line: First line of the call expression, from 1; any line of the expression is right.
        exact: True when seen while the call ran; False when found by reading the source.
        via: Outer user frames as (file, line), innermost first.
        end_line: Last line of the call expression, where it is known.
        text: The source line, stripped; "" when the file cannot be read.
    """

    file: str
    line: int
    exact: bool = True
    via: tuple[tuple[str, int], ...] = ()
    end_line: int | None = None
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclasses.dataclass(frozen=True)
class Slot:
    """One recorded tensor: the key of a group of statistics. "" means the whole program."""

    layer: str
    param: str
    stage: Stage
    phase: Phase = Phase.TRAIN


@dataclasses.dataclass(frozen=True)
class Column:
    """The key of one recorded series: a slot and one statistic of it."""

    layer: str
    param: str
    stage: Stage
    stat: Stat
    phase: Phase = Phase.TRAIN


@dataclasses.dataclass(frozen=True)
class Place:
    """Where something is: a layer's tensor at a step, or a path into the program.

    Attributes:
        kind: What the place is part of.
        layer: The layer's path as the user knows it.
        param: The parameter's name within the layer.
        stage: Which tensor of the step.
        path: The path of a `Change`, such as `optimizer.learning_rate` or `data.input[0]`.
        step, epoch, batch: When, from 0.
        rows: Indices of the offending samples within the batch.
        source: The call that wrote it.
    """

    kind: PlaceKind
    layer: str | None = None
    param: str | None = None
    stage: Stage | None = None
    path: str | None = None
    step: int | None = None
    epoch: int | None = None
    batch: int | None = None
    rows: tuple[int, ...] = ()
    source: SourceRef | None = None

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Identity without the moment: two symptoms at one key speak of the same thing."""
        return (
            str(self.kind),
            self.layer or "",
            self.param or "",
            str(self.stage or ""),
            self.path or "",
        )


@dataclasses.dataclass(frozen=True)
class Evidence:
    """One number that a rule saw, with the bound it broke.

    Attributes:
        what: What was measured, in the user's words ("gradient norm of dense_2/kernel").
        value: The figure.
        bound: The figure it was held against.
        relation: How value stands to bound: one of < > = != (as in "value < bound").
    """

    what: str
    value: float | str
    bound: float | str
    relation: str


@dataclasses.dataclass(frozen=True)
class Symptom:
    """What one rule saw at one place. Never carries a severity: that follows from harm.

    Attributes:
        rule: The rule's code, such as "G001".
        name: The rule's name, such as "vanishing-gradient".
        kind: The class of claim.
        place: Where and when it was first seen.
        evidence: The numbers; never empty.
        message: One sentence for a person.
    """

    rule: str
    name: str
    kind: SymptomClass
    place: Place
    evidence: tuple[Evidence, ...]
    message: str


@dataclasses.dataclass(frozen=True)
class Change:
    """A machine-readable edit of the Program.

    Attributes:
        op: What to do.
        path: `layers[NAME].field`, `loss.field`, `optimizer.field`, `data.input[i]`,
            `data.target[i]`, `fit.field` or `loop.CALL`.
        value: The new value (set, insert, wrap), the factor (scale), None (remove).
        source: The line to edit.
    """

    op: Op
    path: str
    value: Any = None
    source: SourceRef | None = None


@dataclasses.dataclass(frozen=True)
class Fix:
    """A change with words. `changes` beyond the first belong to the same repair."""

    title: str
    change: Change
    also: tuple[Change, ...] = ()


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """A root cause, where it is, and what to do about it.

    Attributes:
        fault: The fault's name (the table in `docs/glossary.md`).
        severity: Follows harm.
        confidence: 0 to 1; of the diagnoses at .9, nine in ten are right.
        place: Where.
        fixes: Best first.
        symptoms: The symptoms it explains.
        why: The path of questions and answers that led here.
        message: One or two sentences: what is wrong and why that stops learning.
        first_seen: Step of the earliest symptom, from 0.
        confirmed: Step at which the severity rose to what it is; None for a NOTE.
    """

    fault: str
    severity: Severity
    confidence: float
    place: Place
    fixes: tuple[Fix, ...]
    symptoms: tuple[Symptom, ...]
    why: tuple[tuple[str, str], ...]
    message: str
    first_seen: int
    confirmed: int | None = None


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything said about one run.

    Attributes:
        meta: script, framework, versions, trace path, steps seen and the like.
        verdict: The answer.
        reason: Why the verdict is what it is, in one sentence.
        diagnoses: Best first; NOTEs last.
        symptoms: All of them, explained or not.
        ran: Codes of the rules that ran.
        skipped: Code to reason, for the rules that could not.
        overhead: What watching cost, as ratios and seconds.
    """

    meta: Mapping[str, Any]
    verdict: Verdict
    reason: str
    diagnoses: tuple[Diagnosis, ...]
    symptoms: tuple[Symptom, ...]
    ran: tuple[str, ...]
    skipped: Mapping[str, str]
    overhead: Mapping[str, float]

    def __str__(self) -> str:
        """Verdict, reason and the first diagnosis: what `print` shows; `repr` has everything."""
        text = f"{self.verdict.value.upper()}: {self.reason}"
        if not self.diagnoses:
            return text
        first = self.diagnoses[0]
        source = first.place.source
        where = f" at {source.file}:{source.line}" if source else ""
        told = [f"{first.fault} ({first.severity.value}){where}:"]
        told += [] if first.message == self.reason else [first.message]
        told += [f"Change: {first.fixes[0].title}."] if first.fixes else []
        return f"{text}\n{' '.join(told)}"
