"""`stethoscope translate`: the program it writes trains to the numbers of the script."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stethoscope import cli

EXAMPLES = Path(__file__).parents[1] / "examples"
HEAD = """
import sys
import keras, numpy as np
from keras import layers
keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(100, 4))
y = x[:, :1] * 2 + x[:, 1:2] ** 2
"""
GRAPH = (
    HEAD
    + """
a = keras.Input((4,), name="left")
b = keras.Input((4,), name="right")
shared = layers.Dense(8, "relu", kernel_regularizer="l2")
both = layers.Concatenate()([shared(a), shared(b), layers.BatchNormalization()(a)])
model = keras.Model([a, b], [layers.Dense(1, name="first")(both), layers.Dense(1)(both)])
schedule = keras.optimizers.schedules.ExponentialDecay(0.01, 10, 0.9)
model.compile(keras.optimizers.Adam(schedule), ["mse", "mae"], loss_weights=[1.0, 0.5])
model.fit([x, x[::-1]], [y, -y], epochs=4, batch_size=16, verbose=0)
"""
)
TWICE = (
    HEAD
    + """
print("the script prints")
model = keras.Sequential([keras.Input((4,)), layers.Dense(4, "tanh"), layers.Dense(1)])
model.compile(keras.optimizers.SGD(float(sys.argv[1]) if len(sys.argv) > 1 else 0.05, 0.9), "mse")
model.fit(x, y, epochs=2, verbose=0)
model.fit(
    x, y, epochs=3, batch_size=32, validation_split=0.2, class_weight=None, steps_per_epoch=2,
    sample_weight=np.linspace(0, 1, 100), verbose=0,
)
print("never printed")
"""
)
SMALL = (
    HEAD
    + """
model = keras.Sequential([keras.Input((4,)), layers.Dense(4, "tanh"), layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
"""
)
LOSSES = """
import json, os, runpy, sys
import keras
found, fit = [], keras.Model.fit
def noted(self, *args, **kwargs):
    found.append(fit(self, *args, **kwargs).history)
    return keras.callbacks.History()
keras.Model.fit = noted
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
json.dump(found, open("losses.json", "w"))
"""
AGAIN = """
import json, runpy
json.dump(runpy.run_path("imperative.py")["history"].history, open("again.json", "w"))
"""


def python(*words, cwd):
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "KERAS_BACKEND": "jax",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def translate(*words, cwd):
    return python("-m", "stethoscope", "translate", *words, cwd=cwd)


@pytest.fixture
def script(tmp_path):
    def write(text):
        (tmp_path / "train.py").write_text(text)
        return "train.py"

    return write


def trained(path, cwd, number=1, arguments=()):
    """The histories of a fit of the script, and of the program written from it."""
    words = ["--fit", str(number)] + (["--", *arguments] if arguments else [])
    written = translate(str(path), "-o", "imperative.py", *words, cwd=cwd)
    assert written.returncode == 0, written.stderr
    (cwd / "losses.py").write_text(LOSSES)
    assert python("losses.py", str(path), *arguments, cwd=cwd).returncode == 0
    again = python("-c", AGAIN, cwd=cwd)
    assert again.returncode == 0, again.stderr
    expected = json.loads((cwd / "losses.json").read_text())[number - 1]
    return expected, json.loads((cwd / "again.json").read_text()), written


@pytest.mark.parametrize("name", ["mnist_without_activations/fixed.py", "raw_ip_packets/faulty.py"])
def test_an_example_trains_to_the_same_numbers(name, tmp_path):
    expected, found, _ = trained(EXAMPLES / name, tmp_path)
    assert found.keys() == expected.keys()
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-3)


def test_a_graph_trains_to_the_same_numbers(script, tmp_path):
    expected, found, _ = trained(script(GRAPH), tmp_path)
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-3)
    source = (tmp_path / "imperative.py").read_text()
    assert 'left = Input((4,), name="left")\n' in source
    assert "schedules.ExponentialDecay(0.01, 10, 0.9)" in source


def test_a_later_fit_goes_on_where_the_earlier_one_ended(script, tmp_path):
    expected, found, written = trained(script(TWICE), tmp_path, 2, ["0.02"])
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-3)
    np.testing.assert_allclose(found["val_loss"], expected["val_loss"], rtol=1e-3)
    assert written.stdout == "the script prints\n"
    last = written.stderr.splitlines()[-1]
    assert last.startswith("stethoscope: wrote imperative.py and imperative.npz; the script was")
    assert "ended at line 14 of train.py" in last
    source = (tmp_path / "imperative.py").read_text()
    assert "learning_rate=0.02, momentum=0.9" in source
    assert "optimizer.restore(8, state)" in source
    assert "line 14 of train.py" in source
    assert 'model.add(Dense(4, name="dense"))  # train.py:11' in source
    imported = [
        line.split()[1] for line in source.splitlines() if line.startswith(("import", "fro"))
    ]
    assert imported == ["pathlib", "numpy", "stethoscope", "stethoscope.engine"]


ERRORS = {
    "layer": (
        SMALL.replace('layers.Dense(4, "tanh")', 'layers.UnitNormalization(name="u")')
        + "model.fit(x, y)",
        r"layer 'u' (UnitNormalization, train.py:10) cannot be translated: the engine has no such",
    ),
    "callbacks": (
        SMALL + "model.fit(x, y, callbacks=[keras.callbacks.TerminateOnNaN()])",
        "train.py:12: fit cannot be run in the engine: it is given callbacks (TerminateOnNaN).",
    ),
    "no-fit": (SMALL, "train.py calls no fit of a Keras model"),
    "failed": (SMALL + "1 / 0", "nothing was written: train.py failed before the fit."),
    "torch": (
        "import torch\np = torch.zeros(1, requires_grad=True)\no = torch.optim.SGD([p])\n"
        "p.sum().backward()\no.step()",
        "train.py:5: a PyTorch loop cannot be read as a program; call",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_translated(name, script, tmp_path):
    text, message = ERRORS[name]
    found = translate(script(text), cwd=tmp_path)
    assert message in found.stderr.splitlines()[-1]
    assert found.returncode == (1 if name == "failed" else 2)
    assert ("Traceback" in found.stderr) == (name == "failed")
    assert not (tmp_path / "imperative.py").exists()


def test_a_fit_beyond_the_last_one(script, tmp_path):
    found = translate(script(TWICE), "--fit", "3", cwd=tmp_path)
    assert found.returncode == 2
    assert found.stderr.endswith("train.py calls fit 2 times; --fit 3 is beyond that.\n")
    assert found.stdout.endswith("never printed\n")


@pytest.mark.parametrize("there", ["imperative.py", "imperative.npz"])
def test_nothing_is_overwritten(there, script, tmp_path, capsys, monkeypatch):
    script("raise AssertionError('it ran')")
    (tmp_path / there).write_text("mine")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["translate", "train.py"]) == 2
    assert f"{there} is there already: overwrite it with --force" in capsys.readouterr().err
    assert (tmp_path / there).read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train.py", "-o", "train.py", "--force"], "train.py is the script itself"),
        (["train.py", "--fit", "0"], "--fit counts from 1; got 0."),
        (["train.py", "-o", "folder"], "expected a name that ends in .py"),
        (["train.py", "-o", "no/such.py"], "cannot write no/such.py"),
        (["none.py"], "cannot open none.py"),
    ],
    ids=["itself", "fit-0", "no-suffix", "no-folder", "no-script"],
)
def test_wrong_usage(words, message, script, tmp_path, capsys, monkeypatch):
    script("raise AssertionError('it ran')")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["translate", *words]) == 2
    assert message in capsys.readouterr().err
