"""The command line: run, check, translate, rules, explain, demo.

Exit codes: 0 clean; 1 findings at or above `--fail-on`; 2 usage or an error of our own. Under
`run` the script's own failure wins.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import stethoscope
from stethoscope import launch
from stethoscope.config import Config, ConfigError, load
from stethoscope.monitor import Session, one_line
from stethoscope.report import catalog, terminal
from stethoscope.report import json as json_report
from stethoscope.report.stream import put, use_color, width
from stethoscope.trace import TraceError
from stethoscope.trace_folder import fallback_folder, newest
from stethoscope.types import Report, Severity, Verdict

USAGE = 2
_FLAGS = {  # options without a value
    "verbose": "also notes, all evidence, and why checks could not run",
    "quiet": "only errors, one line each",
}


class UsageError(Exception):
    """What was asked for cannot be done; the message is one clear sentence."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code.

    Args:
        argv: Without the program's name; default the process's own.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    ours, script = _split_run(given)
    options = _parser().parse_args(ours)
    try:
        return _COMMANDS[options.command](options, script)
    except (UsageError, ConfigError, launch.LaunchError, TraceError) as error:
        print(f"stethoscope: {error}", file=sys.stderr)
        return USAGE
    except Exception as error:
        traceback.print_exception(error)
        print("stethoscope: this is an error of ours: please report it.", file=sys.stderr)
        return USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stethoscope",
        description="Listens to a neural network while it trains: what is wrong, where, why, "
        "and what to change.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"stethoscope {stethoscope.__version__}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    def add(name: str, text: str, usage: str | None = None) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=text, description=text, usage=usage, allow_abbrev=False
        )

    run = add(
        "run",
        "run a training script and watch it",
        "stethoscope run [options] (script.py | -m module) [its arguments]",
    )
    _add_settings(run)
    run.add_argument("--on-error", metavar="WHAT", help="warn (default), stop or raise")
    run.add_argument(
        "--probe-every", metavar="K", help="full statistics every K-th step after the start"
    )
    run.add_argument(
        "--engine", metavar="E", help="numpy: train Keras fits in the engine, every stage in view"
    )
    check = add("check", "judge a trace again")
    check.add_argument("trace", nargs="*", help="default: the newest one")
    _add_settings(check)
    rules = add("rules", "list the rules and the faults")
    rules.add_argument("--format", choices=("text", "json"), default="text")
    explain = add("explain", "explain a rule or a fault")
    explain.add_argument(
        "name", nargs="?", help="a rule's code or name, or a fault's name; none lists them"
    )
    translate = add(
        "translate",
        "write a fit of a Keras script as a step-by-step NumPy program",
        "stethoscope translate [options] script.py [-- its arguments]",
    )
    translate.add_argument("script", help="is run up to the fit, and ended there")
    translate.add_argument(
        "-o", "--output", metavar="F", default="imperative.py", help="default: imperative.py"
    )
    translate.add_argument("--fit", metavar="N", type=int, default=1, help="which one: 1 (default)")
    translate.add_argument("--force", action="store_true", help="overwrite what is there")
    add("demo", "watch a small broken program, and its repair")
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--output-file", metavar="F", help="write the report there")
    parser.add_argument(
        "--fail-on", metavar="LEVEL", help="error (default), warning, note, undetermined or never"
    )
    parser.add_argument("--select", metavar="CODES", help="rules to run: codes, prefixes or names")
    parser.add_argument("--ignore", metavar="CODES", help="rules not to run")
    parser.add_argument("--trace-dir", metavar="DIR", help="folder of the traces")
    for name, text in _FLAGS.items():
        parser.add_argument(f"--{name}", action="store_true", default=None, help=text)


def _split_run(argv: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and the script with its arguments, which are none of our business."""
    if argv[:1] == ["translate"] and "--" in argv:
        at = argv.index("--")
        return argv[:at], argv[at + 1 :]
    if argv[:1] != ["run"]:
        return argv, []
    flags = {"--help", "-h", *(f"--{name}" for name in _FLAGS)}
    at = 1
    while at < len(argv) and argv[at].startswith("-") and argv[at] not in ("-m", "--", "-"):
        at += 1 if argv[at] in flags or "=" in argv[at] else 2
    return argv[:at], argv[at + 1 :] if argv[at : at + 1] == ["--"] else argv[at:]


def _config(options: argparse.Namespace) -> Config:
    names = [field.name for field in dataclasses.fields(Config)]
    return load({name: getattr(options, name, None) for name in names})


def _run(options: argparse.Namespace, words: list[str]) -> int:
    if not words or words == ["-m"]:
        raise UsageError("run needs a script: `stethoscope run train.py`.")
    config = _config(options)
    _writable(options.output_file)
    if words[0] == "-m":
        name, target = words[1], launch.module_named(words[1], words[2:])
    else:
        name, target = words[0], launch.script_at(words[0], words[1:])
    if config.disable:
        return _end(*launch.run(target, None))
    stderr, process = sys.stderr, os.getpid()
    lines = options.format == "text" or bool(options.output_file)  # else stderr is one JSON text
    session = Session(config, script=name, stderr=stderr, lines=lines)
    code, ended = launch.run(target, session)
    if os.getpid() != process:  # a child that the script forked came here too
        return _end(code, ended)
    try:
        session.close()
        reports = session.reports
        ours = _exit_code(config, reports, session.failed)
        if not reports:
            name = Path(name).name
            if session.failed:
                session.notes.append(f"{name} was not watched: nothing is said of its training.")
            else:
                session.notes.append(f"{name} never trained: {_why_untrained(ended)}.")
            if options.format == "text" or options.output_file:
                session.tell(session.notes[-1])
        elif config.engine == "numpy" and not _engine_asked(reports):
            session.notes.append(
                f"--engine numpy did nothing: {Path(name).name} calls no fit of a Keras model."
            )
            session.tell(session.notes[-1])
        if session.rank == 0:
            _say(reports, session.notes, options, config, stderr)
    except Exception as error:  # a fault of ours must not cost the user the exit code
        print(f"stethoscope: no report: {type(error).__name__}: {error}", file=stderr)
        ours = USAGE
    return _end(code or (ours if ended is None or isinstance(ended, SystemExit) else code), ended)


def _engine_asked(reports: list[Report]) -> bool:
    """Whether there was something to run in the engine; what it could not run was told."""
    return any(report.meta["framework"] in ("numpy", "keras") for report in reports)


def _why_untrained(ended: BaseException | None) -> str:
    if isinstance(ended, SyntaxError):
        return "it is broken, so nothing ran"
    if not launch.ADAPTERS.keys() & sys.modules.keys():
        other = " (flax is not watched)" if "flax" in sys.modules else ""
        frameworks = [name for name in launch.ADAPTERS if "." not in name]  # others than our own
        return f"it imported neither {' nor '.join(frameworks)}{other}"
    if ended is not None and not isinstance(ended, SystemExit):
        return "it ended before an optimizer step was seen"
    return "no optimizer step was seen"


def _end(code: int, ended: BaseException | None) -> int:
    if isinstance(ended, KeyboardInterrupt):
        # Python itself ends an interrupted script by the signal, so that a shell loop stops too.
        sys.excepthook = lambda *_: None
        raise KeyboardInterrupt
    return code


def _check(options: argparse.Namespace, _: list[str]) -> int:
    from stethoscope.diagnosis import judge

    config = _config(options)
    _writable(options.output_file)
    paths = options.trace or [_newest(config)]
    reports = [judge.check(path, config) for path in paths]
    _say(reports, [], options, config, sys.stdout)
    return _exit_code(config, reports)


def _newest(config: Config) -> str:
    folders = [Path(config.trace_dir)]
    if config.trace_dir == Config().trace_dir and not folders[0].is_dir():
        folders.append(fallback_folder())
    for folder in folders:
        found = newest(folder)
        if found is not None:
            return str(found)
    raise UsageError(
        f"there is no trace in {config.trace_dir}: `stethoscope run train.py` writes one, "
        "or name one: `stethoscope check TRACE`."
    )


def _say(
    reports: list[Report],
    notes: list[str],
    options: argparse.Namespace,
    config: Config,
    stream: TextIO,
) -> None:
    """Prints the reports, and writes them to the output file in the format asked for."""
    if options.output_file:
        text = _render(reports, notes, options.format, config, None)
        try:
            Path(options.output_file).write_text(text, encoding="utf-8")
        except OSError as error:
            print(f"stethoscope: cannot write {options.output_file}: {error}", file=sys.stderr)
    form = "text" if options.output_file else options.format
    if config.quiet and form == "text":
        # while a script ran, each was told the moment it was confirmed
        for report in reports if options.command == "check" else ():
            for diagnosis in report.diagnoses:
                if diagnosis.severity is Severity.ERROR:
                    print(f"stethoscope: {one_line(diagnosis)}", file=stream)
        return
    if reports or form == "json":
        put(_render(reports, notes, form, config, stream), stream)


def _render(
    reports: list[Report], notes: list[str], form: str, config: Config, stream: TextIO | None
) -> str:
    if form == "json":
        return json_report.render(reports, notes=notes)
    return terminal.render(
        reports, color=use_color(stream), verbose=config.verbose, width=width(stream)
    )


def _exit_code(config: Config, reports: list[Report], failed: bool = False) -> int:
    """Findings count first; then, that an error of ours kept something from being seen."""
    severities = [d.severity for report in reports for d in report.diagnoses]
    undetermined = any(report.verdict is Verdict.UNDETERMINED for report in reports)
    failed = failed or any(report.meta.get("failure") for report in reports)
    return 1 if config.fails(severities, undetermined) else USAGE * failed


def _writable(path: str | None) -> None:
    """Fails before a long run rather than after it."""
    if path is None:
        return
    folder = Path(path).resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK) or Path(path).is_dir():
        raise UsageError(f"cannot write {path}: expected a file in a folder that can be written.")


def _translate(options: argparse.Namespace, words: list[str]) -> int:
    from stethoscope import translating

    output, target = Path(options.output), launch.script_at(options.script, words)
    if options.fit < 1:
        raise UsageError(f"--fit counts from 1; got {options.fit}.")
    if output.suffix != ".py":
        raise UsageError(f"cannot write {output}: expected a name that ends in .py.")
    _writable(options.output)
    there = [path for path in (output, output.with_suffix(".npz")) if path.exists()]
    if output.exists() and output.samefile(options.script):
        raise UsageError(f"{output} is the script itself: name another file with -o.")
    if there and not options.force:
        raise UsageError(f"{there[0]} is there already: overwrite it with --force, or use -o.")
    return translating.translate(target, options.script, output, options.fit)


def _rules(options: argparse.Namespace, _: list[str]) -> int:
    print(catalog.rules_json() if options.format == "json" else catalog.rules_text(), end="")
    return 0


def _explain(options: argparse.Namespace, _: list[str]) -> int:
    from stethoscope import pages

    if options.name is None:
        print(catalog.rules_text(), end="")
        return 0
    page = pages.find(options.name)
    if page is None:
        close = catalog.similar(options.name)
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        raise UsageError(
            f"{options.name!r} is no rule's code or name and no fault's name.{hint} "
            "`stethoscope rules` lists all of them."
        )
    print(page.plain(), end="")
    return 0


def _demo(options: argparse.Namespace, _: list[str]) -> int:
    from stethoscope import demo

    return demo.show()


_COMMANDS: dict[str, Callable[[argparse.Namespace, list[str]], int]] = {
    "run": _run,
    "check": _check,
    "translate": _translate,
    "rules": _rules,
    "explain": _explain,
    "demo": _demo,
}
