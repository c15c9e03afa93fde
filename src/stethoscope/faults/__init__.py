"""One file per root cause. What is in this folder is found; there is no list to edit."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil

from stethoscope.faults._base import Fault


@functools.cache
def all_faults() -> tuple[Fault, ...]:
    """One instance of every fault in this folder, by name.

    Raises:
        RuntimeError: two faults have the same name.
    """
    found: dict[str, Fault] = {}
    for module in pkgutil.iter_modules(__path__, prefix=f"{__name__}."):
        if module.name.rpartition(".")[2].startswith("_"):
            continue
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if not issubclass(kind, Fault) or kind.__module__ != module.name:
                continue
            if "name" not in vars(kind):
                continue
            if kind.name in found:
                raise RuntimeError(f"fault {kind.name} is defined twice.")
            found[kind.name] = kind()
    return tuple(found[name] for name in sorted(found))
