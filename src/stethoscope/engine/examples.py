"""The minimal programs of rules and faults: an `Example` as a program of the engine, and its run.

The text is the one spelling of an example: it is what `run` executes and what the docs show.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from stethoscope.config import Config
from stethoscope.engine.losses._base import Array, Loss, MeanLoss, Pull, unbroadcast
from stethoscope.engine.watch import install
from stethoscope.example import Example
from stethoscope.monitor import Session
from stethoscope.schedule import PROBE_EVERY
from stethoscope.types import Report

ROWS, FEATURES = 512, 8  # of the data; enough for a baseline, 16 steps of 32 rows an epoch
CLASSES = {"classes": 3, "binary": 2}
LOSSES = {
    "mse": "MeanSquaredError",
    "binary_crossentropy": "BinaryCrossentropy",
    "categorical_crossentropy": "CategoricalCrossentropy",
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy",
}
BY_HAND = {"broadcast_squares": "BroadcastSquares", "root_of_squares": "RootOfSquares"}
MODULES = {  # of what a program imports, in the order of the import lines
    "stethoscope.engine": "Activation BatchNormalization Dense Dropout Reshape Sequential SimpleRNN"
    " Softmax",
    "stethoscope.engine.examples": " ".join(BY_HAND.values()),
    "stethoscope.engine.initializers": "Constant Orthogonal VarianceScaling",
    "stethoscope.engine.losses": " ".join(LOSSES.values()),
    "stethoscope.engine.optimizers": "Adam SGD",
}


def run(
    example: Example, names: Sequence[str] = (), *, file: str = "example.py", **settings: Any
) -> Report:
    """Trains the example and returns the report on it.

    Probed steps have a fixed distance, and settings of the environment and of pyproject.toml do not
    count: the answer is the same on every machine. Nothing is printed.

    Args:
        example: What to train.
        names: What the layers are called, in their order; default: by their class.
        file: What the program is called in source lines; nothing is written there.
        settings: Fields of `stethoscope.config.Config`.

    >>> run(Example(steps=40)).verdict
    <Verdict.HEALTHY: 'healthy'>
    """
    text = program(example, names)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    session = Session(Config(**{"probe_every": PROBE_EVERY, **settings}), lines=False)
    undo = install(session)
    try:
        exec(compile(text, file, "exec", dont_inherit=True), {"__name__": "__main__"})
    finally:
        undo()
        session.close()
        del linecache.cache[file]
    (report,) = session.reports
    return report


def program(example: Example, names: Sequence[str] = ()) -> str:
    """The example as a program that people could have written.

    Args:
        example: What to train.
        names: What the layers are called, in their order; default: by their class.

    >>> print(program(Example(hidden=(4,), learning_rate=0.3)))
    import numpy as np
    <BLANKLINE>
    from stethoscope.engine import Dense, Sequential
    from stethoscope.engine.losses import SparseCategoricalCrossentropy
    from stethoscope.engine.optimizers import SGD
    <BLANKLINE>
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 512)
    x = rng.normal(size=(512, 8)) + 1.5 * rng.normal(size=(3, 8))[y]
    <BLANKLINE>
    model = Sequential([
        Dense(4, "relu"),
        Dense(3),
    ])
    model.compile(SGD(0.3), SparseCategoricalCrossentropy(from_logits=True), ["accuracy"])
    model.fit(x, y, epochs=8)
    <BLANKLINE>
    """
    layers = _layers(example)
    for index, name in enumerate(names[: len(layers)]):
        layers[index] = f"{layers[index].removesuffix(')')}, name={name!r})"
    kind = "Adam" if example.optimizer == "adam" else "SGD"
    metric = "mae" if example.data == "real" else "accuracy"
    fit = {"batch_size": example.batch, "epochs": -(-example.steps * example.batch // ROWS)}
    if example.batch == 32:
        del fit["batch_size"]
    settings: dict[str, Any] = {"seed": example.seed} if example.seed else {}
    if example.dtype != "float32":
        settings["dtype"] = example.dtype
    body = [
        *_data(example),
        "",
        "model = Sequential([",
        *(f"    {layer}," for layer in layers),
        f"]{''.join(f', {name}={value!r}' for name, value in settings.items())})",
        f'model.compile({kind}({example.learning_rate:g}), {_loss(example)}, ["{metric}"])',
        f"model.fit({_call('x', 'y', **fit)})",
    ]
    used = "\n".join(body)
    imports = []
    for module, known in MODULES.items():
        wanted = [name for name in known.split() if re.search(rf"\b{name}\(", used)]
        if wanted:
            imports.append(f"from {module} import {', '.join(wanted)}")
    return "\n".join(["import numpy as np", "", *imports, "", *body, ""])


def _data(example: Example) -> list[str]:
    lines = [f"rng = np.random.default_rng({example.seed})"]
    x, y = f"x = rng.normal(size=({ROWS}, {FEATURES}))", ""
    if example.data == "real":
        lines += [x, "y = np.sin(x[:, :1]) + 0.5 * x[:, 1:2] * x[:, 2:3]"]
        y = "(y - y.mean()) / y.std()"
    elif example.data == "parity":
        lines += [x, "y = (x[:, :1] * x[:, 1:2] * x[:, 2:3] > 0).astype(float)"]
    elif example.data == "labels":
        lines += [x, "y = (x[:, :3] > 0).astype(float)"]
    else:
        count = CLASSES[example.data]
        lines.append(f"y = rng.integers(0, {count}, {ROWS})")
        lines.append(f"{x} + 1.5 * rng.normal(size=({count}, {FEATURES}))[y]")
        if example.one_hot:
            y = f"np.eye({count})[y]"
        elif example.loss != "sparse_categorical_crossentropy":
            y = "y[:, None]"
    lines += _scaled("x", "x", example.input_scale, example.input_offset)
    lines += _scaled("y", y or "y", example.target_scale, example.target_offset)
    if example.positions:
        lines.append(f"x = np.repeat(x[:, None], {example.positions}, axis=1)")
    if example.nan_input_at is not None:
        lines.append(f"x[{example.nan_input_at}, 0] = np.nan")
    if example.inf_target_at is not None:
        lines.append(f"y[{example.inf_target_at}] = np.inf")
    if example.dtype != "float32":
        lines.append(f"x = x.astype({example.dtype!r})")
    return lines


def _scaled(name: str, value: str, scale: float, offset: float) -> list[str]:
    """The line that gives `name` its final value; none where it has it."""
    if scale != 1:
        value = f"{scale:g} * {value}"
    if offset:
        value += f" {'+' if offset > 0 else '-'} {abs(offset):g}"
    return [] if value == name else [f"{name} = {value}"]


def _layers(example: Example) -> list[str]:
    """The calls that construct the layers."""
    layers = []
    activation = None if example.activation == "linear" else example.activation
    start: dict[str, str] = {}
    if example.weight_scale == 0:
        start["kernel_initializer"] = "Constant(0.1)"
    elif example.weight_scale != 1:  # Glorot's limits, multiplied
        variance = f"{example.weight_scale**2:g}"
        start["kernel_initializer"] = f'VarianceScaling({variance}, "fan_avg", "uniform")'
    if example.bias:
        start["bias_initializer"] = f"Constant({example.bias:g})"
    for index, units in enumerate(example.hidden):
        if example.positions and index == 0:
            gain = {"recurrent_initializer": f"Orthogonal({example.recurrent_gain:g})"}
            layers.append(f"SimpleRNN({_call(units, _quoted(activation), **gain)})")
        elif example.batch_norm:
            layers += [f"Dense({_call(units, **start)})", "BatchNormalization()"]
            layers += [] if activation is None else [f"Activation({_quoted(activation)})"]
        else:
            applied = () if activation is None else (_quoted(activation),)
            layers.append(f"Dense({_call(units, *applied, **start)})")
        if example.dropout:
            layers.append(f"Dropout({example.dropout:g})")
    if example.output_activation == "linear" or example.softmax_axis != -1:
        layers.append(f"Dense({example.outputs})")
    else:
        layers.append(f"Dense({example.outputs}, {_quoted(example.output_activation)})")
    if example.softmax_axis != -1:
        layers.append(f"Softmax(axis={example.softmax_axis})")
    if example.flat_prediction:
        layers.append("Reshape(())")
    return layers


def _loss(example: Example) -> str:
    if example.loss in BY_HAND:
        return f"{BY_HAND[example.loss]}({f'{example.epsilon:g}' if example.epsilon else ''})"
    logits = "from_logits=True" if example.from_logits and example.loss != "mse" else ""
    return f"{LOSSES[example.loss]}({logits})"


def _quoted(activation: str | None) -> str:
    return "None" if activation is None else f'"{activation}"'


def _call(*arguments: object, **settings: object) -> str:
    return ", ".join([*map(str, arguments), *(f"{k}={v}" for k, v in settings.items())])


class BroadcastSquares(Loss):
    """mean((prediction - target)^2) as NumPy and PyTorch broadcast it, without Keras's care.

    >>> BroadcastSquares()(np.array([[0.0], [1.0]]), np.array([0.0, 1.0]))[0]
    0.5
    """

    name = "mse"
    aligns = False

    def __call__(
        self, target: Array, prediction: Array, weight: Array | None = None
    ) -> tuple[float, Array]:
        """See `Loss.__call__`; (N,) against (N, 1) gives N x N differences."""
        difference = prediction - np.asarray(target, prediction.dtype)
        gradient = 2 * difference / difference.size
        return float(np.square(difference).mean()), unbroadcast(gradient, prediction.shape)

    def compute(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        raise NotImplementedError("it is no mean over the values of a sample.")


class RootOfSquares(MeanLoss):
    """mean(sqrt((prediction - target)^2 + epsilon)), as it is often written by hand.

    Without epsilon the derivative of the root is infinite where a target is met.

    >>> RootOfSquares(1e-6)(np.array([[0.0]]), np.array([[0.0]]))
    (0.001, array([[0.]]))
    """

    name = "root_of_squares"

    def __init__(self, epsilon: float = 0.0) -> None:
        super().__init__()
        self.epsilon = epsilon

    def elements(self, target: Array, prediction: Array) -> tuple[Array, Pull]:
        error = prediction - target
        root: Array = np.sqrt(error * error + self.epsilon)
        return root, lambda cotangent: error * (0.5 / root) * 2 * cotangent
