"""What is looked at around an optimizer's update: gradients, weights, and what the update did.

The check of every step runs before the update, while the weights are still those of the forward
pass that made the gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stethoscope.torch.roots import gradient
from stethoscope.torch.scan import scan
from stethoscope.torch.step import Step
from stethoscope.torch.tensors import dense, measurable
from stethoscope.torch.tensors import describe as statistics
from stethoscope.types import Stage

if TYPE_CHECKING:
    from stethoscope.torch.runs import Run


def before_update(run: Run | None, step: Step, optimizer: torch.optim.Optimizer) -> None:
    """Checks the gradients; on a probed step also records them and the weights.

    A step with a closure runs its forward and backward passes inside: there is nothing to check
    yet, and the first of them all belongs to no run so far (`run` is None).
    """
    params = [p for group in optimizer.param_groups for p in group["params"]]
    if not step.closure and run is not None:
        check(run, step, params)
        if step.probing:
            _gradients(run, step, params, optimizer)
            for param in run.weights_of(optimizer, params):
                key = run.param_key(param)
                if key is not None and measurable(param):
                    step.observe(*key, Stage.WEIGHT, statistics(param))
    if not step.probing:
        return
    with torch._C.DisableTorchFunction(), torch.no_grad():
        step.before = [(p, p.detach().clone()) for p in params if measurable(p)]


def after_update(run: Run, step: Step, optimizer: torch.optim.Optimizer) -> None:
    """Records what the update changed; of a step with a closure also its gradients."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    if step.closure:
        check(run, step, params)
        if step.probing:
            _gradients(run, step, params, optimizer)
    updates(run, step, with_weights=step.closure)


def updates(run: Run, step: Step, *, with_weights: bool) -> None:
    """Records the difference between the weights and their copies from before the update."""
    for param, before in step.before:
        key = run.param_key(param)
        if key is None or before.shape != param.shape:
            continue
        if with_weights:
            step.observe(*key, Stage.WEIGHT, statistics(before))
        with torch._C.DisableTorchFunction(), torch.no_grad():
            step.observe(*key, Stage.UPDATE, statistics(torch.sub(param.detach(), before)))
    step.before = []


def _gradients(
    run: Run, step: Step, params: list[Tensor], optimizer: torch.optim.Optimizer
) -> None:
    for param in run.weights_of(optimizer, params):
        grad, key = gradient(param), run.param_key(param)
        if grad is None or key is None:
            continue
        grad = dense(grad)
        if measurable(grad):
            step.observe(*key, Stage.WEIGHT_GRAD, statistics(grad))


def check(run: Run, step: Step, params: Iterable[Tensor]) -> None:
    """The sentinel: one fused norm over all gradients; looks closer only when it is not finite."""
    grads = [g for p in params if (g := gradient(p)) is not None]
    if run.scans_left == 0 or not grads or math.isfinite(total_norm(grads)):
        return
    with torch._C.DisableTorchFunction(), torch.no_grad():
        if all(bool(torch.isfinite(dense(g)).all()) for g in grads):
            return  # only the sum of squares overflowed
    run.scans_left -= 1
    run.alarm(step)
    step.events += scan(run, step, list(params))


def total_norm(grads: list[Tensor]) -> float:
    """Euclidean norm over all gradients; NaN or infinite when an element is."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        first = grads[0]
        if any(g.layout is not torch.strided or g.device != first.device for g in grads):
            return math.sqrt(sum(float(dense(g).detach().float().norm()) ** 2 for g in grads))
        dtype = torch.float32 if any(g.element_size() < 4 for g in grads) else None
        norms = list(torch._foreach_norm(grads, 2, dtype=dtype))
        if any(n.dtype is not norms[0].dtype for n in norms):
            norms = [n.double() for n in norms]
        return float(torch.linalg.vector_norm(torch.stack(norms)))
