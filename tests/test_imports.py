"""The dependency direction, read from the source: who may import whom, and where frameworks are."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import stethoscope

PACKAGE = Path(stethoscope.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
FRAMEWORKS = {"torch", "keras", "tensorflow", "jax", "flax", "lightning", "transformers"}
MAX_LINES = 400

# Each part may import the parts in its set, and itself; nobody may import what is not named.
TYPES = {"types"}
PROGRAM = {*TYPES, "vocabulary", "codec"}
TRACE = {*PROGRAM, "program", "stats"}
ROWS = {*TRACE, "row"}
RULES = {*ROWS, "agreement"}
FAULTS = {*RULES, "rules", "example"}
DIAGNOSIS = {*FAULTS, "faults", "config", "trace", "schedule"}
MONITOR = {*DIAGNOSIS, "diagnosis", "recorder", "data", "trace_folder"}
ADAPTER = {*MONITOR, "monitor", "report", "scope", "array_stats", "nonfinite"}
MAY_IMPORT = {
    "__init__": ADAPTER
    | {"torch", "keras", "engine", "watching"},  # public names, all of them lazily
    "types": set(),
    "codec": TYPES,
    "vocabulary": set(),
    "stats": TYPES,
    "schedule": set(),
    "config": {*TYPES, "rules"},
    "program": PROGRAM,
    "agreement": set(),
    "moments": {"program", "stats"},
    "data": PROGRAM | {"program", "moments"},
    "example": TRACE,
    "array_stats": {*TYPES, "stats"},
    "nonfinite": {*TYPES, "stats"},
    "scope": ADAPTER,
    "watching": {"scope", "torch", "engine"},
    "row": TRACE,
    "trace": ROWS,
    "trace_folder": set(),
    "recorder": {*ROWS, "trace"},
    "rules": RULES | {"example"},
    "faults": FAULTS,
    "diagnosis": DIAGNOSIS,
    "monitor": MONITOR,
    "torch": ADAPTER,
    "keras": ADAPTER | {"torch", "engine"},  # the torch backend shares the fast statistics
    "engine": ADAPTER,
    "report": TYPES | {"codec", "rules", "faults", "__init__"},
    "demo": {"config", "engine"},
    "pages": {*TYPES, "example", "rules", "faults", "report", "engine"},
    "launch": {"monitor"},
    "translating": {*TYPES, "config", "monitor", "launch", "engine"},
    "cli": {*ADAPTER, "trace", "launch", "translating", "demo", "pages", "__init__"},
    "__main__": {"cli"},
}


def part(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(path):
    """Every module that `path` imports, also inside functions, as dotted names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            if node.module == "stethoscope":
                yield from (f"stethoscope.{alias.name}" for alias in node.names)
            else:
                yield node.module


def name(path):
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_imports_point_one_way(path):
    own, allowed = part(path), MAY_IMPORT[part(path)]
    for module in imported(path):
        if module == "stethoscope":
            used = "__init__"
        elif module.startswith("stethoscope."):
            used = module.split(".")[1]
            if not (PACKAGE / used).is_dir() and not (PACKAGE / f"{used}.py").exists():
                used = "__init__"  # a public name of the package
        else:
            continue
        assert used == own or used in allowed or (used == "__init__" and own == "cli"), (
            f"{name(path)} imports {module}: {own} may import {sorted(allowed)} only"
        )


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_framework_is_imported_in_its_adapter_only(path):
    used = {module.split(".")[0] for module in imported(path)} & FRAMEWORKS
    allowed = {"torch": {"torch"}, "keras": {"keras", "torch", "jax", "tensorflow"}}
    if part(path) == "demo" and path.name != "__init__.py":
        return  # the user's scripts
    assert used <= allowed.get(part(path), set())


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_file_can_be_read_in_one_go(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_every_part_has_its_place_in_the_direction():
    assert {part(path) for path in FILES} <= MAY_IMPORT.keys()


@pytest.mark.parametrize(
    "statement",
    [
        "import stethoscope",
        "import stethoscope; stethoscope.Report; stethoscope.read; stethoscope.Config",
        "import stethoscope.cli",
        "import stethoscope; stethoscope.check",
        "import stethoscope.rules; stethoscope.rules.all_rules()",
        "import stethoscope.faults; stethoscope.faults.all_faults()",
    ],
)
def test_the_core_imports_no_framework(statement):
    check = f"{statement}\nimport sys\nprint(sorted({FRAMEWORKS!r} & sys.modules.keys()))"
    found = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, timeout=120, check=True
    )
    assert found.stdout == "[]\n"


def test_importing_the_package_imports_nothing_of_it():
    code = "import sys, typing; old = set(sys.modules); import stethoscope"
    code += "; print(sorted(m for m in set(sys.modules) - old if 'stethoscope' in m))"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert found.stdout == "['stethoscope']\n"


@pytest.mark.parametrize("public", stethoscope.__all__)
def test_public_names_are_there(public):
    assert getattr(stethoscope, public) is not None
    assert public in dir(stethoscope)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = stethoscope.nonsense
