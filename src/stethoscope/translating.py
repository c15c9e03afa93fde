"""`stethoscope translate`: a script is run up to a `fit`, which is written as a NumPy program."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from stethoscope import launch
from stethoscope.config import Config
from stethoscope.monitor import Session
from stethoscope.types import SourceRef

if TYPE_CHECKING:
    from stethoscope.engine import Model
    from stethoscope.engine.translate.write import Training

REFUSED = 2  # exit code: nothing was written
WRITERS = {"keras": "stethoscope.keras.written_fits", "torch": "stethoscope.torch.unwritten"}
"""Framework to the module whose `install(taker)` hands its trainings to a taker."""


class Stop(SystemExit):
    """Ends the script: what was wanted of it is known."""


class Taker:
    """Takes one `fit` of the script and writes it.

    Args:
        number: Which one, from 1.
        output: Where the program goes, as the user says it; its arrays lie beside it.

    Attributes:
        calls: How many fits have begun.
        said: What became of it; "" before.
        written: Whether there is a program.
    """

    def __init__(self, number: int, output: Path) -> None:
        self.number = number
        self.output = output
        self._place = output.absolute()  # the script may change its folder
        self.calls = 0
        self.said = ""
        self.written = False

    def called(self) -> bool:
        """A `fit` begins; True if it is the one."""
        self.calls += 1
        return self.calls >= self.number

    def take(self, model: Model, training: Training, source: SourceRef | None) -> NoReturn:
        """Writes the program and ends the script."""
        from stethoscope.engine.translate import TranslationError
        from stethoscope.engine.translate.write import program

        try:
            made = program(model, training, path=self.output.name, origin=source)
            beside = made.save(self._place)
        except (TranslationError, OSError) as error:
            self.refuse(str(error), source)
        ended = f"ended at line {source.line} of {source.file}" if source else "ended at its fit"
        self.said = (
            f"wrote {self.output} and {beside.name}; the script was {ended}, and what follows "
            f"there was not run. `python {self.output}` trains."
        )
        self.written = True
        raise Stop(0)

    def refuse(self, reason: str, source: SourceRef | None) -> NoReturn:
        """Says why there is no program and ends the script."""
        self.said = f"{source.file}:{source.line}: {reason}" if source else reason
        raise Stop(REFUSED)


def translate(target: launch.Script, name: str, output: Path, number: int) -> int:
    """Runs the script up to the fit; returns the exit code.

    Args:
        target: The script.
        name: How the user calls it.
        output: Where the program goes.
        number: Which `fit` is wanted, from 1.
    """
    taker, stderr = Taker(number, output), sys.stderr
    session = Session(Config(), script=name, stderr=stderr)
    writers = {name: functools.partial(_install, module, taker) for name, module in WRITERS.items()}
    code, ended = launch.run(target, session, writers)
    if not taker.said:
        code = code or REFUSED
        taker.said = _why_nothing(name, taker, ended)
    print(f"stethoscope: {taker.said}", file=stderr)
    return 0 if taker.written else code or REFUSED


def _install(module: str, taker: Taker) -> Callable[[], None]:
    adapter: Any = importlib.import_module(module)
    undo: Callable[[], None] = adapter.install(taker)
    return undo


def _why_nothing(name: str, taker: Taker, ended: BaseException | None) -> str:
    name = Path(name).name
    if ended is not None and not isinstance(ended, SystemExit):
        return f"nothing was written: {name} failed before the fit."
    if taker.calls:
        times = "once" if taker.calls == 1 else f"{taker.calls} times"
        return f"{name} calls fit {times}; --fit {taker.number} is beyond that."
    return f"{name} calls no fit of a Keras model, which is what can be translated."
