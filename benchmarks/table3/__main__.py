"""Prints the tables of `docs/engine.md`, and writes them into it; see the package."""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Iterable, Iterator

import keras

from table3 import compare, speed
from table3.cases import Case, chosen
from table3.page import PAGE, written


def figures(cases: Iterable[Case], seeds: int) -> Iterator[str]:
    """The lines of the table of losses and accuracies."""
    yield compare.HEAD
    for case in cases:
        yield compare.row(compare.compare(case, range(seeds)))


def times(cases: Iterable[Case], rounds: int, *, network: bool) -> Iterator[str]:
    """The lines of the table of times; with the CNN, which is counted apart."""
    yield speed.HEAD
    found = []
    for case in cases:
        found.append(speed.measure(case, rounds))
        yield speed.row(found[-1])
    yield speed.medians(found)
    if network:
        yield speed.row(speed.measure(speed.CNN, rounds))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="table3", description=__doc__)
    parser.add_argument("cases", nargs="*", help="numbers of posts; all without one")
    parser.add_argument("--only", choices=("figures", "speed"), help="one of the two tables")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=11, help="turns of each copy")
    parser.add_argument("--write", action="store_true", help=f"the tables into {PAGE.name}")
    arguments = parser.parse_args()
    if arguments.write and arguments.cases:
        parser.error("--write takes no programs: the page shows all of them.")
    warnings.filterwarnings("ignore", category=UserWarning, module="keras")
    known = chosen(arguments.cases)
    small = [case for case in known if case.parameters < speed.SMALL]
    tables = {
        "figures": figures(known, arguments.seeds),
        "speed": times(small, arguments.rounds, network=not arguments.cases),
    }
    print(f"Keras {keras.__version__} on {keras.backend.backend()}, {platform.machine()}")
    for name, lines in tables.items():
        if arguments.only in (None, name):
            begun, shown = time.perf_counter(), []
            for line in lines:
                print(line, flush=True)
                shown.append(line)
            print(f"({time.perf_counter() - begun:.0f} s)\n")
            if arguments.write:
                text = written(PAGE.read_text(encoding="utf-8"), name, "\n".join(shown))
                PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
