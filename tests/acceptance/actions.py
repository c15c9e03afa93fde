"""How an item is shown: the processes it starts, and what is wrong with what they said."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import verify
from items import EXAMPLES, HERE, Item

sys.path.insert(0, str(EXAMPLES))
from measure import is_worse

LIMIT = 600  # seconds for one process; the programs take about 10 on a free core
STETHOSCOPE = [sys.executable, "-m", "stethoscope"]
BASE_RATES = {"rate": 0.05, "features": 0.2}  # of scaled.py: unscaled it learns, R2 0.99
LEARNED_R2 = 0.5  # of scaled.py: half the variance explained
ROUNDS = 3  # edits that a reader may need: no example has more faults than that
KILL_WINDOW = 1.5  # seconds after the trace appears: all runs take longer


class Shown(dict[str, Any]):
    """What came of an item: `problems` and whatever is worth keeping."""


def show(item: Item, folder: Path) -> Shown:
    """Runs an item in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    return ACTIONS[item.group](item, folder)


def _process(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=LIMIT, check=False
    )


def _watched(
    script: Path, arguments: list[str], folder: Path, *options: str
) -> tuple[dict[str, Any], int, str]:
    output = folder / "report.json"
    output.unlink(missing_ok=True)
    command = [*STETHOSCOPE, "run", *options, "--format", "json", "--output-file", str(output)]
    command += ["--trace-dir", str(folder), str(script), *arguments]
    done = _process(command, folder)
    if not output.exists():
        raise RuntimeError(f"no report; exit code {done.returncode}: {done.stderr[-600:]}")
    report = json.loads(output.read_text(encoding="utf-8"))
    if not report["runs"]:
        raise RuntimeError(f"no run was seen; exit code {done.returncode}: {done.stderr[-600:]}")
    return report, done.returncode, done.stdout


def _bare(script: Path, arguments: list[str], folder: Path, metric: str) -> float:
    done = _process([sys.executable, str(script), *arguments], folder)
    if done.returncode:
        raise RuntimeError(f"{script.name} ended with {done.returncode}: {done.stderr[-600:]}")
    return verify.figure(done.stdout, metric)


def _checked(report: dict[str, Any], folder: Path) -> list[str]:
    traces = [run["trace"] for run in report["runs"]]
    output = folder / "checked.json"
    command = [*STETHOSCOPE, "check", *traces, "--format", "json", "--output-file", str(output)]
    done = _process(command, folder)
    if not output.exists():
        return [f"check: exit code {done.returncode}: {done.stderr[-300:]}"]
    checked = json.loads(output.read_text(encoding="utf-8"))
    return [f"check {problem}" for problem in verify.same(report, checked)]


def _faulty(item: Item, folder: Path) -> Shown:
    assert item.script is not None
    report, code, output = _watched(item.script, [str(item.seed)], folder)
    program = item.script.read_text(encoding="utf-8")
    problems = verify.faulty(report, code, item.case, program)
    shown = Shown(problems=problems + _checked(report, folder))
    if item.group == "faulty":
        shown["figure"] = verify.figure(output, item.case["metric"])
    return shown


def _healthy(item: Item, folder: Path) -> Shown:
    assert item.script is not None
    report, code, output = _watched(item.script, [str(item.seed)], folder)
    problems = verify.healthy(report, code)
    if item.seed == 0:
        problems += _checked(report, folder)
    found = verify.figure(output, item.case["metric"])
    bound = item.case.get("learned")
    if bound is not None and not (
        found >= bound if item.case["better"] == "higher" else found <= bound
    ):
        problems.append(f"it does not learn: {found:.4g}, expected {bound}")
    return Shown(problems=problems, figure=found)


def _library(item: Item, folder: Path) -> Shown:
    assert item.script is not None
    output = folder / "report.json"
    command = [sys.executable, str(HERE / "library.py"), str(output), str(item.script)]
    done = _process([*command, str(item.seed)], folder)
    if not output.exists():
        raise RuntimeError(f"no report; exit code {done.returncode}: {done.stderr[-600:]}")
    report = json.loads(output.read_text(encoding="utf-8"))
    if item.group == "fixed-library":
        return Shown(problems=verify.healthy(report, None))
    program = item.script.read_text(encoding="utf-8")
    return Shown(problems=verify.faulty(report, None, item.case, program))


def _engine(item: Item, folder: Path) -> Shown:
    assert item.script is not None
    callback, code, _ = _watched(item.script, [str(item.seed)], folder)
    engine, same, _ = _watched(item.script, [str(item.seed)], folder, "--engine", "numpy")
    problems = [] if code == same else [f"exit code {same}, expected {code}"]
    problems += [
        f"it trained in {run['framework']}, not in the engine"
        for run in engine["runs"]
        if run["framework"] != "numpy"
    ]
    return Shown(problems=problems + verify.same(callback, engine))


def _change(item: Item, folder: Path) -> Shown:
    """Does what a reader does: edits as rank 1 says, runs again, until nothing more is said."""
    assert item.script is not None
    program = item.script.read_text(encoding="utf-8")
    script = folder / "changed.py"
    figures: list[float] = []
    applied: list[str] = []
    for _ in range(ROUNDS + 1):
        script.write_text(program, encoding="utf-8")
        report, _code, output = _watched(script, [str(item.seed)], folder)
        figures.append(verify.figure(output, item.case["metric"]))
        edited, changes = _edited(program, report, item.case["apply"])
        if not changes or len(figures) > ROUNDS:
            break
        program = edited
        applied += changes
    if not applied:
        return Shown(problems=["no Change could be applied"])
    first, last = figures[0], figures[-1]
    learned = is_worse(first, last, item.case["better"], item.case["margin"])
    problems = [] if learned else [f"{first:.4g} became {last:.4g} by {'; '.join(applied)}"]
    return Shown(problems=problems, figure=last, faulty=first, applied=applied)


def _edited(
    program: str, report: dict[str, Any], recipes: list[dict[str, str]]
) -> tuple[str, list[str]]:
    """The program after the best fix that can be applied, and the Changes of that fix."""
    for diagnosis in report["runs"][0]["diagnoses"]:
        if diagnosis["severity"] not in verify.LOUD or not diagnosis["fixes"]:
            continue
        fix, applied = diagnosis["fixes"][0], []
        for change in [fix["change"], *fix.get("also", [])]:
            for recipe in recipes:
                found = re.search(recipe["path"], change["path"])
                if found and re.search(recipe["find"], program):
                    value = "linear" if change["op"] == "remove" else change["value"]
                    into = recipe["into"].replace("{value}", str(value))
                    program = re.sub(recipe["find"], lambda _, text=into: text, program)
                    applied.append(f"{change['op']} {change['path']} {change['value']}")
                    break
        if applied:
            return program, applied
    return program, []


def _scaled(item: Item, folder: Path) -> Shown:
    assert item.script is not None
    what, factor = item.name.split("-x")
    rate = BASE_RATES[what] * (float(factor) if what == "rate" else 1)
    scale = float(factor) if what == "features" else 1.0
    report, _, output = _watched(item.script, [str(rate), str(scale)], folder)
    before = verify.figure(output, r"r2 (-?[\d.e+-]+|nan)")
    columns: list[str] = []
    changes = []
    for diagnosis in report["runs"][0]["diagnoses"]:
        if diagnosis["severity"] not in verify.LOUD or not diagnosis["fixes"]:
            continue
        change = diagnosis["fixes"][0]["change"]
        if change["path"] == "optimizer.learning_rate" and change["op"] == "set":
            rate = change["value"]
        elif change["path"].startswith("data.input") and "standardize" in (change["value"] or {}):
            columns = [json.dumps(change["value"]["standardize"])]
        else:
            continue
        changes.append(f"{change['op']} {change['path']} {change['value']}"[:90])
        break
    if not changes:
        return Shown(problems=[f"no Change of rate or scale (r2 {before:.3g})"], figure=before)
    after = _bare(item.script, [str(rate), str(scale), *columns], folder, r"r2 (-?[\d.e+-]+|nan)")
    problems = [] if after >= LEARNED_R2 else [f"r2 {before:.3g} became {after:.3g} by {changes}"]
    return Shown(problems=problems, figure=after, applied=changes)


def _kill(item: Item, folder: Path) -> Shown:
    script = EXAMPLES / item.name / "fixed.py"
    command = [*STETHOSCOPE, "run", "--trace-dir", str(folder), str(script), str(item.seed)]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    begun = time.perf_counter()
    while not list(folder.glob("*.sqlite")) and process.poll() is None:
        time.sleep(0.05)
        if time.perf_counter() - begun > LIMIT:
            process.kill()
            raise RuntimeError("no trace appeared")
    moment = random.Random(item.seed).uniform(0.1, KILL_WINDOW)
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    ended = process.wait()
    trace = next(folder.glob("*.sqlite"))
    done = _process([*STETHOSCOPE, "check", str(trace), "--format", "json"], folder)
    problems = [] if ended == -signal.SIGKILL else ["it had ended before it was killed"]
    if done.returncode not in (0, 1):
        problems.append(f"check: exit code {done.returncode}: {done.stderr[-300:]}")
    return Shown(problems=problems, figure=moment)


def _harm(item: Item, folder: Path) -> Shown:
    assert item.script is not None
    faulty, fixed = (
        _bare(item.script / f"{name}.py", [str(item.seed)], folder, item.case["metric"])
        for name in ("faulty", "fixed")
    )
    worse = is_worse(faulty, fixed, item.case["better"], item.case["margin"])
    problems = [] if worse else [f"faulty {faulty:.4g}, fixed {fixed:.4g}"]
    return Shown(problems=problems, figure=fixed, faulty=faulty)


ACTIONS: dict[str, Callable[[Item, Path], Shown]] = {
    "faulty": _faulty,
    "paraphrase": _faulty,
    "fixed": _healthy,
    "look-alike": _healthy,
    "faulty-library": _library,
    "fixed-library": _library,
    "engine": _engine,
    "change": _change,
    "scaled": _scaled,
    "kill": _kill,
    "harm": _harm,
}
