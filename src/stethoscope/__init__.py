"""Stethoscope listens to a neural network while it trains and says what is wrong, and where.

Importing it imports no framework: `watch` and the adapters are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Change": "stethoscope.types",
    "Config": "stethoscope.config",
    "ConfigError": "stethoscope.config",
    "Diagnosis": "stethoscope.types",
    "FaultyTrainingError": "stethoscope.monitor",
    "Fix": "stethoscope.types",
    "Place": "stethoscope.types",
    "Report": "stethoscope.types",
    "Severity": "stethoscope.types",
    "Stage": "stethoscope.types",
    "Symptom": "stethoscope.types",
    "Trace": "stethoscope.trace",
    "TraceError": "stethoscope.trace",
    "Verdict": "stethoscope.types",
    "check": "stethoscope.diagnosis.judge",
    "read": "stethoscope.trace",
    "watch": "stethoscope.watching",
}
_ADAPTERS = ("engine", "keras", "torch")

__all__ = [*sorted(_HOMES), "__version__"]

if TYPE_CHECKING:
    from stethoscope.config import Config, ConfigError
    from stethoscope.diagnosis.judge import check
    from stethoscope.monitor import FaultyTrainingError
    from stethoscope.trace import Trace, TraceError, read
    from stethoscope.types import (
        Change,
        Diagnosis,
        Fix,
        Place,
        Report,
        Severity,
        Stage,
        Symptom,
        Verdict,
    )
    from stethoscope.watching import watch


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _ADAPTERS:
        value = importlib.import_module(f"stethoscope.{name}")
    else:
        raise AttributeError(f"module 'stethoscope' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_ADAPTERS})
