"""Shows what the tool must show, item by item, and writes the table of it.

    python tests/acceptance/run.py [part of a key ...] [--again failed|all] [--list] [--quick]

Each result is appended to .acceptance/results.jsonl at once: after an interruption the items that
have one are skipped.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from typing import Any

import table
from actions import show
from items import ROOT, Item, all_items

FOLDER = ROOT / ".acceptance"
RESULTS = FOLDER / "results.jsonl"
TABLE = ROOT / "docs" / "acceptance.md"


def results() -> dict[str, dict[str, Any]]:
    """The newest result of each item; a half-written last line is no result."""
    found: dict[str, dict[str, Any]] = {}
    if RESULTS.exists():
        for line in RESULTS.read_text(encoding="utf-8").splitlines():
            try:
                result = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[result["key"]] = result
    return found


def run(item: Item) -> dict[str, Any]:
    """Shows one item and keeps what came of it."""
    begun = time.perf_counter()
    try:
        shown = dict(show(item, FOLDER / "work" / item.key.replace("/", "-")))
    except (RuntimeError, ValueError, LookupError, OSError, subprocess.TimeoutExpired) as error:
        shown = {"problems": [f"{type(error).__name__}: {error}"]}
    if not math.isfinite(shown.get("figure", 0.0)):
        shown["figure"] = str(shown["figure"])
    result = {"key": item.key, "seconds": round(time.perf_counter() - begun, 1), **shown}
    FOLDER.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="run the items whose key starts with one of these")
    parser.add_argument("--again", choices=("failed", "all"), help="also items with a result")
    parser.add_argument("--quick", action="store_true", help="seed 0 of everything")
    parser.add_argument("--list", action="store_true", help="print the keys and stop")
    options = parser.parse_args()
    items = all_items()
    known = results()
    chosen = [
        item
        for item in items
        if not options.parts or any(item.key.startswith(part) for part in options.parts)
    ]
    if options.quick:
        chosen = [item for item in chosen if item.seed == 0]
    if options.again != "all":
        chosen = [
            item
            for item in chosen
            if item.key not in known or (options.again == "failed" and known[item.key]["problems"])
        ]
    if options.list:
        print("\n".join(item.key for item in chosen))
        return 0
    failed = 0
    for number, item in enumerate(chosen, 1):
        result = run(item)
        failed += bool(result["problems"])
        said = "; ".join(result["problems"]) or "ok"
        print(f"{number}/{len(chosen)} {item.key} {result['seconds']} s: {said}", flush=True)
        _write(items)
    _write(items)
    return 1 if failed else 0


def _write(items: list[Item]) -> None:
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(table.render(items, results()), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
