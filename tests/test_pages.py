"""The pages of rules and faults are current, and a reader can follow them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stethoscope import pages
from stethoscope.faults import all_faults
from stethoscope.report.bounds import bounds
from stethoscope.rules import all_rules

DOCS = Path(__file__).parents[1] / "docs"
WRITTEN = {
    f"{part}/{path.name}": path.read_text(encoding="utf-8")
    for part in ("rules", "faults")
    for path in (DOCS / part).glob("*.md")
}


def as_read(text):
    """The page without what another processor rounds otherwise: the figures of a run.

    Of a finding what it names is kept; the evidence that comes first depends on figures too.
    """

    def block(found):
        words = " ".join(found.group(1).partition("evidence")[0].split())
        return re.sub(r"[-+]?\d[\d.,e+-]*|\b(?:nan|inf)\b", "#", words)

    text = re.sub(r"```text\n(.*?)```", block, text, flags=re.DOTALL)
    text = re.sub(r"(?m)^The same of: .*$", "", text)
    return re.sub(r"(?m)^The diagnosis of the run: .*$", lambda m: m.group().split(")")[0], text)


@pytest.fixture(scope="module")
def current():
    return pages.files()


def test_every_rule_and_fault_has_its_page():
    names = {f"rules/{rule.name}.md" for rule in all_rules()}
    names |= {f"faults/{fault.name}.md" for fault in all_faults()}
    assert WRITTEN.keys() == names | {"rules/README.md", "faults/README.md"}


def test_the_pages_are_current(current):
    old = [name for name in current if as_read(WRITTEN.get(name, "")) != as_read(current[name])]
    assert old == [], "run `make docs`"


@pytest.mark.parametrize("name", WRITTEN)
def test_links_lead_somewhere(name):
    for link in re.findall(r"\]\(([^)]+)\)", WRITTEN[name]):
        assert (DOCS / name).parent.joinpath(link).exists(), link


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_every_bound_says_where_it_comes_from(rule):
    assert [bound.name for bound in bounds(rule) if not bound.reason] == []


@pytest.mark.parametrize("fault", all_faults(), ids=lambda fault: fault.name)
def test_every_fault_says_what_to_do(fault):
    heads = [heading for heading, _ in pages.of_fault(fault).sections]
    assert heads[:2] == ["Why it is bad", "How to fix"]


def test_a_page_is_found_by_code_and_by_name():
    assert pages.find("f003") == pages.find("dead-units")
    assert pages.find("unscaled-input").kind == "fault, data"
    assert pages.find("D003").kind.startswith("rule, suspicion")
    assert pages.find("no-such-thing") is None


def test_settings_of_the_reader_change_nothing(stethoscope, write, folder):
    write("pyproject.toml", '[tool.stethoscope]\nignore = ["F003"]\n')
    settings = {"STETHOSCOPE_DISABLE": "1", "STETHOSCOPE_ON_ERROR": "raise", "RANK": "1"}
    shown = stethoscope("explain", "F003", env=settings)
    assert shown.stdout == pages.find("F003").plain()
    assert shown.stderr == ""
    assert [path.name for path in folder.iterdir()] == ["pyproject.toml"]


def test_a_terminal_gets_no_markup():
    text = pages.find("dead-units").plain()
    assert "](" not in text
    assert "```" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_pages_of_what_is_gone_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "files", lambda: {"rules/here.md": "# here\n"})
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "gone.md").touch()
    pages.write(tmp_path)
    assert [path.name for path in (tmp_path / "rules").iterdir()] == ["here.md"]


@pytest.mark.parametrize("name", ["dead-units", "loss-broadcast", "exploding-recurrence"])
def test_the_program_of_a_page_can_be_run_as_it_stands(name, stethoscope, write):
    page = WRITTEN.get(f"rules/{name}.md") or WRITTEN[f"faults/{name}.md"]
    (program,) = re.findall(r"## A program that (?:it accuses|has it)\n\n```python\n(.*?)```", page,
                            re.DOTALL)  # fmt: skip
    found = stethoscope("run", write("faulty.py", program))
    assert found.returncode == 1
    source = re.search(r"faulty\.py:\d+", page).group()
    assert source in found.stderr
