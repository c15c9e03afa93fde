"""What a program of PyTorch has hung on its objects: the engine runs none of it."""

from __future__ import annotations

from typing import Any

OF_MODULES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
OF_PARAMETERS = ("_backward_hooks", "_post_accumulate_grad_hooks")
OF_OPTIMIZERS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


def on_module(module: Any) -> str:
    """What changes what a module (a loss is one too) or its gradients are; "" if nothing does."""
    if "forward" in vars(module):
        return "its forward has been replaced"
    for name in OF_MODULES:
        if module.__dict__.get(name):
            kind = "backward" if "backward" in name else "forward"
            return f"it has {kind} hooks, which may change what it computes"
    for name, parameter in module.named_parameters(recurse=False):
        if any(getattr(parameter, one, None) for one in OF_PARAMETERS):
            return f"its {name} has hooks, which may change its gradient"
    return ""


def on_optimizer(optimizer: Any) -> str:
    """What happens around a step of an optimizer; "" if nothing does."""
    if any(vars(optimizer).get(name) for name in OF_OPTIMIZERS):
        return "it has hooks, which may change a step"
    return ""
