"""From an object of the engine to the call that makes it, and from a call to lines of a program.

Only settings that differ from their defaults are written. Lines are laid out as `ruff format` does.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Iterator
from typing import Any

import numpy as np

from stethoscope import engine
from stethoscope.engine import activations, losses, metrics, optimizers
from stethoscope.engine.activations import Activation
from stethoscope.engine.layers._base import Layer
from stethoscope.engine.losses import Loss
from stethoscope.engine.metrics import Metric
from stethoscope.engine.optimizers import Optimizer
from stethoscope.engine.optimizers._base import ABSENT
from stethoscope.engine.translate.settings import TranslationError

WIDTH = 88  # of a line: what formatters do without settings
INDENT = 4
MODULES = ("initializers", "regularizers", "schedules")
"""Those of the engine whose objects are frozen dataclasses."""
ATTRIBUTES = {"layer": "forward_layer", "mask_zero": ""}
"""Arguments that are kept under another name, or, with "", not kept: they have one value only."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A call, or with the name "[", "(" or "{" a list, tuple or set.

    Attributes:
        name: What is called.
        arguments: Pairs of the keyword ("" for none) and the value.
    """

    name: str
    arguments: tuple[tuple[str, Expression], ...] = ()

    @property
    def is_literal(self) -> bool:
        """Whether it is a list, a tuple or a set."""
        return self.name in _CLOSING


Expression = str | Call
_CLOSING = {"[": "]", "(": ")", "{": "}"}


class Parts:
    """Statements of a program, and the names that they call."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.used: set[str] = set()

    def say(self, *lines: str, calls: Expression = "") -> None:
        """Adds lines as they are; `calls` is what is called in them."""
        self.lines += lines
        self.used |= set(names(calls))

    def set(self, start: str, expression: Expression, end: str = "") -> None:
        """Adds `start expression end`."""
        self.say(*statement(start, expression, end).split("\n"), calls=expression)

    def text(self) -> str:
        """All of it."""
        return "\n".join(self.lines)


def call(name: str, /, *positional: Expression, **keywords: Expression) -> Call:
    """A `Call`, written as one.

    >>> flat(call("Dense", "64", name='"hidden"'))
    'Dense(64, name="hidden")'
    """
    return Call(name, (*(("", value) for value in positional), *keywords.items()))


def flat(expression: Expression) -> str:
    """An expression in one line."""
    if isinstance(expression, str):
        return expression
    inside = ", ".join(_keyword(key) + flat(value) for key, value in expression.arguments)
    single = expression.name == "(" and len(expression.arguments) == 1
    opening, closing = _brackets(expression)
    return opening + inside + "," * single + closing


def statement(start: str, expression: Expression, end: str = "", indent: int = 0) -> str:
    """A line of a program, or several where it is too long.

    >>> print(statement("x = ", call("f", "a" * 50, "b" * 30)))
    x = f(
        aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
    )
    """
    return "\n".join(_laid_out(start, expression, end, indent))


def names(expression: Expression) -> Iterator[str]:
    """The first part of everything that an expression calls."""
    if isinstance(expression, Call):
        if not expression.is_literal:
            yield expression.name.partition(".")[0]
        for _, value in expression.arguments:
            yield from names(value)


def of(value: Any) -> Expression:
    """What gives an object equal to this one: a layer, loss, optimizer, a setting or a number.

    Raises:
        TranslationError: It is something of the user's own.

    >>> from stethoscope.engine import Dense
    >>> flat(of(Dense(3, kernel_regularizer="l2", name="out")))
    'Dense(3, kernel_regularizer=regularizers.L1L2(l2=0.01), name="out")'
    """
    kind = type(value)
    if value is None or isinstance(value, bool | int):
        return repr(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, np.generic | np.ndarray):
        return of(value.tolist())
    if isinstance(value, str):
        return text(value)
    if isinstance(value, tuple | list):
        return Call("(" if isinstance(value, tuple) else "[", tuple(("", of(v)) for v in value))
    if isinstance(value, Activation):
        return _activation(value)
    if isinstance(value, Metric):
        return _metric(value)
    module = kind.__module__.rpartition(".")[2]
    if module in MODULES and kind.__module__ == f"{engine.__name__}.{module}":
        return _made(value, f"{module}.{kind.__name__}")
    if isinstance(value, Layer) and getattr(engine, kind.__name__, None) is kind:
        return _made(value, kind.__name__)
    if isinstance(value, Loss) and getattr(losses, kind.__name__, None) is kind:
        return _made(value, f"losses.{kind.__name__}")
    if isinstance(value, Optimizer) and getattr(optimizers, kind.__name__, None) is kind:
        return _made(value, f"optimizers.{kind.__name__}")
    shown = getattr(value, "__name__", kind.__name__)
    raise TranslationError(
        f"{shown} cannot be written into a program: the engine has nothing of that name; use one "
        "of its own layers, losses, optimizers, schedules and settings."
    )


def without_activation(layer: Layer) -> Call:
    """The call that makes a layer of the engine, without an activation at its end."""
    made = of(layer)
    assert isinstance(made, Call)
    if layer.activation is None:
        return made
    rest = tuple(one for one in made.arguments if one[0] != "activation")
    return Call(made.name, rest)


def text(value: str) -> str:
    """A string literal.

    >>> text("a")
    '"a"'
    """
    plain = repr(value)
    return f'"{plain[1:-1]}"' if plain[0] == "'" and '"' not in plain else plain


def _made(value: Any, name: str) -> Call:
    """The call of a class whose objects keep their arguments as attributes."""
    kind: Any = type(value)
    given: dict[str, Any] = {}
    needed = {}
    for key, required in _parameters(kind).items():
        attribute = ATTRIBUTES.get(key, key)
        if key == "activation" and hasattr(value, "cell_activation"):
            attribute = "cell_activation"  # a recurrence applies it in every time step
        if attribute:
            given[key] = getattr(value, attribute)
        if required:
            needed[key] = given[key]
    usual = kind(**needed)
    arguments: list[tuple[str, Expression]] = []
    for key, held in given.items():
        if key in needed:
            arguments.append(("", of(held)))
        elif key.endswith("_initializer") and not dataclasses.is_dataclass(held):
            continue  # a function of the user's: the weights it gave are written
        elif key == "name":
            if held and held != getattr(kind, "name", None):
                arguments.append((key, text(held)))
        else:
            attribute = "cell_activation" if hasattr(value, "cell_activation") else key
            default = getattr(usual, attribute if key == "activation" else key)
            if of(held) != of(default):
                arguments.append((key, of(held)))
    return Call(name, tuple(arguments))


@functools.cache
def _parameters(kind: Any) -> dict[str, bool]:
    """The arguments of a class in their order, and whether each is required."""
    found: dict[str, bool] = {}
    for owner in kind.__mro__:
        function = vars(owner).get("__init__")
        if function is None:
            continue
        parameters = list(inspect.signature(function).parameters.values())[1:]
        open_ended = [one for one in parameters if one.kind is one.VAR_KEYWORD]
        for one in parameters:
            if one.kind is not one.VAR_KEYWORD:
                found.setdefault(one.name, one.default is one.empty)
        hints = typing.get_type_hints(function) if open_ended else {}
        declared = typing.get_args(hints[open_ended[0].name]) if open_ended else ()
        if declared:  # Unpack[Settings]
            names_only = dict.fromkeys(typing.get_type_hints(declared[0]), False)
            found |= {key: False for key in names_only if key not in found}
        if declared or not open_ended:
            break
    absent = ABSENT if issubclass(kind, Optimizer) else {}
    return {key: required for key, required in found.items() if key not in absent}


def _activation(value: Activation) -> Expression:
    try:
        usual: Any = activations.get(value.name).settings
    except ValueError:  # it has a setting without a default
        usual = None
    if usual is not None and dict(usual) == dict(value.settings):
        return text(value.name)
    given = {key: of(held) for key, held in value.settings.items()}
    if not hasattr(activations, value.name):
        raise TranslationError(
            f"activation {value.name!r} cannot be written into a program: the engine has none of "
            "that name."
        )
    return call(f"activations.{value.name}", **given)


def _metric(value: Metric) -> Expression:
    if not value.kind:
        raise TranslationError(
            f"metric {value.name!r} cannot be written into a program: it is a function of your own."
        )
    plain = metrics.full_name(value.name) == value.kind
    if plain and not value.settings:
        return text(value.name)
    given = {"name": value.name, **value.settings}
    if value.name == value.kind:
        del given["name"]
    return call("metrics.get", text(value.kind), **{key: of(v) for key, v in given.items()})


def _number(value: float) -> str:
    """The shortest that gives this number in float32, in which frameworks keep their settings."""
    if not np.isfinite(value):
        return f'float("{value}")'
    narrow = np.float32(value) if abs(value) < np.finfo(np.float32).max else None
    if narrow is not None and float(narrow) == value:
        return repr(float(str(narrow)))
    return repr(value)


def _keyword(key: str) -> str:
    return f"{key}=" if key else ""


def _brackets(expression: Call) -> tuple[str, str]:
    if expression.is_literal:
        return expression.name, _CLOSING[expression.name]
    return f"{expression.name}(", ")"


def _laid_out(start: str, expression: Expression, end: str, indent: int) -> list[str]:
    """The lines of `start expression end`."""
    margin = " " * indent
    line = f"{margin}{start}{flat(expression)}{end}"
    if len(line) <= WIDTH or isinstance(expression, str) or not expression.arguments:
        return [line]
    opening, closing = _brackets(expression)
    inner = " " * (indent + INDENT)
    together = inner + ", ".join(_keyword(k) + flat(v) for k, v in expression.arguments)
    if not expression.is_literal and len(together) <= WIDTH:
        middle = [together]
    else:
        middle = []
        alone = len(expression.arguments) == 1 and not expression.is_literal
        for key, value in expression.arguments:
            comma = "" if alone and isinstance(value, Call) and not key else ","
            middle += _laid_out(_keyword(key), value, comma, indent + INDENT)
    return [f"{margin}{start}{opening}", *middle, f"{margin}{closing}{end}"]
