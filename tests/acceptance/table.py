"""The results as a table: a pure function to Markdown."""

from __future__ import annotations

from typing import Any

from items import GROUPS, Item

HEAD = """# Acceptance

Written by `make acceptance` (`tests/acceptance/run.py`); the programs are in `examples/` and
`tests/acceptance/`. An item that was not run yet is counted as neither.
"""


def render(items: list[Item], results: dict[str, dict[str, Any]]) -> str:
    """Counts by group, then every item that failed with what was printed.

    Args:
        items: All items.
        results: The newest result of each item that was run.
    """
    lines = [HEAD, "| what is shown | passed | failed | not run |", "|---|---|---|---|"]
    for group, text in GROUPS.items():
        keys = [item.key for item in items if item.group == group]
        done = [results[key] for key in keys if key in results]
        failed = sum(bool(result["problems"]) for result in done)
        lines.append(f"| {text} | {len(done) - failed} | {failed} | {len(keys) - len(done)} |")
    lines += ["", "## Failures", ""]
    failures = [
        f"- `{item.key}`: {_plain('; '.join(results[item.key]['problems']))}"
        for item in items
        if item.key in results and results[item.key]["problems"]
    ]
    lines += failures or ["None."]
    lines += ["", "## Figures", "", "Last figure that each program printed, by seed.", ""]
    lines += ["| group | program | figures |", "|---|---|---|"]
    for group in ("harm", "fixed", "look-alike", "change", "scaled"):
        for name in dict.fromkeys(item.name for item in items if item.group == group):
            found = [
                results.get(item.key) for item in items if (item.group, item.name) == (group, name)
            ]
            texts = [_figure(result) for result in found if result is not None]
            if texts:
                lines.append(f"| {group} | {name} | {', '.join(texts)} |")
    return "\n".join(lines) + "\n"


def _figure(result: dict[str, Any]) -> str:
    if "figure" not in result:
        return "-"
    text = f"{float(result['figure']):.4g}"
    if "faulty" in result:
        text = f"{float(result['faulty']):.4g} -> {text}"
    if "applied" in result:
        text += f" by {_plain('; '.join(result['applied']))}"
    return text


def _plain(text: str) -> str:
    return " ".join(text.replace("|", "/").split())
