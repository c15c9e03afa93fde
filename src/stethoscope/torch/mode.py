"""The `TorchFunctionMode` that sees the user's torch calls, and its place on torch's stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import overrides

Handler = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class CallMode(overrides.TorchFunctionMode):
    """Hands every call to a handler, which makes the call.

    Pushed and popped by `enter` and `leave` rather than by `with`: the stretch of a step in
    which calls are looked at is not one block of anybody's code.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.active = False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self._handler(func, args, kwargs or {})

    def enter(self) -> bool:
        """Goes on top of the stack, unless a mode of somebody else is there.

        Returns:
            False when a foreign mode is active: the `with` block that holds it would pop ours
            in its place. The mode of `set_default_device` sorts itself out.
        """
        if self.active:
            return True
        default = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
        if any(mode is not default for mode in _stack()):
            return False
        overrides._push_mode(self)  # type: ignore[no-untyped-call]
        self.active = True
        return True

    def leave(self) -> None:
        """Leaves the stack, wherever on it the mode is; the order of the others is kept."""
        if not self.active:
            return
        above = []
        while torch._C._len_torch_function_stack():
            mode = overrides._pop_mode()  # type: ignore[no-untyped-call]
            if mode is self:
                self.active = False
                break
            above.append(mode)
        for mode in reversed(above):
            overrides._push_mode(mode)  # type: ignore[no-untyped-call]


def _stack() -> list[Any]:
    return overrides._get_current_function_mode_stack()  # type: ignore[no-any-return, no-untyped-call]
