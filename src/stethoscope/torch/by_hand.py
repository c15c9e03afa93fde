"""Steps of a program that updates its weights itself, without an optimizer of torch.

There is no hook for that: such a step has ended when the next forward pass finds other weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from stethoscope.torch.roots import Root
from stethoscope.torch.step import Step
from stethoscope.torch.tensors import measurable
from stethoscope.torch.unseen import BY_HAND
from stethoscope.torch.update import total_norm, updates

if TYPE_CHECKING:
    from stethoscope.torch.runs import Run


def begin(step: Step, root: Root) -> None:
    """Remembers the weights with which the step begins."""
    params = [p for p in root.parameters() if p.requires_grad and measurable(p)]
    if not params:
        return
    step.fingerprint = total_norm(list(params))
    if step.probing:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            step.before = [(p, p.detach().clone()) for p in params]


def changed(step: Step, root: Root) -> bool:
    """Whether a backward pass was made, and the weights are no longer those of the beginning."""
    params = [p for p in root.parameters() if p.requires_grad and measurable(p)]
    return bool(step.backward) and bool(params) and total_norm(list(params)) != step.fingerprint


def record(run: Run, step: Step) -> None:
    """Records weights and updates; the gradients are the program's own affair by now."""
    updates(run, step, with_weights=True)
    run.unseen(BY_HAND)
