"""`check` judges a stored trace as the live run did, with the same report and exit code."""

import json
from pathlib import Path

import pytest

from stethoscope import cli, demo

BROKEN = Path(demo.__file__).with_name("broken.py").read_text()
FIXED = Path(demo.__file__).with_name("fixed.py").read_text()


@pytest.mark.parametrize(
    ("source", "verdict", "code"), [(BROKEN, "faulty", 1), (FIXED, "healthy", 0)]
)
def test_check_says_what_run_said(stethoscope, write, source, verdict, code):
    path = write("train.py", source)
    live = stethoscope("run", "--output-file", "live.json", "--format", "json", path)
    again = stethoscope("check", "--format", "json")
    assert (live.returncode, again.returncode) == (code, code)
    (mine,) = json.loads(Path("live.json").read_text())["runs"]
    (theirs,) = json.loads(again.stdout)["runs"]
    assert mine["verdict"] == verdict
    for field in ("verdict", "diagnoses", "symptoms", "ran", "skipped", "steps", "framework"):
        assert mine[field] == theirs[field], field


def test_newest_trace_is_taken(stethoscope, write):
    for source in (FIXED, BROKEN):
        stethoscope("run", write("train.py", source))
    assert "FAULTY" in stethoscope("check").stdout
    named = stethoscope("check", ".stethoscope/train-1.sqlite")
    assert (named.returncode, named.stdout.split()[0]) == (0, "HEALTHY")


def test_ignored_rules_find_nothing(stethoscope, write):
    stethoscope("run", write("train.py", BROKEN))
    assert "double-activation" not in stethoscope("check", "--ignore", "S004").stdout
    only = json.loads(stethoscope("check", "--select", "L", "--format", "json").stdout)
    assert {code[0] for code in only["runs"][0]["ran"]} == {"L"}


def test_the_scripts_own_numbers_are_untouched(stethoscope, bare, write):
    path = write("train.py", BROKEN)
    assert stethoscope("run", path).stdout == bare(path).stdout != ""


def test_exit_code_of_check_follows_fail_on(folder, capsys):
    assert cli.main(["check", "--fail-on", "never", "absent.sqlite"]) == 2
    assert "absent.sqlite is not a file" in capsys.readouterr().err
