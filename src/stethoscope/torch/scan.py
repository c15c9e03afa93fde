"""Where a non-finite gradient came from: data, parameters, a module's forward, loss, backward.

The weights are still those of the failing forward pass, so the pass is run once more under the
random state it began with, without gradients, and every module's output is looked at. What the
second pass changes (random states, buffers) is put back.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as nn_module
from torch.overrides import TorchFunctionMode

from stethoscope.diagnosis import locate
from stethoscope.torch.flow import tensors_in
from stethoscope.torch.hooks import forget
from stethoscope.torch.roots import gradient
from stethoscope.torch.step import Batch, Step
from stethoscope.torch.tensors import dense, measurable
from stethoscope.types import SourceRef, Stage

if TYPE_CHECKING:
    from stethoscope.torch.runs import Run

MAX_ROWS = 20
Found = dict[str, Any]


def scan(run: Run, step: Step, params: list[Tensor]) -> list[Found]:
    """The first things that are not finite, most upstream first; never empty.

    Returns:
        Payloads of `nonfinite` events; layer paths are final.
    """
    with torch._C.DisableTorchFunction(), torch.no_grad():
        return (
            _data(run, step)
            or _state(run, step, params)
            or _forward(run, step)
            or _loss(step)
            or _backward(run, params)
        )


def bad(tensor: Tensor) -> str | None:
    """The word nan or inf when an element is; None when all are finite or it cannot be said."""
    if not isinstance(tensor, Tensor):
        return None
    tensor = dense(tensor.detach())
    if not measurable(tensor) or not tensor.is_floating_point():
        return None
    if bool(torch.isnan(tensor).any()):
        return "nan"
    return "inf" if bool(torch.isinf(tensor).any()) else None


def rows_of(tensor: Tensor) -> list[int]:
    """Indices of the samples that hold a non-finite element."""
    if tensor.ndim == 0:
        return []
    faulty = ~torch.isfinite(tensor.detach()).reshape(tensor.shape[0], -1).all(1)
    return [int(i) for i in faulty.nonzero().flatten()[:MAX_ROWS]]


def _data(run: Run, step: Step) -> list[Found]:
    found = []
    for batch in step.batches:
        for name, value in [*enumerate(batch.args), *batch.kwargs.items()]:
            for place, tensor in enumerate(tensors_in(value)):
                # What another model of this step made is not data.
                what = None if tensor.requires_grad else bad(tensor)
                if what:
                    text = f"{name}.{place}" if place else str(name)
                    index = run.data_index(Stage.INPUT, (batch.root.number, text))
                    found.append(_event(Stage.INPUT, what, param=index, rows=rows_of(tensor)))
    for key, tensor in step.targets:
        what = None if tensor.requires_grad else bad(tensor)
        if what:
            index = run.data_index(Stage.TARGET, key)
            found.append(_event(Stage.TARGET, what, param=index, rows=rows_of(tensor)))
    return found


def _state(run: Run, step: Step, params: list[Tensor]) -> list[Found]:
    """Every bad weight and buffer once; when all were named by an earlier scan, the first."""
    found = _bad_state(run, params)
    new = [f for f in found if (f["layer"], f["param"]) not in run.named]
    run.named.update((f["layer"], f["param"]) for f in new)
    return new or found[:1]


def _bad_state(run: Run, params: list[Tensor]) -> list[Found]:
    found = []
    own = [p for root in run.roots for p in root.parameters()]
    for param in {id(p): p for p in [*own, *params]}.values():
        what, key = bad(param), run.param_key(param)
        if what and key:
            found.append(_event(Stage.WEIGHT, what, layer=run.path(key[0]), param=key[1]))
    for root in run.roots:
        for name, buffer in root.module.named_buffers() if root.module is not None else ():
            what = bad(buffer)
            # A masked score holds -inf on purpose.
            if what == "nan":
                layer, _, own_name = name.rpartition(".")
                path = run.path((root.number, layer))
                found.append(_event(Stage.WEIGHT, what, layer=path, param=own_name))
    return found


def _forward(run: Run, step: Step) -> list[Found]:
    for batch in step.batches:
        found = rerun(batch)
        if found is not None:
            path, what, rows, line = found
            layer = run.path((batch.root.number, path))
            event = _event(Stage.OUTPUT, what, layer=layer, rows=rows)
            return [{**event, "line": [line.file, line.line]} if line is not None else event]
    return []


def _loss(step: Step) -> list[Found]:
    values = [*step.losses, *(call.value for call in step.pending), *step.backward]
    for value in values:
        if value != value or value in (float("inf"), float("-inf")):
            return [_event(Stage.LOSS, "nan" if value != value else "inf")]
    return []


def _backward(run: Run, params: list[Tensor]) -> list[Found]:
    found = []
    for param in params:
        grad, key = gradient(param), run.param_key(param)
        what = bad(grad) if grad is not None else None
        if what:
            layer, name = (run.path(key[0]), key[1]) if key else ("", "")
            found.append(_event(Stage.WEIGHT_GRAD, what, layer=layer, param=name))
    # Backward runs from the last layer to the first: the deepest one is where it began.
    return found[-1:]


def _event(
    stage: Stage, what: str, *, layer: str = "", param: str = "", rows: list[int] | None = None
) -> Found:
    return {"stage": stage, "layer": layer, "param": param, "rows": rows or [], "what": what}


class _FirstCalls(TorchFunctionMode):
    """The lines of the first calls that made a NaN, and an infinity, out of finite numbers."""

    def __init__(self) -> None:
        self.lines: dict[str, SourceRef | None] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tensors_in(result):
            what = bad(tensor)
            if what and what not in self.lines:
                before = {bad(t) for t in tensors_in((args, kwargs))}
                if what not in before and "nan" not in before:
                    self.lines[what] = locate.here(sys._getframe(1))
        return result


def rerun(batch: Batch) -> tuple[str, str, list[int], SourceRef | None] | None:
    """Runs one forward pass again.

    Returns:
        Path of the first module with finite input and non-finite output, "nan" or "inf", the
        rows of that output, and for a module of the user's own the line of the call that made it;
        None when there is none, or when the pass fails this time.
    """
    seen: list[tuple[str, str, list[int], SourceRef | None]] = []
    calls = _FirstCalls()

    def look(module: nn.Module, args: Any, *rest: Any) -> None:
        if seen or len(rest) < 2:
            return
        before = {bad(t) for t in tensors_in((args, rest[0]))}
        for tensor in tensors_in(rest[1]):
            what = bad(tensor)
            if what and what not in before and "nan" not in before:
                own = not type(module).__module__.startswith("torch.")
                line = calls.lines.get(what) if own else None
                seen.append((batch.root.path(module), what, rows_of(tensor), line))
                return

    with _untouched(batch), _only_hook(look):
        try:
            with torch.no_grad(), torch._C._EnableTorchFunction(), calls:
                batch.module(*batch.args, **batch.kwargs)
        except Exception:
            return None
    return seen[0] if seen else None


@contextmanager
def _only_hook(hook: Any) -> Iterator[None]:
    handle = nn_module.register_module_forward_hook(hook, with_kwargs=True, always_call=True)
    try:
        yield
    finally:
        forget(handle)


@contextmanager
def _untouched(batch: Batch) -> Iterator[None]:
    """Puts back what a forward pass may change: random states, buffers, plain attributes."""
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    numpy_state = np.random.get_state() if "numpy.random" in sys.modules else None
    on_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    cuda = torch.cuda.get_rng_state_all() if on_cuda else None
    buffers = [(b, b.detach().clone()) for b in batch.module.buffers()]
    plain = [
        (m, name, value)
        for m in batch.module.modules()
        for name, value in vars(m).items()
        if not name.startswith("_") and isinstance(value, (bool, int, float, str, tuple))
    ]
    torch.set_rng_state(batch.rng)
    try:
        yield
    finally:
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        if numpy_state is not None:
            np.random.set_state(numpy_state)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        for buffer, kept in buffers:
            buffer.copy_(kept)
        for module, name, value in plain:
            if vars(module).get(name) is not value:
                vars(module)[name] = value
