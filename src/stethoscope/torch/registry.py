"""Which models are watched, and which run a step belongs to."""

from __future__ import annotations

import dataclasses
import itertools
import sys
import weakref
from collections.abc import Iterable, Sequence

import torch
from torch import nn

from stethoscope.monitor import Session
from stethoscope.torch import sources
from stethoscope.torch.roots import Root, is_keras
from stethoscope.torch.runs import Run
from stethoscope.torch.sources import Sources
from stethoscope.torch.step import Step
from stethoscope.types import Report


@dataclasses.dataclass(eq=False)
class Group:
    """What one scope watches.

    Attributes:
        session: Opens the monitors of its runs.
        params: Ids of the parameters of its models; None for every model that is trained.
        active: False while the scope pauses.
    """

    session: Session
    params: set[int] | None
    active: bool = True

    def holds(self, params: Iterable[int]) -> bool:
        """Whether any of these parameters is one of its own."""
        return self.params is None or not self.params.isdisjoint(params)


class Registry:
    """The roots, runs and groups of a watched process.

    Args:
        lines: Where modules and optimizers were constructed.
    """

    def __init__(self, lines: Sources) -> None:
        self.runs: list[Run] = []
        self.roots: list[Root] = []
        self.groups: list[Group] = []
        self._lines = lines
        self._known: dict[int, tuple[weakref.ref[nn.Module], Root | None]] = {}
        self._numbers = itertools.count()

    def watch(
        self, session: Session, models: Sequence[nn.Module] | None, group: Group | None = None
    ) -> Group:
        """Watches models, also as members of a group that is there; None for all."""
        params = None if models is None else set().union(*map(parameters, models))
        if group is None:
            group = Group(session, params)
            self.groups.append(group)
        elif group.params is not None and params is not None:
            group.params |= params
        self.changed()
        for model in models if models is not None and group.params is not None else ():
            if not any(root.holds(model) for root in self.roots):
                self._add(model, type(model).__name__.lower())
        return group

    def forget(self, group: Group) -> None:
        """The scope of a group is closed: nothing of it stays."""
        group.active = False
        self.runs = [run for run in self.runs if run.session is not group.session]
        if group in self.groups:
            self.groups.remove(group)
        self.roots = [r for r in self.roots if any(g.holds(r.params) for g in self.groups)]
        self.changed()

    def changed(self) -> None:
        """Which models are watched is another question now."""
        self._known.clear()

    def group_of(self, params: Iterable[int]) -> Group | None:
        """The active group that watches any of these parameters."""
        return next((g for g in self.groups if g.active and g.holds(params)), None)

    def reports(self, models: Sequence[nn.Module]) -> list[Report]:
        """The reports on the runs that train any of these models."""
        params = set().union(*map(parameters, models))
        return [
            run.monitor.report()
            for run in self.runs
            if run.monitor is not None and not params.isdisjoint(run.params())
        ]

    def root_of(self, module: nn.Module) -> Root | None:
        """The model that a call of `module` from outside any model is a call of."""
        found = self._known.get(id(module))
        if found is not None and found[0]() is module:
            return found[1]
        root = self._find(module)
        self._known[id(module)] = (weakref.ref(module), root)
        return root

    def owns(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the optimizer updates a parameter that is watched."""
        if any(group.active and group.params is None for group in self.groups):
            return True
        return self.group_of(updated(optimizer)) is not None

    def is_probed(self, root: Root) -> bool:
        """Whether a step that begins with `root` is to be probed."""
        run = next((r for r in self.runs if root in r.roots), None)
        return run is None or run.is_probed()

    def run_of(self, step: Step | None, optimizer: torch.optim.Optimizer | None) -> Run | None:
        """The run that an update belongs to: by the models that ran, else by its parameters."""
        roots = step.roots if step is not None else []
        for run in reversed(self.runs):
            if run.has(roots, optimizer):
                run.join(roots)
                return run
        return self._open(roots)

    def unseen_run(self, optimizer: torch.optim.Optimizer) -> Run | None:
        """A new run for an optimizer whose model was not seen to be called."""
        params = set(updated(optimizer))
        best, most = None, (0, 0)
        for module in [*(root.module for root in self.roots), *self._lines.modules()]:
            if module is None or is_keras(module):
                continue
            own = {id(p) for p in module.parameters()}
            # The one that holds most of the parameters; of those the outermost.
            rank = (len(own & params), sum(1 for _ in module.modules()))
            if rank[0] and rank > most:
                best, most = module, rank
        if best is None:
            return None
        root = next((r for r in self.roots if r.module is best), None)
        return self._open([root or self._add(best, type(best).__name__.lower())])

    def _open(self, roots: list[Root]) -> Run | None:
        groups = [group for root in roots if (group := self.group_of(root.params)) is not None]
        if not groups:
            return None
        run = Run(groups[0].session, self._lines)
        run.join(roots)
        self.runs.append(run)
        return run

    def _find(self, module: nn.Module) -> Root | None:
        if is_keras(module) or isinstance(module, torch.jit.ScriptModule):
            return None
        params = parameters(module)
        if not params or self.group_of(params) is None:
            return None
        for root in self.roots:
            if root.holds(module):
                return root
        name = sources.variable_name(module, sys._getframe(3))
        return self._add(module, name or type(module).__name__.lower())

    def _add(self, module: nn.Module, title: str) -> Root:
        root = Root(next(self._numbers), module, title)
        self.roots.append(root)
        return root


def updated(optimizer: torch.optim.Optimizer) -> list[int]:
    """Ids of the parameters that an optimizer updates."""
    return [id(p) for group in optimizer.param_groups for p in group["params"]]


def parameters(module: nn.Module) -> set[int]:
    """Ids of the parameters of a model."""
    return {id(p) for p in module.parameters()}
