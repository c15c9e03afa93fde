"""The docs say what is there."""

import dataclasses
import re
from pathlib import Path

import pytest

from stethoscope import cli, launch
from stethoscope.config import Config
from stethoscope.faults import all_faults
from stethoscope.types import Stage

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()


@pytest.mark.parametrize("fault", all_faults(), ids=lambda fault: fault.name)
def test_every_fault_is_in_its_group_of_the_glossary(fault):
    (row,) = re.findall(rf"^\| {fault.group} \|(.*)\|$", GLOSSARY, re.MULTILINE)
    assert fault.name in row.replace(",", " ").split()


@pytest.mark.parametrize("stage", Stage, ids=str)
def test_every_stage_is_in_the_glossary_with_its_code(stage):
    (row,) = [line for line in GLOSSARY.splitlines() if re.match(rf"\| .*`{stage}`.* \|", line)]
    assert row.split("|")[2].strip() == (stage.code or "")


def test_every_setting_can_be_given_as_the_readme_says(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    shown = capsys.readouterr().out
    for field in dataclasses.fields(Config):
        option = "--" + field.name.replace("_", "-")
        if field.name == "disable":  # not for the command line
            continue
        assert option in shown
        assert option in README


def test_relative_links_and_files_named_in_the_docs_exist():
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")):
        for name in re.findall(r"`((?:docs|tests|src)/[\w./-]+?)`", path.read_text()):
            assert (ROOT / name.replace("<framework>", "torch")).exists(), (path.name, name)


@pytest.mark.parametrize("adapter", launch.ADAPTERS.values())
def test_every_adapter_of_run_can_be_installed(adapter):
    assert (ROOT / "src" / adapter.replace(".", "/") / "__init__.py").exists()


def test_python_blocks_of_the_readme_are_python():
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        compile(block, "README.md", "exec")


@pytest.mark.parametrize("page", ["README.md", "docs/engine.md"])
def test_programs_of_the_engine_run_as_they_are(page, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("STETHOSCOPE_TRACE_DIR", str(tmp_path))
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    blocks = [block for block in blocks if "stethoscope.engine" in block]
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})
    assert capsys.readouterr().out


def test_make_targets_of_the_docs_exist():
    makefile = (ROOT / "Makefile").read_text()
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / ".ci" / "run"):
        for target in re.findall(r"(?:`|^)make ([a-z-]+)\b", path.read_text(), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
