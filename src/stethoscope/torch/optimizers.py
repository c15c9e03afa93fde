"""The optimizers of one run: how many steps each has made, and which are still in use."""

from __future__ import annotations

import weakref

import torch

from stethoscope.program import OptimizerSpec


class Known:
    """One optimizer, held weakly; or the program itself, where it updates the weights by hand.

    Attributes:
        steps: Updates so far, those of the one whose weights it took over included.
        params: `id` of its parameters.
        replaced: Another optimizer has taken over all its parameters.
        spec: As last described.
    """

    def __init__(self, optimizer: torch.optim.Optimizer | None, steps: int) -> None:
        self.steps = steps
        self.params: frozenset[int] = frozenset()
        self.replaced = False
        self.spec: OptimizerSpec | None = None
        self._optimizer = weakref.ref(optimizer) if optimizer is not None else None

    @property
    def optimizer(self) -> torch.optim.Optimizer | None:
        """The optimizer, while it lives."""
        return self._optimizer() if self._optimizer is not None else None

    @property
    def alive(self) -> bool:
        """Whether it may step again."""
        return self._optimizer is None or self._optimizer() is not None

    def is_(self, optimizer: torch.optim.Optimizer | None) -> bool:
        """Whether it is this very optimizer, or both are none."""
        return self.alive and self.optimizer is optimizer


class Optimizers:
    """Counts the steps of each optimizer object of a run.

    An optimizer that is given parameters later is the same one. A new one for parameters that
    another has trained goes on counting where that one stood, and replaces it when it takes them
    all (a second phase of training, or an optimizer that is made anew): one that steps again
    later is back in use, beside the other.
    """

    def __init__(self) -> None:
        self._known: list[Known] = []

    @property
    def active(self) -> int:
        """How many are in use; at least 1."""
        return max(sum(known.alive and not known.replaced for known in self._known), 1)

    def listed(self) -> list[Known]:
        """Those in use, in the order of their first step."""
        return [known for known in self._known if not known.replaced]

    def params(self) -> set[int]:
        """`id` of every parameter that an optimizer of the run updates."""
        return {i for known in self._known for i in known.params}

    def step(self, optimizer: torch.optim.Optimizer | None) -> tuple[Known, bool]:
        """Counts a step.

        Returns:
            The optimizer, and whether the ones in use or their parameters are others than before.
        """
        groups = optimizer.param_groups if optimizer is not None else []
        params = frozenset(id(p) for group in groups for p in group["params"])
        known = next((k for k in self._known if k.is_(optimizer)), None)
        if known is None:
            known = self._new(optimizer, params)
            changed = optimizer is not None
        else:
            changed = known.replaced or params != known.params
        known.params, known.replaced = params, False
        known.steps += 1
        return known, changed

    def _new(self, optimizer: torch.optim.Optimizer | None, params: frozenset[int]) -> Known:
        before = [k for k in self._known if not k.params.isdisjoint(params)]
        known = Known(optimizer, max((k.steps for k in before), default=0))
        for old in before:
            old.replaced = old.params <= params
        # One that is gone and replaced has nothing left to say.
        self._known = [k for k in self._known if k.alive or not k.replaced]
        self._known.append(known)
        return known
