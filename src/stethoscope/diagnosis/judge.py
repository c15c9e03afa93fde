"""The fold of everything over a run: rules, harm, faults, verdict. Live and offline alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stethoscope.config import Config
from stethoscope.trace import Row
from stethoscope.types import Diagnosis, Report, Symptom, Verdict


class Judge:
    """Takes rows in order; answers at any moment."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._symptoms: list[Symptom] = []
        self._last: Row | None = None

    def update(self, row: Row) -> list[Symptom]:
        """Takes one row; returns the symptoms that it added."""
        self._last = row
        return []

    def new_errors(self) -> list[Diagnosis]:
        """The ERRORs confirmed since the last call."""
        return []

    def report(self, meta: Mapping[str, Any], overhead: Mapping[str, float]) -> Report:
        """The report on the rows so far."""
        steps = self._last.step + 1 if self._last else 0
        return Report(
            {**meta, "steps": steps}, Verdict.UNDETERMINED, "", (), (), (), {}, overhead
        )
