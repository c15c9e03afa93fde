"""Torch's global hooks: put up together, taken down together, nothing forgotten."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules import module as nn_module
from torch.optim import optimizer as optim_optimizer

from stethoscope.monitor import FaultyTrainingError

_TORCH_WARNS = "Using `torch.compile\\(module\\)` when there are global hooks"


F = TypeVar("F", bound=Callable[..., Any])


def boundary(method: F) -> F:
    """Catches every error of ours, by the `fail` of its object; the run goes on without us."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any) -> Any:
        try:
            return method(self, *args)
        except FaultyTrainingError:
            raise
        except Exception as error:
            self.fail(error)
            return None

    return guarded  # type: ignore[return-value]


def words(error: BaseException) -> str:
    """An error of ours, with the place it came from."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f"{frame.tb_frame.f_code.co_name}:{frame.tb_lineno}" if frame else "?"
    return f"{type(error).__name__}: {error} (in {where})"


def hidden() -> bool:
    """Whether a dispatch mode of the program would see our own operations."""
    return torch._C._len_torch_dispatch_stack() > 0


class GlobalHooks:
    """The four hooks that watching needs. None of them is on a user's object.

    Args:
        enter, leave: Called around the forward pass of every module, with keyword arguments;
            `leave` also when the pass raises, then without them.
        before, after: Called around every update of an optimizer.
    """

    def __init__(
        self,
        enter: Callable[..., None],
        leave: Callable[..., None],
        before: Callable[..., None],
        after: Callable[..., None],
    ) -> None:
        self._enter, self._leave = enter, leave
        self._before, self._after = before, after
        self._handles: list[Any] = []
        self._filter: Any = None

    @property
    def up(self) -> bool:
        """Whether they are there."""
        return bool(self._handles)

    def install(self) -> None:
        """Puts the hooks up."""
        self._handles = [
            nn_module.register_module_forward_pre_hook(self._enter),
            nn_module.register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
            optim_optimizer.register_optimizer_step_pre_hook(self._before),
            optim_optimizer.register_optimizer_step_post_hook(self._after),
        ]
        # torch warns that global hooks fire once more around a compiled module; ours know.
        warnings.filterwarnings("ignore", message=_TORCH_WARNS)
        self._filter = warnings.filters[0]

    def remove(self) -> None:
        """Takes the hooks down."""
        for handle in self._handles:
            forget(handle)
        self._handles = []
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]

    def suspend(self, module: nn.Module) -> None:
        """Takes the module hooks away while a compiled module runs: they would be traced."""
        for table in (nn_module._global_forward_pre_hooks, nn_module._global_forward_hooks):
            for handle in self._handles[:2]:
                table.pop(handle.id, None)

        def resume(inner: nn.Module, args: Any, output: Any = None) -> None:
            own.remove()
            if self._handles:
                nn_module._global_forward_pre_hooks[self._handles[0].id] = self._enter
                nn_module._global_forward_hooks[self._handles[1].id] = self._leave
            self._leave(inner, args, {}, output)

        own = module.register_forward_hook(resume, always_call=True)


def forget(handle: Any) -> None:
    """Removes a hook, and the entry that torch keeps for its keyword arguments."""
    handle.remove()
    nn_module._global_forward_hooks_with_kwargs.pop(handle.id, None)


def is_eager() -> bool:
    """Whether code runs as it is written: not compiled, traced, transformed or inside backward."""
    return (
        not torch.compiler.is_compiling()
        and torch._C._get_tracing_state() is None
        and torch._C._current_graph_task_id() == -1
        and not torch._C._are_functorch_transforms_active()
    )
