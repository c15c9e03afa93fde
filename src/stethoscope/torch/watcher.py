"""The state machine of a watched process: torch's global hooks in, steps of runs out.

Nothing is put on a user's module: the hooks are torch's global ones. On a plain step they find
out that there is nothing to do and return; on a probed step they hand everything to a `Probe`.
Every hook is a boundary: an error of ours ends the watching, never the training.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from stethoscope.diagnosis import locate
from stethoscope.torch import asif, by_hand, losses_seen, sources, unseen
from stethoscope.torch.flow import tensors_in
from stethoscope.torch.hooks import GlobalHooks, boundary, hidden, is_eager, words
from stethoscope.torch.mode import CallMode
from stethoscope.torch.probe import Probe
from stethoscope.torch.registry import Group, Registry
from stethoscope.torch.roots import Root, is_compiled
from stethoscope.torch.sources import Sources
from stethoscope.torch.step import Batch, Step
from stethoscope.torch.update import after_update, before_update

TorchCall = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Watcher:
    """Watches models of this thread; torch's hooks are global, so there is one for all scopes.

    Args:
        lines: Where modules and optimizers were constructed.

    Attributes:
        registry: What is watched, for whom.
    """

    def __init__(self, lines: Sources | None = None) -> None:
        self.lines = lines or Sources()
        self.failure: str | None = None
        self.registry = Registry(self.lines)
        self._hooks = GlobalHooks(self._enter, self._leave, self._before_update, self._after_update)
        self._mode = CallMode(self._call)
        self._thread = threading.get_ident()
        self._pid = os.getpid()
        self._active: nn.Module | None = None
        self._root: Root | None = None
        self._probe: Probe | None = None
        self._step: Step | None = None
        self._lost_updates = 0

    @property
    def busy(self) -> bool:
        """Whether a group is watched."""
        return any(group.active for group in self.registry.groups)

    @property
    def usable(self) -> bool:
        """Whether it watches the code that asks."""
        return self.failure is None and self._is_here()

    # Life

    def start(self, group: Group) -> None:
        """Watches a group; installs the hooks unless they are there, or after a failure."""
        group.active = True
        self.registry.changed()
        if not self._hooks.up and self.failure is None:
            self._hooks.install()

    def pause(self, group: Group) -> None:
        """Watches the other groups only; without any, the hooks are gone."""
        if self._step is not None and any(group.holds(root.params) for root in self._step.roots):
            self._drop_step()
        group.active = False
        self.registry.changed()
        if not self.busy:
            self.stop()

    def close(self, group: Group) -> None:
        """A scope is over; of its models nothing is kept."""
        self.pause(group)
        self.registry.forget(group)

    def stop(self) -> None:
        """Removes everything; what was seen of an unfinished step is dropped."""
        self._hooks.remove()
        self._drop_step()
        self.lines.stop()
        if self._lost_updates and not self.registry.runs:
            self.registry.groups[0].session.notes.append(
                f"{self._lost_updates} optimizer steps were not seen: their parameters belong to "
                "no model that is known"
            )
        self._lost_updates = 0

    def _drop_step(self) -> None:
        self._mode.leave()
        if self._step is not None:
            if self._step.refused and self.failure is None:
                self._abandon(self._step)
            self._step.release()  # gradient hooks may still hang on outputs
        self._step = self._probe = self._active = self._root = None

    def fail(self, error: BaseException) -> None:
        """Something of ours broke: says so once, and stops to watch."""
        if self.failure is None:
            self.failure = words(error)
            note = f"watching PyTorch stopped after an internal error: {self.failure}"
            for session in dict.fromkeys(group.session for group in self.registry.groups):
                session.fail(note)
            for run in self.registry.runs:
                if run.monitor is not None:
                    run.monitor.fail(note)
        self.stop()

    # Forward

    def _enter(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if torch.compiler.is_compiling():
            return
        active = self._active
        if active is not None and active is not module:
            if self._probe is not None:
                self._enter_layer(module, args)
            return
        if not module.training or not torch.is_grad_enabled():
            if self._mode.active and torch._C._current_graph_task_id() == -1:
                self._mode.leave()
            return
        self._enter_root(module, args)

    def _leave(self, module: nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
        # torch leaves out the keyword arguments when the forward pass has raised.
        if torch.compiler.is_compiling() or self._active is None:
            return
        if module is self._active and (self._probe is None or len(self._probe.open) <= 1):
            self._leave_root(module, rest)
        elif self._probe is not None:
            self._leave_layer(module, rest)

    @boundary
    def _enter_layer(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        begun = time.perf_counter()
        probe = self._probe
        if probe is None or threading.get_ident() != self._thread or hidden():
            return
        probe.enter(module, args)
        probe.step.spent += time.perf_counter() - begun

    @boundary
    def _leave_layer(self, module: nn.Module, rest: tuple[Any, ...]) -> None:
        begun = time.perf_counter()
        probe = self._probe
        if probe is None or threading.get_ident() != self._thread or hidden():
            return
        failed = len(rest) < 2
        probe.leave(module, rest[-1], {} if failed else rest[0], failed)
        probe.step.spent += time.perf_counter() - begun

    @boundary
    def _enter_root(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        begun = time.perf_counter()
        root = self.registry.root_of(module)
        if root is None or not self._watchable():
            return
        self._mode.leave()
        if self._step is not None and self._step.fingerprint is not None:
            self._finish_by_hand(self._step)
        step = self._step
        if step is None:
            step = self._step = Step(self.registry.is_probed(root))
            if not root.optimized:
                by_hand.begin(step, root)
        self._active, self._root, self._probe = module, root, None
        step.add(Batch(root, module, args, torch.get_rng_state()))
        compiled = is_compiled(module)
        if compiled:
            self._hooks.suspend(module)
            root.unseen.update(unseen.COMPILED)
        elif step.probing:
            self._probe = Probe(step, root)
            self._probe.enter(module, args)
        if step.probing:
            losses_seen.inputs(step, root, args)
        if (step.probing or root.loss_inside) and not compiled:
            self._push()
        step.spent += time.perf_counter() - begun

    @boundary
    def _leave_root(self, module: nn.Module, rest: tuple[Any, ...]) -> None:
        begun = time.perf_counter()
        step, probe, root = self._step, self._probe, self._root
        self._active = None
        if step is None or root is None:
            return
        failed = len(rest) < 2
        if not failed:
            step.batches[-1].kwargs = rest[0]
        if probe is not None:
            probe.leave(module, rest[-1], {} if failed else rest[0], failed)
            if not failed:
                losses_seen.inputs(step, root, rest[0])
                step.flow.read(tensors_in(rest[1]), "output")
            probe.outside = True
            probe.open.clear()
        if failed:
            self._mode.leave()
        else:
            self._push()
        step.spent += time.perf_counter() - begun

    # Calls

    def _push(self) -> None:
        if not self._mode.enter():
            for root in self.registry.roots:
                root.unseen.update(unseen.MODE_OF_THE_USER)

    def _call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        step, above = self._step, sys._getframe(1)
        if step is None or torch.compiler.is_compiling():
            return func(*args, **kwargs)
        if torch._C._are_functorch_transforms_active():  # its tensors have no values of their own
            return asif.call(above, func, args, kwargs)
        role = losses_seen.role(func)
        if role is losses_seen.Role.BACKWARD:
            self._backward(args)
            return asif.call(above, func, args, kwargs)
        probe = self._probe
        if probe is not None and probe.muted:
            return asif.call(above, func, args, kwargs)
        if role is losses_seen.Role.LOSS:
            source = locate.here(sys._getframe(1)) if step.probing else None
            try:
                result = asif.call(above, func, args, kwargs)
            except Exception:
                self._loss_raised((func, args, kwargs), source)
                raise
            self._loss((func, args, kwargs), result, source)
            return result
        if probe is not None and role is not losses_seen.Role.PASS:
            seen = self._before_call(func, args, kwargs)
            result = asif.call(above, func, args, kwargs)
            self._after_call((func, args, kwargs), result, seen, above)
            return result
        result = asif.call(above, func, args, kwargs)
        if role is losses_seen.Role.SCALE:
            self._scaled(args, result, asif.is_scaler(above))
        return result

    @boundary
    def _before_call(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        begun = time.perf_counter()
        probe = self._probe
        if probe is None or hidden():
            return None
        seen = probe.before_call(func, args, kwargs)
        probe.step.spent += time.perf_counter() - begun
        return seen

    @boundary
    def _after_call(self, call: TorchCall, result: Any, seen: Any, above: Any) -> None:
        begun = time.perf_counter()
        probe = self._probe
        if probe is None or hidden():
            return
        func, args, kwargs = call
        probe.after_call(func, args, kwargs, result, seen)
        if probe.outside:
            losses_seen.remember(probe.step, func, args, kwargs, result)
        if losses_seen.role(func) is losses_seen.Role.SCALE:
            self._scaled(args, result, asif.is_scaler(above))
        probe.step.spent += time.perf_counter() - begun

    @boundary
    def _loss(self, call: TorchCall, result: Any, source: Any) -> None:
        begun = time.perf_counter()
        step, root = self._step, self._root
        if step is None or root is None or not isinstance(result, Tensor):
            return
        if self._active is not None:
            root.loss_inside = True
        losses_seen.loss(step, root, *call, result, source)
        step.spent += time.perf_counter() - begun

    @boundary
    def _loss_raised(self, call: TorchCall, source: Any) -> None:
        if self._step is not None and self._root is not None and self._step.probing:
            losses_seen.refused(self._step, self._root, *call, source)

    @boundary
    def _backward(self, args: tuple[Any, ...]) -> None:
        begun = time.perf_counter()
        step, root = self._step, self._root
        loss = next(tensors_in(args), None)
        if step is None or root is None or loss is None:
            return
        losses_seen.backward(step, root, loss)
        step.spent += time.perf_counter() - begun

    @boundary
    def _scaled(self, args: tuple[Any, ...], result: Any, by_scaler: bool) -> None:
        if self._step is not None and isinstance(result, Tensor) and result.numel() == 1:
            losses_seen.scaled(self._step, args, result, by_scaler)

    # Update

    @boundary
    def _before_update(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        begun = time.perf_counter()
        if not self._watchable():
            return
        self._mode.leave()
        self._active = self._probe = None
        if not self.registry.owns(optimizer):
            return
        # step(optimizer, closure): the optimizer itself comes first.
        closure = (len(args) > 1 and callable(args[1])) or callable(kwargs.get("closure"))
        run = self.registry.run_of(self._step, optimizer)
        if self._step is None:
            if run is None and not closure:
                run = self.registry.unseen_run(optimizer)
                if run is None:
                    self._lost_updates += 1
                    return
                run.unseen(unseen.NOT_CALLED)
            self._step = Step(run is None or run.is_probed())
        step = self._step
        if step.problem is not None:
            raise step.problem
        step.closure = closure
        if run is None and not closure:
            return
        if run is None or run.update_source is None:
            step.update_source = locate.here(sys._getframe(1))
        before_update(run, step, optimizer)
        step.spent += time.perf_counter() - begun

    @boundary
    def _after_update(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        begun = time.perf_counter()
        step = self._step
        if step is None or not self._watchable() or not self.registry.owns(optimizer):
            return
        self._mode.leave()
        self._active = self._probe = None
        run = self.registry.run_of(step, optimizer)
        if run is None:
            return
        if run.update_source is None:
            frame = sources.user_frame(sys._getframe(1))
            run.user_file = frame.f_code.co_filename if frame is not None else None
            run.update_source = step.update_source
        after_update(run, step, optimizer)
        self._step = None
        for root in run.roots:
            root.optimized = True
        step.spent += time.perf_counter() - begun
        run.finish(step, optimizer)
        step.release()

    def _finish_by_hand(self, step: Step) -> None:
        """Ends a step in which the program itself changed the weights."""
        root = step.roots[0] if step.roots else None
        if root is None or root.optimized or not by_hand.changed(step, root):
            return
        run = self.registry.run_of(step, None)
        if run is None:
            return
        by_hand.record(run, step)
        self._step = None
        run.finish(step, None)
        step.release()

    @boundary
    def _abandon(self, step: Step) -> None:
        run = self.registry.run_of(step, None)
        if run is not None:
            run.abandon(step)

    def _watchable(self) -> bool:
        return self._is_here() and is_eager()

    def _is_here(self) -> bool:
        return threading.get_ident() == self._thread and os.getpid() == self._pid
