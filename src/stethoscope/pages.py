"""The pages of rules and faults: what they say, their bounds, and their example as it is found.

`python -m stethoscope.pages docs` writes them below `docs/`; `stethoscope explain` prints them.
The examples are run for it, so that what a page shows is what is found.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from stethoscope.engine import examples
from stethoscope.example import Example
from stethoscope.faults import all_faults
from stethoscope.faults._base import Fault
from stethoscope.report import catalog, terminal, words
from stethoscope.report.bounds import bounds
from stethoscope.rules import all_rules
from stethoscope.rules._base import Rule
from stethoscope.types import Diagnosis, Report, Severity, Symptom, SymptomClass

WIDTH = 88  # of a finding: fits a page and a terminal
MANY_LINES = 10  # changed ones: beyond that the healthy program is shown in full
CLAIM = {
    SymptomClass.CONTRADICTION: "the program cannot mean this: a warning at once, an error where "
    "it forbids learning or harm is seen",
    SymptomClass.SUSPICION: "it may be fine: a note, until the run is seen to be harmed",
    SymptomClass.EVENT: "something went wrong in the run; the diagnosis says of what it comes",
}
GENERATED = "<!-- Written by `make docs` from the source; do not edit. -->"


@dataclasses.dataclass(frozen=True)
class Page:
    """The page of a rule or a fault, in Markdown.

    Attributes:
        name: Of the rule or the fault.
        code: Of the rule; "" for a fault.
        kind: Whether it is a rule or a fault, and of which class or group.
        summary: In one sentence.
        sections: Heading and text of each.
    """

    name: str
    code: str
    kind: str
    summary: str
    sections: tuple[tuple[str, str], ...]

    def markdown(self) -> str:
        """The page as a file."""
        title = f"{self.name} ({self.code})" if self.code else self.name
        parts = [GENERATED, f"# {title}", f"*{self.kind}*", self.summary]
        parts += [f"## {heading}\n\n{text}" for heading, text in self.sections]
        return "\n\n".join(parts) + "\n"

    def plain(self) -> str:
        """The page for a terminal."""
        parts = [f"{self.code} {self.name}   {self.kind}".strip(), self.summary]
        parts += [f"{heading}\n\n{_unmarked(text)}" for heading, text in self.sections]
        return "\n\n".join(parts) + "\n"


def find(name: str) -> Page | None:
    """The page of a rule (by code or name) or a fault (by name); None for neither.

    Where a rule and a fault share a name it is that of the fault, which names the rule.
    """
    name = name.lower()
    for fault in all_faults():
        if fault.name == name:
            return of_fault(fault)
    for rule in all_rules():
        if name in (rule.code.lower(), rule.name):
            return of_rule(rule)
    return None


def of_rule(rule: Rule) -> Page:
    """The page of a rule."""
    summary, sections = catalog.sections(rule)
    limits = [f"- `{b.name}` = {b.value:g}: {b.reason}" for b in bounds(rule)]
    if limits:
        sections.insert(1, ("Bounds", "\n".join(limits)))
    report = _report(rule.faulty)
    own = [symptom for symptom in report.symptoms if symptom.name == rule.name]
    found = [
        _fenced("text", _symptom(own[0])),
        _more(own[1:]),
        _verdict(report, rule.name),
    ]
    at = next((i for i, (head, _) in enumerate(sections) if head == "References"), len(sections))
    sections[at:at] = [
        ("A program that it accuses", _fenced("python", _program(rule.faulty))),
        ("What it says of it", "\n\n".join(filter(None, found))),
        ("A program that it leaves alone", _healthy(rule.healthy, rule.faulty)),
    ]
    shows = [fault.name for fault in all_faults() if rule.name in fault.shown_by]
    if shows:
        sections.append(("Faults that it shows", _links(shows, "../faults")))
    kind = f"rule, {rule.kind.value}: {CLAIM[rule.kind]}"
    return Page(rule.name, rule.code, kind, summary, tuple(sections))


def of_fault(fault: Fault) -> Page:
    """The page of a fault."""
    summary, sections = catalog.sections(fault)
    sections = catalog.advice(fault) + sections
    report = _report(fault.faulty)
    first = report.diagnoses[0]
    sections += [
        ("A program that has it", _fenced("python", _program(fault.faulty))),
        ("What is found", _fenced("text", terminal.finding(first, WIDTH)) + _note(first, report)),
        ("A program without it", _healthy(fault.healthy, fault.faulty)),
        ("Rules that show it", _links(fault.shown_by, "../rules")),
    ]
    effects = fault.effects - fault.shown_by
    if effects:
        sections.append(("It also explains", _links(effects, "../rules")))
    return Page(fault.name, "", f"fault, {fault.group}", summary, tuple(sections))


def files() -> dict[str, str]:
    """Every page and the two lists of them: path below `docs/` to text."""
    rules, faults = [of_rule(r) for r in all_rules()], [of_fault(f) for f in all_faults()]
    found = {f"rules/{page.name}.md": page.markdown() for page in rules}
    found |= {f"faults/{page.name}.md": page.markdown() for page in faults}
    rows = [
        f"| {page.code} | [{page.name}]({page.name}.md) | {rule.kind.value} | {page.summary} |"
        for page, rule in zip(rules, all_rules(), strict=True)
    ]
    claims = [f"- *{kind.value}*: {text}." for kind, text in CLAIM.items()]
    found["rules/README.md"] = _list(
        "Rules",
        "A rule is a detector: it looks at the program or at the numbers of the run. What it "
        "claims is one of three things:\n\n" + "\n".join(claims),
        "| Code | Name | Class | What it sees |\n| --- | --- | --- | --- |",
        rows,
    )
    rows = [
        f"| {fault.group} | [{page.name}]({page.name}.md) | {page.summary} |"
        for page, fault in sorted(
            zip(faults, all_faults(), strict=True), key=lambda pair: (pair[1].group, pair[0].name)
        )
    ]
    found["faults/README.md"] = _list(
        "Faults",
        "A fault is what is wrong in a program: it explains what the rules saw, and comes with a "
        "change that mends it, with a value from the run.",
        "| Group | Name | What is wrong |\n| --- | --- | --- |",
        rows,
    )
    return found


def write(folder: Path) -> None:
    """Writes all pages below `folder`, and removes those of rules and faults that are gone."""
    wanted = files()
    for part in ("rules", "faults"):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for path in (folder / part).glob("*.md"):
            if f"{part}/{path.name}" not in wanted:
                path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


def _list(title: str, words_: str, head: str, rows: list[str]) -> str:
    return "\n\n".join([GENERATED, f"# {title}", words_, "\n".join([head, *rows])]) + "\n"


@functools.cache
def _report(example: Example) -> Report:
    with tempfile.TemporaryDirectory(prefix="stethoscope-") as folder:
        return examples.run(example, file="faulty.py", trace_dir=folder)


def _program(example: Example) -> str:
    return examples.program(example).rstrip()


def _healthy(healthy: Example, faulty: Example) -> str:
    """The lines that are different, or the whole program where most are."""
    new, old = _program(healthy), _program(faulty)
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm=""))[2:]
    changed = [line for line in lines if not line.startswith("@@")]
    if len(changed) > MANY_LINES:
        return _fenced("python", new)
    return "The same program with:\n\n" + _fenced("diff", "\n".join(changed))


def _symptom(symptom: Symptom) -> str:
    source, lines = symptom.place.source, []
    if source is not None:
        lines.append(f"{source.file}:{source.line}   {source.text}")
    lines.append(f"{words.where(symptom.place)}, step {symptom.place.step or 0}")
    lines.append(symptom.message)
    lines.append("evidence: " + "; ".join(map(words.evidence, symptom.evidence)))
    return "\n".join(lines)


def _more(symptoms: list[Symptom]) -> str:
    places = dict.fromkeys(words.where(symptom.place) for symptom in symptoms)
    return f"The same of: {'; '.join(places)}." if places else ""


def _verdict(report: Report, rule: str) -> str:
    """What comes of the symptoms of a run: its first diagnosis."""
    if not report.diagnoses:
        return "Nothing is diagnosed from it alone."
    first = report.diagnoses[0]
    link = _links([first.fault], "../faults")
    certain = f"{first.severity.value}, {words.certainty(first.confidence)}"
    told = f"The diagnosis of the run: {link} ({certain}): {first.fixes[0].title}."
    return told + _note(first, report)


def _note(diagnosis: Diagnosis, report: Report) -> str:
    if diagnosis.severity is not Severity.NOTE:
        return ""
    why = "the run learns" if report.meta.get("harm") == "learning" else "no harm is seen so far"
    return f"\n\nIt is a note, which `--verbose` shows: {why}."


def _links(names: Iterable[str], folder: str) -> str:
    return ", ".join(f"[{name}]({folder}/{name}.md)" for name in sorted(names))


def _fenced(kind: str, text: str) -> str:
    return f"```{kind}\n{text}\n```"


def _unmarked(text: str) -> str:
    """Markdown as it is read in a terminal: wrapped, code indented, links by their names."""
    parts = []
    for index, part in enumerate(re.split(r"```\w+\n(.*?)\n```", text, flags=re.DOTALL)):
        if index % 2:
            parts.append("\n".join(f"    {line}".rstrip() for line in part.splitlines()))
        elif part.strip():
            plain = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", part.strip())
            parts.append("\n\n".join(map(catalog.wrapped, plain.split("\n\n"))))
    return "\n\n".join(parts)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("expected a folder: python -m stethoscope.pages docs")
    write(Path(sys.argv[1]))
