"""The list of what is shown, one item a subprocess or a few; in the order in which it is run."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLES = ROOT / "examples"

GROUPS = {
    "faulty": "Faulty examples under `stethoscope run`: fault, place, line, Change, exit 1; and"
    " `check TRACE` says the same",
    "fixed": "Fixed partners under `stethoscope run`: exit 0, silent; seed 0 also by `check TRACE`",
    "look-alike": "Healthy look-alikes: they learn, exit 0, silent",
    "faulty-library": "Faulty examples with `watch` or the callback: the same diagnosis",
    "fixed-library": "Fixed partners with `watch` or the callback: silent",
    "engine": "Keras examples by `run --engine numpy`: what the callback says, at the same lines",
    "paraphrase": "Paraphrases of the faulty examples: same fault, place, line",
    "change": "The recommended Change, applied by hand, makes the faulty example learn",
    "scaled": "One program, its rate x10, x100, x1000, its features x3, x300: measured Changes"
    " that learn",
    "kill": "A run killed by SIGKILL at a random moment leaves a trace that `check` reads",
    "harm": "The faulty example, bare, ends clearly worse than its fixed partner",
}


@dataclasses.dataclass(frozen=True)
class Item:
    """One thing to show.

    Attributes:
        group: A key of `GROUPS`.
        name: The program, or what is varied.
        seed: What the program is given as its argument.
        script: The program; None where the group has its own.
        case: Its truth.
    """

    group: str
    name: str
    seed: int = 0
    script: Path | None = None
    case: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def key(self) -> str:
        """Its name in the results."""
        return f"{self.group}/{self.name}/{self.seed}"


def all_items() -> list[Item]:
    """Every item; seed 0 of everything comes first."""
    cases = _table(EXAMPLES / "cases.toml")
    healthy = _table(HERE / "healthy.toml")
    items: list[Item] = []
    for seed in range(5):
        for slug, case in cases.items():
            folder = EXAMPLES / slug
            if seed == 0:
                items += [
                    Item("faulty", slug, seed, folder / "faulty.py", case),
                    Item("faulty-library", slug, seed, folder / "faulty.py", case),
                    Item("fixed-library", slug, seed, folder / "fixed.py", case),
                    Item("change", slug, seed, folder / "faulty.py", case),
                ]
                if case["framework"] == "keras":
                    items += [
                        Item("engine", f"{slug}-{name}", seed, folder / f"{name}.py", case)
                        for name in ("faulty", "fixed")
                    ]
            items.append(Item("fixed", slug, seed, folder / "fixed.py", case))
            items.append(Item("harm", slug, seed, folder, case))
        if seed < 3:
            for name, case in healthy.items():
                script = HERE / "healthy" / f"{name}.py"
                items.append(Item("look-alike", name, seed, script, case))
    for name, lines in _table(HERE / "paraphrases.toml").items():
        truth = {k: v for k, v in cases[name[:-2]].items() if k != "apply"} | lines
        items.append(Item("paraphrase", name, 0, HERE / "paraphrases" / f"{name}.py", truth))
    for name in ("rate-x10", "rate-x100", "rate-x1000", "features-x3", "features-x300"):
        items.append(Item("scaled", name, 0, HERE / "scaled.py"))
    items += [Item("kill", "regression_broadcast", n) for n in range(20)]
    order = list(GROUPS)
    return sorted(items, key=lambda item: (item.seed > 0, order.index(item.group), item.seed))


def _table(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))
