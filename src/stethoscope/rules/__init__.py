"""One file per symptom. What is in this folder is found; there is no list to edit."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil

from stethoscope.rules._base import Rule


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """One instance of every rule in this folder, by code.

    Raises:
        RuntimeError: two rules have the same code or name.
    """
    found: dict[str, Rule] = {}
    names: set[str] = set()
    for module in pkgutil.iter_modules(__path__, prefix=f"{__name__}."):
        if module.name.rpartition(".")[2].startswith("_"):
            continue
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if not issubclass(kind, Rule) or kind.__module__ != module.name:
                continue
            if "code" not in vars(kind):
                continue  # a base that several rules of one file share
            if kind.code in found or kind.name in names:
                raise RuntimeError(f"rule {kind.code} {kind.name} is defined twice.")
            found[kind.code] = kind()
            names.add(kind.name)
    return tuple(found[code] for code in sorted(found))


def is_named(rule: Rule, name: str) -> bool:
    """Whether a code, the prefix of one, or a rule's name means `rule`."""
    return rule.code.startswith(name) or rule.name == name
