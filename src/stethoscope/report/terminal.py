"""The report for a person: the verdict first, then each diagnosis, then what was looked at."""

from __future__ import annotations

import io
import itertools
import os
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from stethoscope.report import words
from stethoscope.types import Diagnosis, Fix, Report, Severity, SourceRef, Verdict

INDENT = 3
LABEL = 11  # width of the column of "evidence", "change", "explains"
MAX_EVIDENCE = 4  # pieces shown without --verbose, so that five diagnoses fit one screen
MAX_FIXES = 2
UNBROKEN = "\N{NO-BREAK SPACE}"  # holds a command together while lines are wrapped
SHORT_RUN = 60.0  # seconds; the first 21 steps are seen in full, whatever they cost

_VERDICT = {
    Verdict.FAULTY: ("FAULTY", "bold red"),
    Verdict.HEALTHY: ("HEALTHY", "bold green"),
    Verdict.UNDETERMINED: ("UNDETERMINED", "bold yellow"),
}
_SEVERITY = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


def render(reports: Sequence[Report], *, color: bool, verbose: bool, width: int) -> str:
    """One block for each report.

    Args:
        reports: In the order of their start.
        color: Use ANSI colours.
        verbose: Also notes, all evidence, the path of questions, and why checks did not run.
        width: Columns to wrap prose at; at least 40 are used.
    """
    width = max(width, 40)
    lines: list[Text] = []
    for index, report in enumerate(reports):
        if index:
            lines.append(Text())
        lines += _block(report, index if len(reports) > 1 else None, verbose, width)
    stream = io.StringIO()
    console = Console(
        file=stream,
        force_terminal=color,
        color_system="standard" if color else None,
        width=width,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        _environ={},  # the caller decided on colour already
    )
    for line in lines:
        console.print(line, soft_wrap=True)
    return stream.getvalue()


def finding(diagnosis: Diagnosis, width: int) -> str:
    """One diagnosis as plain text, as a report shows it.

    Args:
        diagnosis: What is shown.
        width: Columns to wrap prose at.
    """
    lines = [line.plain for line in _diagnosis(1, diagnosis, False, width)]
    return "\n".join([lines[0][INDENT:], *lines[1:]])


def _block(report: Report, index: int | None, verbose: bool, width: int) -> Iterator[Text]:
    yield _head(report, index)
    if report.reason and (report.verdict is not Verdict.FAULTY or verbose):
        yield from _wrap(report.reason, width)
    shown = [d for d in report.diagnoses if verbose or d.severity is not Severity.NOTE]
    for rank, diagnosis in enumerate(shown, start=1):
        yield Text()
        yield from _diagnosis(rank, diagnosis, verbose, width)
    yield Text()
    yield from _closing(report, shown, verbose, width)


def _head(report: Report, index: int | None) -> Text:
    word, style = _VERDICT[report.verdict]
    meta = report.meta
    line = Text(word, style=style)
    if report.verdict is Verdict.HEALTHY:
        line.append("  CM (correct model)")
    if meta.get("script"):
        line.append(f"   {meta['script']}")
    facts = [_framework(report)]
    if index is not None:
        facts.append(f"run {index + 1}")
    steps = meta.get("steps")
    if steps is not None:
        facts.append(f"{steps:,} step{'' if steps == 1 else 's'} seen")
    line.append("   " + ", ".join(fact for fact in facts if fact))
    return line


def _framework(report: Report) -> str:
    names = {"torch": "PyTorch", "keras": "Keras"}
    name = str(report.meta.get("framework") or "")
    version = str(report.meta.get("framework_version") or "")
    backend = report.meta.get("backend")
    text = f"{names.get(name, name)} {version}".strip()
    return f"{text} on {backend}" if backend else text


def _diagnosis(rank: int, diagnosis: Diagnosis, verbose: bool, width: int) -> Iterator[Text]:
    head = Text(f"{rank}".ljust(INDENT))
    head.append(diagnosis.fault, style="bold")
    head.append("   ")
    head.append(diagnosis.severity.value, style=_SEVERITY[diagnosis.severity])
    head.append(f", {words.certainty(diagnosis.confidence)}")
    yield head
    source = diagnosis.place.source
    if source is not None:
        line = Text(" " * INDENT)
        line.append(_line(source), style="cyan")
        room = max(width - len(line.plain) - 3, 20)
        line.append(f"   {_cut(source.text, room)}" if source.text else "")
        yield line
    names = tuple(symptom.name for symptom in diagnosis.symptoms)
    code = words.paper_code(diagnosis.place, names)
    place = words.where(diagnosis.place) + (f" ({code})" if code else "")
    yield from _wrap(f"{place}, {words.moment(diagnosis)}", width, INDENT)
    yield from _wrap(diagnosis.message, width, INDENT)
    yield from _labelled("evidence", "; ".join(_evidence(diagnosis, verbose)), width)
    for number, fix in enumerate(diagnosis.fixes[: None if verbose else MAX_FIXES]):
        yield from _labelled("or" if number else "change", _fix(fix, source), width, "green")
    yield from _labelled("explains", _explains(diagnosis), width)
    if verbose:
        for question, answer in diagnosis.why:
            yield from _labelled("why", f"{question} {answer}", width)


def _evidence(diagnosis: Diagnosis, verbose: bool) -> list[str]:
    """All pieces; without --verbose the first of each rule before the second of any."""
    pieces: dict[str, list[str]] = {}
    for symptom in diagnosis.symptoms:
        pieces.setdefault(symptom.rule, []).extend(map(words.evidence, symptom.evidence))
    if verbose:
        return list(dict.fromkeys(itertools.chain(*pieces.values())))
    rounds = itertools.chain(*itertools.zip_longest(*pieces.values()))
    return list(dict.fromkeys(piece for piece in rounds if piece))[:MAX_EVIDENCE]


def _fix(fix: Fix, place: SourceRef | None) -> str:
    places = []
    for change in (fix.change, *fix.also):
        source = change.source
        if source is not None and (place is None or (source.file, source.line) != _key(place)):
            places.append(_line(source))
    return fix.title + (f"   at {', '.join(dict.fromkeys(places))}" if places else "")


def _explains(diagnosis: Diagnosis) -> str:
    layers: dict[str, list[str]] = {}
    for symptom in diagnosis.symptoms:
        seen = layers.setdefault(symptom.name, [])
        if symptom.place.layer and symptom.place.layer not in seen:
            seen.append(symptom.place.layer)
    parts = []
    for name, paths in layers.items():
        if name == diagnosis.fault:
            continue
        more = f", {len(paths) - 4} more" if len(paths) > 4 else ""
        parts.append(f"{name} ({', '.join(paths[:4])}{more})" if paths else name)
    return ", ".join(parts)


def _closing(
    report: Report, shown: Sequence[Diagnosis], verbose: bool, width: int
) -> Iterator[Text]:
    ran, could_not = len(report.ran), len(report.skipped)
    parts = [f"{ran} check{'' if ran == 1 else 's'} ran"]
    if could_not:
        parts[0] += f", {could_not} could not" + ("" if verbose else " (--verbose says why)")
    hidden = sum(d.severity is Severity.NOTE for d in report.diagnoses) - sum(
        d.severity is Severity.NOTE for d in shown
    )
    if hidden:
        parts.append(f"{hidden} note{'' if hidden == 1 else 's'} (--verbose)")
    if report.overhead:
        parts.append(_overhead(report))
    if report.meta.get("trace"):
        parts.append(f"trace {_near(str(report.meta['trace']))}")
    if shown:
        parts.append(f"`stethoscope explain {shown[0].fault}`".replace(" ", UNBROKEN))
    for line in _wrap("; ".join(parts), width, style="dim"):
        yield Text(line.plain.replace(UNBROKEN, " "), style=line.style)
    if report.meta.get("trace_problem") and report.meta.get("trace"):
        yield from _wrap(str(report.meta["trace_problem"]), width, style="yellow")
    if verbose:
        for code, reason in sorted(report.skipped.items()):
            yield from _labelled(code, reason, width)
        for topic, reason in report.meta.get("unseen", {}).items():
            yield from _labelled("not seen", f"{topic.replace('_', ' ')}: {reason}", width)


def _overhead(report: Report) -> str:
    """What watching cost: a share, or seconds where the dense start is most of a short run."""
    if report.overhead.get("total_seconds", SHORT_RUN) < SHORT_RUN:
        return f"watching took {report.overhead.get('seconds', 0.0):.1f} s"
    return f"overhead {100 * report.overhead.get('share', 0.0):.1f} %"


def _wrap(text: str, width: int, indent: int = 0, style: str = "") -> Iterator[Text]:
    pad = " " * indent
    for line in textwrap.wrap(
        text, width, initial_indent=pad, subsequent_indent=pad, break_on_hyphens=False
    ):
        yield Text(line, style=style)


def _labelled(label: str, text: str, width: int, style: str = "") -> Iterator[Text]:
    if not text:
        return
    body = textwrap.wrap(text, max(width - INDENT - LABEL, 20), break_on_hyphens=False)
    for number, line in enumerate(body):
        row = Text(" " * INDENT)
        row.append((label if number == 0 else "").ljust(LABEL), style="dim")
        row.append(line, style=style)
        yield row


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 3] + "..."


def _line(source: SourceRef) -> str:
    return f"{source.file}:{source.line}" + ("" if source.exact else " (about)")


def _key(source: SourceRef) -> tuple[str, int]:
    return source.file, source.line


def _near(path: str) -> str:
    """A path below the working directory as the user would type it."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    return path if relative.startswith(os.pardir) else str(Path(relative))
