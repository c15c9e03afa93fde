"""`stethoscope run x.py` is `python x.py`: what a script can see of itself, and how it ends."""

import signal
import subprocess
import sys
import time

import pytest

SEEN = """
import json, os, sys
here = sys.modules["__main__"]
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "cwd": os.getcwd(), "name": __name__,
    "file": __file__, "spec": None if __spec__ is None else __spec__.name,
    "package": __package__, "doc": __doc__, "cached": __cached__,
    "loader": type(__loader__).__name__, "annotations": __annotations__,
    "same": here.__dict__ is globals(), "builtins": type(__builtins__).__name__,
    "names": sorted(globals()), "meta_path": len(sys.meta_path) - ("stethoscope" in sys.modules),
}))
"""

ENDINGS = {
    "falls off the end": "print('out')",
    "exit 0": "import sys; sys.exit(0)",
    "exit 7": "import sys; sys.exit(7)",
    "exit with text": "import sys; sys.exit('no data')",
    "exit None": "raise SystemExit",
    "raises": "def f():\n    return 1 / 0\nf()",
    "raises from": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError from e",
    "syntax error": "x = (1,\ny = 2",
    "null byte": "x = 1\0",
    "own excepthook": "import sys\nsys.excepthook = lambda *a: print('mine', a[0])\n1 / 0",
    "broken excepthook": "import sys\nsys.excepthook = None\n1 / 0",
    "import error": "import surely_not_there",
    "warns": "import warnings\nwarnings.warn('careful')",
    "atexit": "import atexit\natexit.register(print, 'bye')\nprint('out')",
    "closed stdout": "import sys\nsys.stdout.close()",
    "os._exit": "import os\nos._exit(5)",
}

# Python's words differ between reading a file and compiling a text, and for a broken hook.
OWN_WORDS = {"null byte": "null bytes", "broken excepthook": "ZeroDivisionError"}


@pytest.mark.parametrize("arguments", [(), ("a", "--verbose", "-m", "--", "-x")])
def test_sees_of_itself_what_python_shows(stethoscope, bare, write, arguments):
    path = write("sub/script.py", SEEN)
    assert stethoscope("run", path, *arguments).stdout == bare(path, *arguments).stdout


@pytest.mark.parametrize("name", ["script", "pack", "pack.inner"])
def test_module_sees_of_itself_what_python_shows(stethoscope, bare, write, name):
    for path in ("script.py", "pack/__init__.py", "pack/__main__.py", "pack/inner.py"):
        write(path, SEEN if "__init__" not in path else "")
    watched = stethoscope("run", "-m", name, "a", "--quiet")
    assert watched.stdout == bare("-m", name, "a", "--quiet").stdout != ""


@pytest.mark.parametrize("ending", ENDINGS)
def test_ends_as_python_ends_it(stethoscope, bare, write, ending):
    path = write("script.py", ENDINGS[ending])
    watched, expected = stethoscope("run", path), bare(path)
    assert watched.returncode == expected.returncode
    assert watched.stdout == expected.stdout
    lines = watched.stderr.splitlines(keepends=True)
    theirs = "".join(line for line in lines if not line.startswith("stethoscope: "))
    if ending in OWN_WORDS:
        assert OWN_WORDS[ending] in theirs
    else:
        assert theirs == expected.stderr


def test_our_own_frames_are_not_in_a_traceback_through_our_import_hook(stethoscope, bare, write):
    write("torch.py", "import torch_missing_part")
    path = write("script.py", "import torch")
    watched = stethoscope("run", path)
    assert watched.returncode == 1
    assert "stethoscope/" not in watched.stderr
    assert "torch_missing_part" in watched.stderr


@pytest.mark.parametrize("how", ["run", "module"])
def test_interrupt_ends_by_the_signal_after_the_report(folder, write, how):
    path = write("script.py", "import time\nprint('on', flush=True)\ntime.sleep(60)")
    command = [sys.executable, "-m", "stethoscope", "run"]
    command += [str(path)] if how == "run" else ["-m", "script"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "on\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT  # a shell shows 130
    assert "never trained" in errors
    assert errors.count("KeyboardInterrupt") == 1
    assert "stethoscope/" not in errors


def test_classes_of_main_pickle_and_spawned_children_find_them(stethoscope, write):
    path = write(
        "script.py",
        """
import multiprocessing, pickle, sys

class Thing:
    def __init__(self, value):
        self.value = value

def double(thing):
    assert "stethoscope" not in sys.modules, "a child is watched"
    return Thing(2 * thing.value)

if __name__ == "__main__":
    assert pickle.loads(pickle.dumps(Thing(1))).value == 1
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(double, [Thing(21)])[0].value)
""",
    )
    watched = stethoscope("run", path)
    assert (watched.returncode, watched.stdout) == (0, "42\n"), watched.stderr


def test_forked_child_that_comes_back_does_not_report(stethoscope, write):
    path = write("script.py", "import os\nif os.fork():\n    os.wait()")
    assert stethoscope("run", path).stderr.count("never trained") == 1


def test_disabled_is_nothing_at_all(stethoscope, write):
    path = write("script.py", "print('out')")
    watched = stethoscope("run", path, env={"STETHOSCOPE_DISABLE": "1"})
    assert (watched.returncode, watched.stdout, watched.stderr) == (0, "out\n", "")


def test_package_that_fails_as_it_is_imported_is_the_scripts_failure(stethoscope, write):
    write("pack/__init__.py", "1 / 0")
    write("pack/inner.py", "print('not reached')")
    watched = stethoscope("run", "-m", "pack.inner")
    assert (watched.returncode, watched.stdout) == (1, "")
    assert "ZeroDivisionError" in watched.stderr
    assert "stethoscope/" not in watched.stderr
