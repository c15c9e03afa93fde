"""Which models are watched, and which run a step belongs to."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence

import torch
from torch import nn

from stethoscope.monitor import Session
from stethoscope.torch import sources
from stethoscope.torch.roots import Root, is_keras
from stethoscope.torch.runs import Run
from stethoscope.torch.sources import Sources
from stethoscope.torch.step import Step


class Registry:
    """The roots and runs of a watched process.

    Args:
        session: Opens the monitors of runs.
        lines: Where modules and optimizers were constructed.
        models: The models to watch; None watches every model that is trained.
    """

    def __init__(
        self, session: Session, lines: Sources, models: Sequence[nn.Module] | None
    ) -> None:
        self.runs: list[Run] = []
        self.roots: list[Root] = []
        self._session = session
        self._lines = lines
        self._known: dict[int, tuple[weakref.ref[nn.Module], Root | None]] = {}
        self._only: set[int] | None = None
        if models is not None:
            self._only = {id(p) for model in models for p in model.parameters()}
            for model in models:
                self._add(model, type(model).__name__.lower())

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
        if self._only is None:
            return True
        return any(id(p) in self._only for group in optimizer.param_groups for p in group["params"])

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
        return self._open(roots) if roots else None

    def unseen_run(self, optimizer: torch.optim.Optimizer) -> Run | None:
        """A new run for an optimizer whose model was not seen to be called."""
        params = {id(p) for group in optimizer.param_groups for p in group["params"]}
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

    def _open(self, roots: list[Root]) -> Run:
        run = Run(self._session, self._lines)
        run.join(roots)
        self.runs.append(run)
        return run

    def _find(self, module: nn.Module) -> Root | None:
        if is_keras(module) or isinstance(module, torch.jit.ScriptModule):
            return None
        params = [id(p) for p in module.parameters()]
        if not params or (self._only is not None and self._only.isdisjoint(params)):
            return None
        for root in self.roots:
            if root.holds(module):
                return root
        name = sources.variable_name(module, sys._getframe(3))
        return self._add(module, name or type(module).__name__.lower())

    def _add(self, module: nn.Module, title: str) -> Root:
        root = Root(len(self.roots), module, title)
        self.roots.append(root)
        return root
