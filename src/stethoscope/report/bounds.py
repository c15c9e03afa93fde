"""The bounds of a rule with the reasons that its source gives for them."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

_PACKAGE = "stethoscope.rules"


@dataclasses.dataclass(frozen=True)
class Bound:
    """A figure that a rule compares with.

    Attributes:
        name: In the rule's source.
        value: What it is.
        reason: Where it comes from; "" where the source does not say.
    """

    name: str
    value: float
    reason: str


def bounds(rule: Any) -> list[Bound]:
    """The figures of a rule: its class attributes, and the constants of its module.

    >>> from stethoscope.rules import all_rules
    >>> [b.name for r in all_rules() if r.name == "dead-units" for b in bounds(r)]
    ['streak', 'share']
    """
    kinds = [kind for kind in type(rule).__mro__ if kind.__module__.startswith(_PACKAGE)]
    found: dict[str, Bound] = {}
    for kind in kinds:
        for name, line in _assigned(kind):
            value = getattr(rule, name)
            if _is_figure(value) and abs(value) < float("inf") and name not in found:  # inf: none
                reason = _comment(sys.modules[kind.__module__], line) or _described(kinds, name)
                found[name] = Bound(name, value, reason)
    module = sys.modules[type(rule).__module__]
    for name, value in vars(module).items():
        if re.fullmatch(r"[A-Z][A-Z_0-9]*", name) and _is_figure(value):
            found[name] = Bound(name, value, _constant(module, name))
    return list(found.values())


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _assigned(kind: type) -> Iterator[tuple[str, int]]:
    """The class attributes that a class sets itself, with their last lines in the file."""
    for node in ast.walk(_tree(sys.modules[kind.__module__])):
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            yield from _assignments(node.body)


def _assignments(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    for node in body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        is_set = isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        if is_set and isinstance(target, ast.Name):
            yield target.id, node.end_lineno or node.lineno


def _constant(module: ModuleType, name: str) -> str:
    """The comment on a constant, in the module that defines it."""
    tree = _tree(module)
    for found, line in _assignments(tree.body):
        if found == name:
            return _comment(module, line)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return _constant(importlib.import_module(node.module or ""), name)
    return ""


def _comment(module: ModuleType, line: int) -> str:
    """The comment behind a line of code, or the ones on their own lines above it."""
    lines = inspect.getsource(module).splitlines()
    behind = re.search(r"\s# (?!noqa|type:|fmt:)(.*)$", lines[line - 1])
    if behind:
        return behind.group(1)
    above: list[str] = []
    for text in reversed(lines[: line - 1]):
        if not text.strip().startswith("# "):
            break
        above.insert(0, text.strip()[2:])
    return " ".join(above)


def _described(kinds: list[type], name: str) -> str:
    """What the docstring of a base says of an attribute."""
    for kind in kinds:
        text = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
        found = re.search(rf"^    (?:\w+, )*{name}(?:, \w+)*: (.+(?:\n {{8}}.+)*)", text, re.M)
        if found:
            said = " ".join(found.group(1).split())
            return said[0].lower() + said[1:].removesuffix(".")
    return ""


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))
