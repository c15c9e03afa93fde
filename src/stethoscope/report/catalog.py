"""The texts of rules and faults: what is read from their docstrings."""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import sys
import textwrap
from typing import Any

from stethoscope.rules import all_rules

SECTIONS = ("What it detects", "Why it is bad", "How to fix", "False alarms", "References")
"""Of a docstring, each a paragraph that starts with these words and a colon."""


def rules_text() -> str:
    """One line a rule: code, name, class, summary; then one a fault: name, group, summary."""
    rows = [_row(rule) for rule in all_rules()]
    faults = sorted(_faults(), key=lambda fault: (fault.group, fault.name))
    wide = max(len(one.name) for one in (*all_rules(), *faults))
    lines = ["Rules: what is looked for.", ""]
    lines += [
        f"{row['code']}  {row['name'].ljust(wide)}  {row['class']:<13}  {row['summary']}"
        for row in rows
    ]
    lines += ["", "Faults: what is diagnosed from what the rules saw.", ""]
    group = max(len(fault.group) for fault in faults)
    lines += [
        f"{fault.name.ljust(wide)}  {fault.group.ljust(group)}  {sections(fault)[0]}"
        for fault in faults
    ]
    return "\n".join([*lines, "", "`stethoscope explain NAME` explains one."]) + "\n"


def rules_json() -> str:
    """The same as JSON."""
    return json.dumps([_row(rule) for rule in all_rules()], indent=2) + "\n"


def similar(name: str) -> list[str]:
    """Known names that look like `name`, best first."""
    known = [rule.name for rule in all_rules()] + [rule.code for rule in all_rules()]
    known += [fault.name for fault in _faults()]
    return difflib.get_close_matches(name, dict.fromkeys(known), n=2)


def _faults() -> tuple[Any, ...]:
    return tuple(importlib.import_module("stethoscope.faults").all_faults())


def _row(rule: Any) -> dict[str, str]:
    return {
        "code": rule.code,
        "name": rule.name,
        "class": rule.kind.value,
        "summary": sections(rule)[0],
    }


def sections(thing: Any) -> tuple[str, list[tuple[str, str]]]:
    """The summary of a rule or a fault, and the sections of its docstring: heading and text.

    Raises:
        ValueError: A paragraph is none of the sections.
    """
    summary, *rest = [" ".join(part.split()) for part in _text(thing).split("\n\n")]
    found = []
    for part in rest:
        heading, _, words = part.partition(": ")
        if heading not in SECTIONS:
            raise ValueError(f"{thing.name}: {part!r} starts with none of {', '.join(SECTIONS)}.")
        found.append((heading, words[0].upper() + words[1:]))
    return summary, found


def _text(thing: Any) -> str:
    """The class's own docstring; its module's where it has none."""
    own = type(thing).__dict__.get("__doc__")
    return inspect.cleandoc(own or sys.modules[type(thing).__module__].__doc__ or "")


def advice(fault: Any) -> list[tuple[str, str]]:
    """Why a fault is bad and how to fix it, in the words of the rule that shows it best.

    That is the one of its name, or one that shows few faults and names no mere event: a non-finite
    loss may come from any.
    """
    shows = {name: sum(name in f.shown_by for f in _faults()) for name in fault.shown_by}
    rules = [rule for rule in all_rules() if rule.name in shows]
    if not rules or "How to fix" in dict(sections(fault)[1]):
        return []

    def order(rule: Any) -> tuple[bool, bool, int, str]:
        return rule.name != fault.name, rule.kind.value == "event", shows[rule.name], rule.code

    best = min(rules, key=order)
    return [part for part in sections(best)[1] if part[0] in ("Why it is bad", "How to fix")]


def wrapped(words: str) -> str:
    """Words in lines for a terminal; a list keeps its lines."""
    lines = words.splitlines() if words.startswith("- ") else [words]
    return "\n".join(
        textwrap.fill(
            line, 100, subsequent_indent="  " * line.startswith("- "), break_on_hyphens=False
        )
        for line in lines
    )
