"""Runs every pair bare over some seeds and prints how much worse the faulty program ends.

A pair counts only if the faulty program is worse by the margin of cases.toml in every seed.

    python examples/measure.py [slug ...] [--seeds 5]
"""

import argparse
import math
import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).parent


def run(script: Path, seed: int, metric: str) -> tuple[float, float]:
    """The last figure that a program prints, and the seconds it took."""
    begun = time.perf_counter()
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, script.name, str(seed)],
        cwd=script.parent, env=env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{script} {seed} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found = re.findall(metric, done.stdout)
    if not found:
        raise SystemExit(f"{script} {seed} printed nothing that matches {metric!r}")
    return float(found[-1]), time.perf_counter() - begun


def is_worse(faulty: float, fixed: float, better: str, margin: float) -> bool:
    """Whether a faulty program ended worse than its partner; not a number is worst."""
    if not math.isfinite(fixed):
        return False
    if not math.isfinite(faulty):
        return True
    return fixed - faulty >= margin if better == "higher" else faulty - fixed >= margin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("slugs", nargs="*", help="the pairs to measure; default all")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds, from 0")
    options = parser.parse_args()
    cases = tomllib.loads((HERE / "cases.toml").read_text(encoding="utf-8"))
    unknown = set(options.slugs) - set(cases)
    if unknown:
        parser.error(f"unknown pairs {sorted(unknown)}: expected some of {', '.join(cases)}")
    failed = 0
    print("| pair | figure | faulty, by seed | fixed, by seed | worse in | longest run |")
    print("|---|---|---|---|---|---|")
    for slug in options.slugs or cases:
        case = cases[slug]
        pairs, longest = [], 0.0
        for seed in range(options.seeds):
            faulty, s1 = run(HERE / slug / "faulty.py", seed, case["metric"])
            fixed, s2 = run(HERE / slug / "fixed.py", seed, case["metric"])
            pairs.append((faulty, fixed))
            longest = max(longest, s1, s2)
        worse = sum(is_worse(a, b, case["better"], case["margin"]) for a, b in pairs)
        failed += worse < options.seeds
        columns = [" ".join(f"{pair[i]:.4g}" for pair in pairs) for i in (0, 1)]
        print(
            f"| {slug} | {case['better']} is better | {columns[0]} | {columns[1]} "
            f"| {worse}/{options.seeds} | {longest:.1f} s |",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
