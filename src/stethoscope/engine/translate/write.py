"""From an engine model and what it is trained on to a program that a person can read and change.

The program is text and arrays: first weights, the optimizer's state, the data and the order of the
samples lie beside it in one file, which it calls `stored`.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stethoscope import engine
from stethoscope.engine.layers import dropout
from stethoscope.engine.layers._base import Array, Layer
from stethoscope.engine.training import Trainable
from stethoscope.engine.translate.expressions import (
    WIDTH,
    Call,
    Expression,
    Parts,
    call,
    of,
    statement,
    text,
)
from stethoscope.engine.translate.graph import Graph
from stethoscope.types import SourceRef

MODULES = (
    *("activations", "initializers", "losses", "metrics"),
    *("optimizers", "regularizers", "schedules"),
)
OFFERED = {*engine.__all__, *MODULES}
"""What a program imports from the engine."""


@dataclasses.dataclass(frozen=True)
class Training:
    """One `fit`.

    Attributes:
        inputs, targets: All samples, one array for each input and output.
        epochs: How often it goes through them.
        batch_size: None where whoever gives the data makes the batches.
        order: See `Trainable.fit`; None: as they come.
        weight: One factor for each sample, or None.
        held_out: Inputs and targets that are evaluated after each epoch, or None.
        held_out_weight: One factor for each sample of these, or None.
        drawn_anew: The order is not that of the script, which could not be known.
    """

    inputs: Sequence[Array]
    targets: Sequence[Array]
    epochs: int
    batch_size: int | None = None
    order: Array | None = None
    weight: Array | None = None
    held_out: tuple[Sequence[Array], Sequence[Array]] | None = None
    held_out_weight: Array | None = None
    drawn_anew: bool = False


@dataclasses.dataclass(frozen=True)
class Program:
    """A program as text, and the arrays that it calls `stored`."""

    source: str
    arrays: dict[str, Array]

    def save(self, path: Path) -> Path:
        """Writes both; returns the path of the arrays, which is that of the text with `.npz`."""
        beside = path.with_suffix(".npz")
        np.savez_compressed(beside, **self.arrays)  # type: ignore[arg-type]
        path.write_text(self.source, encoding="utf-8")
        return beside


def program(
    model: Trainable, training: Training, *, path: str, origin: SourceRef | None
) -> Program:
    """The program that trains a model.

    Args:
        model: Compiled, with its weights as they are before the training.
        training: What it is trained on.
        path: How the user calls the file that the program will be in.
        origin: The `fit` that it repeats.

    Raises:
        TranslationError: A part of the model is of the user's own.
    """
    parts, arrays = definition(model)
    data = _data(training, arrays)
    lines = [_header(model, training, path, origin), "", *_imports(parts), ""]
    lines += ['stored = np.load(Path(__file__).with_suffix(".npz"))', ""]
    lines += [parts.text(), "", *data, *_look(model), *_fit(training)]
    return Program("\n".join(lines) + "\n", arrays)


def definition(model: Trainable) -> tuple[Parts, dict[str, Array]]:
    """The statements that make a compiled model called `model`, and the arrays they need.

    Raises:
        TranslationError: A part of the model is of the user's own.
    """
    network, parts = model.network, Parts()
    parts.say("# The model: every layer and every activation is a step of its own.")
    Graph(network, parts).write()
    frozen = [layer.name for layer in network.layers if not layer.trainable]
    if frozen:
        parts.set("frozen = ", Call("[", tuple(("", text(name)) for name in frozen)))
        parts.say("for layer in model.network.layers:")
        parts.say("    layer.trainable = layer.name not in frozen")
    arrays = {f"weights/{name}": np.asarray(value) for name, value in network.weights.items()}
    if arrays:
        parts.say("", "# Its first weights.", "weights = model.network.weights")
        parts.say("for name in weights:", '    weights[name] = stored[f"weights/{name}"]')
    if model.optimizer is not None:
        _compile(model, parts)
        arrays |= _optimizer_state(model, parts)
    return parts, arrays


def _compile(model: Trainable, parts: Parts) -> None:
    parts.say("", "# What is minimized, and how.")
    given = [of(loss) for loss in model.losses]
    loss = given[0] if len(given) == 1 else Call("[", tuple(("", one) for one in given))
    parts.set("loss = ", loss)
    parts.set("optimizer = ", of(model.optimizer))
    more: dict[str, Expression] = {}
    if model.metrics:
        more["metrics"] = of(list(model.metrics.values()))
    if any(weight != 1 for weight in model.loss_weights):
        more["loss_weights"] = of(list(model.loss_weights))
    parts.set("", call("model.compile", "optimizer", "loss", **more))


def _optimizer_state(model: Trainable, parts: Parts) -> dict[str, Array]:
    """Goes on where the optimizer stands: what is excluded from decay, and its state."""
    optimizer = model.optimizer
    assert optimizer is not None
    excluded = optimizer.excluded_from_weight_decay
    if any(excluded):
        listed = {
            key: of(list(value))
            for key, value in zip(("var_list", "var_names"), excluded, strict=True)
            if value
        }
        parts.set("", call("optimizer.exclude_from_weight_decay", **listed))
    if not optimizer.step:
        return {}
    parts.say("", f"# What the optimizer has kept of the {optimizer.step} steps before.")
    parts.say("state = {}", "for key in stored.files:", '    if key.startswith("state/"):')
    parts.say('        name, slot = key.removeprefix("state/").rsplit("/", 1)')
    parts.say("        state.setdefault(name, {})[slot] = stored[key]")
    parts.say(f"optimizer.restore({optimizer.step}, state)")
    return {
        f"state/{name}/{slot}": np.array(value)
        for name, slots in optimizer.state.items()
        for slot, value in slots.items()
    }


def _header(model: Trainable, training: Training, path: str, origin: SourceRef | None) -> str:
    place = f"line {origin.line} of {origin.file}" if origin else "a script"
    stored = Path(path).with_suffix(".npz").name
    paragraphs = [
        f"It makes the same steps on the same batches as {place}, from the same weights, which "
        f"lie in {stored} with the data."
    ]
    if any(_random(layer) for layer in model.network.layers):
        paragraphs.append(
            "What is random within a step (dropout, noise) is drawn anew, so the numbers differ "
            "from those of the script as those of two of its runs do."
        )
    if training.drawn_anew:
        paragraphs[0] = paragraphs[0].replace("the same batches", "batches of the same size")
        paragraphs.append(
            "TensorFlow's order of the samples cannot be drawn again: the numbers differ from "
            "those of the script as those of two of its runs do."
        )
    paragraphs.append(
        "`look` below is shown every value of every step. Written by `stethoscope translate`; "
        f"run it with\n\n    python {path}"
    )
    title = (
        f'"""The training of {origin.file}, step by step in NumPy.'
        if origin
        else ('"""A training, step by step in NumPy.')
    )
    filled = [
        part if part.startswith("    ") else textwrap.fill(part, WIDTH)
        for paragraph in paragraphs
        for part in paragraph.split("\n\n")
    ]
    return "\n\n".join([title, *filled]) + '\n"""'


def _random(layer: Layer) -> bool:
    inner = getattr(layer, "forward_layer", layer)
    return type(layer).__module__ == dropout.__name__ or bool(getattr(inner, "dropout", 0))


def _imports(parts: Parts) -> list[str]:
    used = sorted({"OnStep", *parts.used} & OFFERED, key=_import_order)
    line = statement("from stethoscope.engine import ", ", ".join(used))
    if len(line) > WIDTH:
        listed = [f"    {name}," for name in used]
        line = "\n".join(["from stethoscope.engine import (", *listed, ")"])
    return ["from pathlib import Path", "", "import numpy as np", "import stethoscope", line]


def _import_order(name: str) -> tuple[int, str]:
    """Constants, classes, the rest: as import sorters have them."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def _data(training: Training, arrays: dict[str, Array]) -> list[str]:
    lines = ["# The data."]

    def store(name: str, parts: Sequence[Array]) -> str:
        keys = [name] if len(parts) == 1 else [f"{name}{i}" for i in range(len(parts))]
        arrays.update(zip(keys, parts, strict=True))
        reads: list[Expression] = [f"stored[{text(key)}]" for key in keys]
        value = reads[0] if len(reads) == 1 else Call("[", tuple(("", read) for read in reads))
        lines.extend(statement(f"{name} = ", value).split("\n"))
        return name

    store("x", training.inputs)
    store("y", training.targets)
    if training.weight is not None:
        store("sample_weight", [training.weight])
    if training.held_out is not None:
        store("x_held_out", training.held_out[0])
        store("y_held_out", training.held_out[1])
        if training.held_out_weight is not None:
            store("weight_held_out", [training.held_out_weight])
    if training.order is not None:
        lines.append("# Which samples the batches have: [epoch, step, sample], -1 for none.")
        store("order", [training.order])
    return lines


def _look(model: Trainable) -> list[str]:
    network = model.network
    trained = network.trained
    shown = trained[0].rpartition("/")[0] if trained else network.names[0]
    lines = [
        "",
        "",
        "def look(step):",
        '    """Is shown every step: print here what you want to see of it."""',
        "    # print(step.number, step.loss, step.metrics)",
        "    # print(step.done.names)",
        f"    # layer = {text(shown)}",
        "    # print(step.output(layer).mean(), step.output_gradient(layer).std())",
    ]
    if trained:
        lines += [
            f"    # weight = {text(trained[0])}",
            "    # print(step.before[weight].std(), step.gradients[weight].std())",
            "    # print((step.after[weight] - step.before[weight]).std())",
        ]
    return [*lines, "", ""]


def _fit(training: Training) -> list[str]:
    settings: dict[str, Expression] = {"epochs": str(training.epochs)}
    if training.batch_size is not None:
        settings["batch_size"] = str(training.batch_size)
    if training.order is not None:
        settings["order"] = "order"
    else:
        settings["shuffle"] = "False"
    if training.weight is not None:
        settings["sample_weight"] = "sample_weight"
    if training.held_out is not None:
        weighted = ["weight_held_out"] if training.held_out_weight is not None else []
        settings["validation_data"] = call("(", "x_held_out", "y_held_out", *weighted)
    settings["verbose"] = "1"
    fitted = statement("history = ", call("model.fit", "x", "y", **settings), indent=4)
    return [
        "# A report of what is wrong with the training is printed at its end.",
        "model.listeners.append(OnStep(look))",
        "with stethoscope.watch(model):",
        fitted,
    ]
