"""What `stethoscope translate` says of a PyTorch script: its loop is the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from torch.optim.optimizer import register_optimizer_step_pre_hook

from stethoscope.diagnosis import locate
from stethoscope.types import SourceRef

INSTEAD = (
    "a PyTorch loop cannot be read as a program; call "
    "`stethoscope.engine.translate.translate(model, loss=..., optimizer=...)` before it, and "
    "`train_on_batch(x, y)` of what that returns in place of its body."
)


class Taker(Protocol):
    """Is told of the loop."""

    def refuse(self, reason: str, source: SourceRef | None) -> NoReturn:
        """Says why there is no program and ends the script."""


def install(taker: Taker) -> Callable[[], None]:
    """Ends the script at its first optimizer step, with what to do instead.

    Returns:
        What takes everything back.
    """

    def refuse(*_: Any) -> None:
        taker.refuse(INSTEAD, locate.here())

    hook = register_optimizer_step_pre_hook(refuse)
    return hook.remove
