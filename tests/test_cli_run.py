"""What `run` says and returns around a training, with a framework of thirty lines."""

import json
import sqlite3
from pathlib import Path

import pytest

from stethoscope.trace import read

DRIVER = Path(__file__).parent / "fake_adapter.py"
TRAIN = "import fakeframe\nfakeframe.train(5)\nprint('out')\n"


@pytest.fixture
def fake(stethoscope):
    def run(*arguments, **environment):
        return stethoscope(*arguments, driver=DRIVER, env=environment)

    return run


def test_report_goes_to_stderr_and_the_scripts_output_is_untouched(fake, write):
    watched = fake("run", write("train.py", TRAIN))
    assert watched.stdout == "out\nuninstalled\n"
    assert watched.stderr.startswith(
        "HEALTHY  CM (correct model)   train.py   fakeframe 1.0, 5 steps"
    )
    assert watched.returncode == 0


@pytest.mark.parametrize(
    ("severity", "verdict", "fail_on", "code"),
    [
        ("error", "faulty", None, 1),
        ("warning", "faulty", None, 0),
        ("warning", "faulty", "warning", 1),
        ("note", "healthy", "note", 1),
        ("error", "faulty", "never", 0),
        ("", "undetermined", None, 0),
        ("", "undetermined", "undetermined", 1),
        ("", "healthy", "undetermined", 0),
    ],
)
def test_exit_code(fake, write, severity, verdict, fail_on, code):
    options = ["--fail-on", fail_on] if fail_on else []
    watched = fake(
        "run", *options, write("train.py", TRAIN), FAKE_SEVERITY=severity, FAKE_VERDICT=verdict
    )
    assert watched.returncode == code, watched.stderr
    assert verdict.upper() in watched.stderr


@pytest.mark.parametrize(("ending", "code"), [("1 / 0", 1), ("import sys; sys.exit(7)", 7)])
def test_the_scripts_own_failure_wins_and_the_report_is_still_given(fake, write, ending, code):
    watched = fake("run", write("train.py", TRAIN + ending), FAKE_SEVERITY="error")
    assert watched.returncode == code
    assert "5 steps seen" in watched.stderr
    assert "uninstalled" in watched.stdout


def test_error_is_told_in_one_line_while_the_script_runs(fake, write):
    late = "import sys, fakeframe\nfakeframe.train(64)\nprint('after', file=sys.stderr)\n"
    watched = fake("run", write("train.py", late), FAKE_SEVERITY="error", FAKE_VERDICT="faulty")
    lines = watched.stderr.splitlines()
    told = [line for line in lines if line.startswith("stethoscope: error: ")]
    assert len(told) == 1
    assert lines.index(told[0]) < lines.index("after")


def test_raise_ends_the_training_at_the_users_line(fake, write):
    path = write("train.py", "import fakeframe\nfakeframe.train(200)\nprint('not reached')\n")
    watched = fake("run", "--on-error", "raise", path, FAKE_SEVERITY="error", FAKE_VERDICT="faulty")
    assert watched.returncode == 1
    assert "not reached" not in watched.stdout
    assert "FaultyTrainingError" in watched.stderr
    assert "fakeframe.train(200)" in watched.stderr


def test_every_training_of_a_script_is_a_run(fake, write):
    path = write("train.py", "import fakeframe\nfakeframe.train(5)\nfakeframe.train(7)\n")
    watched = fake("run", "--format", "json", "--output-file", "r.json", path)
    assert [run["steps"] for run in json.loads(Path("r.json").read_text())["runs"]] == [5, 7]
    assert "run 2, 7 steps seen" in watched.stderr


def test_json_goes_to_stderr_without_a_file(fake, write):
    watched = fake("run", "--format", "json", write("train.py", TRAIN))
    (run,) = json.loads(watched.stderr)["runs"]
    assert run["verdict"] == "healthy"
    assert run["script"] == "train.py"


def test_text_file_is_plain(fake, write):
    watched = fake("run", "--output-file", "r.txt", write("train.py", TRAIN), FORCE_COLOR="1")
    assert "\x1b[" in watched.stderr
    assert "\x1b[" not in Path("r.txt").read_text()
    assert "HEALTHY" in Path("r.txt").read_text()


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_colour(fake, write, environment, coloured):
    assert ("\x1b[" in fake("run", write("train.py", TRAIN), **environment).stderr) is coloured


def test_quiet_says_errors_only(fake, write):
    path = write("train.py", TRAIN)
    assert fake("run", "--quiet", path).stderr == ""
    told = fake("run", "--quiet", path, FAKE_SEVERITY="error").stderr
    assert told == "stethoscope: error: learning-rate-too-high (step 3): Too high.\n"


def test_other_ranks_keep_a_trace_and_say_nothing(fake, write):
    watched = fake("run", write("train.py", TRAIN), RANK="1", FAKE_SEVERITY="error")
    assert (watched.returncode, watched.stderr) == (1, "")
    assert Path(".stethoscope/train-1.rank1.sqlite").exists()


def test_adapter_that_fails_never_costs_the_training(fake, write):
    watched = fake("run", write("train.py", TRAIN), FAKE_BROKEN="1")
    assert (watched.returncode, watched.stdout) == (2, "out\n")
    assert "fakeframe is not watched: ZeroDivisionError" in watched.stderr
    assert "was not watched: nothing is said of its training" in watched.stderr


def test_framework_is_as_it_was_and_shows_no_sign(fake, write):
    body = """
import fakeframe, sys
print(type(fakeframe.__loader__).__name__, fakeframe.__spec__.loader is fakeframe.__loader__)
print(vars(fakeframe.__loader__).keys() - {"name", "path"})
"""
    watched = fake("run", write("train.py", body))
    assert watched.stdout.splitlines()[:2] == ["SourceFileLoader True", "set()"]


def test_trace_lies_where_it_is_asked_for_and_the_folder_ignores_itself(fake, write):
    watched = fake("run", "--trace-dir", "deep/traces", write("train.py", TRAIN))
    assert watched.returncode == 0
    trace = read("deep/traces/train-1.sqlite")
    assert len(list(trace.rows())) == 5
    assert trace.meta["script"] == "train.py"
    assert Path("deep/traces/.gitignore").read_text() == "*\n"


def test_trace_folder_that_cannot_be_written_falls_back_and_says_so(fake, write):
    write("file", "")
    watched = fake("run", "--trace-dir", "file/traces", write("train.py", TRAIN))
    assert watched.returncode == 0
    assert "trying elsewhere" in watched.stderr
    assert "5 steps seen" in watched.stderr


def test_full_disk_never_costs_the_training(fake, write):
    body = (
        """
import fakeframe, sqlite3
from stethoscope.trace import TraceWriter
def full(self, row):
    self._run(lambda: (_ for _ in ()).throw(sqlite3.OperationalError("database or disk is full")))
TraceWriter.row = full
"""
        + TRAIN
    )
    watched = fake("run", write("train.py", body))
    assert (watched.returncode, watched.stdout) == (0, "out\nuninstalled\n")
    assert "disk is full" in watched.stderr
    assert "5 steps seen" in watched.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "needs a script"),
        (["run", "-m"], "needs a script"),
        (["run", "absent.py"], "cannot open absent.py"),
        (["run", "."], "is a directory"),
        (["run", "-m", "absent_module"], "no module absent_module"),
        (["run", "-m", "a.b.c"], "no module a.b.c"),
        (["run", "--bogus", "train.py"], "unrecognized arguments: --bogus"),
        (["run", "--select", "Q999", "train.py"], "no rule's code, prefix or name"),
        (["run", "--ignore", "Q999", "train.py"], "no rule's code, prefix or name"),
        (["run", "--fail-on", "sometimes", "train.py"], "fail_on must be one of"),
        (["run", "--on-error", "shout", "train.py"], "on_error must be one of"),
        (["run", "--probe-every", "0", "train.py"], "must be 1 or more"),
        (["run", "--probe-every", "often", "train.py"], "must be a whole number"),
        (["run", "--output-file", "no/such/folder/f", "train.py"], "cannot write"),
        (["check"], "there is no trace"),
        (["check", "absent.sqlite"], "not a file"),
        (["check", "train.py"], "not a Stethoscope trace"),
        (["check", "other.sqlite"], "not a Stethoscope trace"),
        (["explain", "Q999"], "no rule's code or name"),
        (["frobnicate"], "invalid choice"),
        ([], "required: command"),
    ],
)
def test_bad_input_is_one_clear_sentence_and_exit_2(stethoscope, write, arguments, words, tmp_path):
    write("train.py", "print('the script ran')")
    with sqlite3.connect("other.sqlite") as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    found = stethoscope(*arguments, env={"TMPDIR": str(tmp_path)})
    assert found.returncode == 2, found.stderr
    assert words in found.stderr
    assert "Traceback" not in found.stderr
    assert "the script ran" not in found.stdout


def test_broken_settings_are_one_clear_sentence(stethoscope, write):
    write("pyproject.toml", "[tool.stethoscope]\nfail-on = 'sometimes'\n")
    found = stethoscope("run", write("train.py", "print('ran')"))
    assert (found.returncode, found.stdout) == (2, "")
    assert "fail_on must be one of" in found.stderr


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("x = (", "it is broken, so nothing ran"),
        ("print('out')", "it imported neither torch nor keras"),
        ("import torch\n1 / 0", "it ended before an optimizer step was seen"),
        ("import torch\ntorch.ones(1)", "no optimizer step was seen"),
    ],
)
def test_a_script_that_never_trains_is_told_so(stethoscope, write, body, words):
    watched = stethoscope("run", write("train.py", body))
    assert watched.stderr.splitlines()[-1] == f"stethoscope: train.py never trained: {words}."
