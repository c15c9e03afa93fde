"""The texts of rules and faults: what `rules` and `explain` print. Read from docstrings."""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import sys
import textwrap
from typing import Any

from stethoscope.rules import all_rules


def rules_text() -> str:
    """One line a rule: code, name, class, summary."""
    rows = [_row(rule) for rule in all_rules()]
    wide = max((len(row["name"]) for row in rows), default=0)
    return "".join(
        f"{row['code']}  {row['name'].ljust(wide)}  {row['class']:<13}  {row['summary']}\n"
        for row in rows
    )


def rules_json() -> str:
    """The same as JSON."""
    return json.dumps([_row(rule) for rule in all_rules()], indent=2) + "\n"


def explain(name: str) -> str | None:
    """What is known of a rule (by code or name) or a fault (by name); None for neither.

    A name that is both a rule and a fault gives both texts.
    """
    parts, name = [], name.lower()
    for fault in _faults():
        if fault.name == name:
            parts.append(
                f"{fault.name}   fault, {fault.group}\n\n{_text(fault)}\n\n{_shown(fault)}\n"
            )
    for rule in all_rules():
        if name in (rule.code.lower(), rule.name):
            parts.append(f"{rule.code} {rule.name}   rule, {rule.kind.value}\n\n{_text(rule)}\n")
    return "\n".join(parts) or None


def similar(name: str) -> list[str]:
    """Known names that look like `name`, best first."""
    known = [rule.name for rule in all_rules()] + [rule.code for rule in all_rules()]
    known += [fault.name for fault in _faults()]
    return difflib.get_close_matches(name, dict.fromkeys(known), n=2)


def _faults() -> tuple[Any, ...]:
    return tuple(importlib.import_module("stethoscope.faults").all_faults())


def _row(rule: Any) -> dict[str, str]:
    summary = _text(rule).partition("\n\n")[0].replace("\n", " ")
    return {
        "code": rule.code,
        "name": rule.name,
        "class": rule.kind.value,
        "summary": summary,
    }


def _text(thing: Any) -> str:
    """The class's own docstring; its module's where it has none."""
    own = type(thing).__dict__.get("__doc__")
    return inspect.cleandoc(own or sys.modules[type(thing).__module__].__doc__ or "")


def _shown(fault: Any) -> str:
    """Which rules make a fault a suspect, and what else follows from it."""
    shown = f"Shown by: {', '.join(sorted(fault.shown_by))}."
    effects = sorted(fault.effects - fault.shown_by)
    lines = [shown, f"Also explains: {', '.join(effects)}."] if effects else [shown]
    lines += _advice(fault)
    return "\n".join(textwrap.fill(line, 100, break_on_hyphens=False) for line in lines)


def _advice(fault: Any) -> list[str]:
    """Why it is bad and how to fix it, in the words of the rule that shows this fault best.

    That is one that shows few faults and names no mere event: a non-finite loss may come from any.
    Nothing where a rule has the fault's own name: its text follows anyway.
    """
    shows = {name: sum(name in f.shown_by for f in _faults()) for name in fault.shown_by}
    rules = [rule for rule in all_rules() if rule.name in shows]
    if not rules or fault.name in shows:
        return []
    best = min(rules, key=lambda rule: (rule.kind.value == "event", shows[rule.name], rule.code))
    paragraphs = [" ".join(text.split()) for text in _text(best).split("\n\n")]
    wanted = [p for p in paragraphs if p.startswith(("Why it is bad:", "How to fix:"))]
    return [*wanted, f"See also: `stethoscope explain {best.name}`."]
