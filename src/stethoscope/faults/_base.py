"""What a fault is: a root cause, the symptoms it explains, and changes with measured values."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from stethoscope.example import Example
from stethoscope.faults._measure import Measurements
from stethoscope.program import LayerSpec, Program
from stethoscope.types import Change, Fix, Op, Place, SourceRef, Symptom, SymptomClass

CERTAIN = 0.97  # contradictions: the program cannot mean this
LIKELY = 0.8  # all preconditions hold
POSSIBLE = 0.5  # some preconditions are unknown


@dataclasses.dataclass(frozen=True)
class Findings:
    """What a fault is judged on.

    Attributes:
        program: The revision in force.
        symptoms: All symptoms so far, in the order they were seen.
        measured: Figures of the run.
    """

    program: Program
    symptoms: tuple[Symptom, ...]
    measured: Measurements

    def of(self, *names: str) -> list[Symptom]:
        """The symptoms of these rules."""
        return [symptom for symptom in self.symptoms if symptom.name in names]


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A fault that may explain what was seen, before it is ranked.

    Attributes:
        fault: Its name.
        place: Where.
        message: What is wrong and why that stops learning.
        confidence: 0 to 1, before ranking.
        kind: Class of the claim.
        symptoms: Those that show it.
        effects: Names of rules whose symptoms it would also explain.
        fixes: Best first.
        why: Questions and answers.
        fatal: The arithmetic forbids learning: an ERROR without waiting for harm.
        counter: The run gave a figure against it (off by a factor): a WARNING while it is unknown
            whether the run learns.
    """

    fault: str
    place: Place
    message: str
    confidence: float
    kind: SymptomClass
    symptoms: tuple[Symptom, ...]
    effects: frozenset[str]
    fixes: tuple[Fix, ...]
    why: tuple[tuple[str, str], ...]
    fatal: bool = False
    counter: bool = False

    @property
    def first_seen(self) -> int:
        """Step of the earliest symptom that shows it."""
        return min((s.place.step or 0 for s in self.symptoms), default=0)


NO_LEARNING = frozenset({"loss-not-decreasing", "metric-not-increasing", "collapsed-output"})
NO_GRADIENT = frozenset({"unchanged-weight", "vanishing-gradient", "update-ratio-too-small"})
GROWTH = frozenset({"loss-diverging", "exploding-activation", "exploding-gradient"})
BLOW_UP = GROWTH | frozenset({
    "nonfinite-activation", "nonfinite-loss", "nonfinite-metric", "nonfinite-gradient",
    "nonfinite-update", "nonfinite-weight",
})  # fmt: skip


class Fault(ABC):
    """A root cause.

    Attributes:
        name: As in the table of `docs/glossary.md`; never renamed.
        group: data, structure, hyper-parameters, training loop, numerics or ranks.
        shown_by: Rules any of which makes it a suspect.
        effects: Rules whose symptoms follow from it.
        healthy, faulty: The smallest program without it, and one whose first diagnosis it is.
    """

    name: ClassVar[str]
    group: ClassVar[str]
    shown_by: ClassVar[frozenset[str]]
    effects: ClassVar[frozenset[str]] = frozenset()
    healthy: ClassVar[Example]
    faulty: ClassVar[Example]

    @abstractmethod
    def consider(self, findings: Findings) -> Iterable[Suspect]:
        """The suspects of this fault, at most one a place; none when its preconditions fail."""

    def suspect(
        self,
        symptoms: Sequence[Symptom],
        *,
        place: Place | None = None,
        message: str | None = None,
        confidence: float,
        fixes: Sequence[Fix],
        why: Sequence[tuple[str, str]] = (),
        fatal: bool = False,
        counter: bool = False,
        kind: SymptomClass | None = None,
    ) -> Suspect:
        """A suspect of this fault; place and words are its first symptom's by default."""
        first = symptoms[0]
        return Suspect(
            fault=self.name,
            place=place or first.place,
            message=message or first.message,
            confidence=confidence,
            kind=kind or first.kind,
            symptoms=tuple(symptoms),
            effects=self.effects,
            fixes=tuple(fixes),
            why=tuple(why),
            fatal=fatal,
            counter=counter,
        )


def set_to(path: str, value: Any, source: SourceRef | None, title: str) -> Fix:
    """A fix that sets one field."""
    return Fix(title, Change(Op.SET, path, value, source))


def set_activation(spec: LayerSpec, value: str, why: str) -> Fix:
    """A fix that replaces the activation of a layer."""
    source = spec.activation_source or spec.source
    now = spec.activation or "its activation"
    op, new = (Op.REMOVE, None) if value == "linear" else (Op.SET, value)
    words = "no activation" if value == "linear" else f'"{value}"'
    title = f'activation of {spec.path}: "{now}" -> {words} ({why})'
    return Fix(title, Change(op, f"layers[{spec.path}].activation", new, source))
