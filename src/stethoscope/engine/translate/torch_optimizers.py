"""Optimizers with the arithmetic of torch, made from those of torch; torch is not imported."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import numpy as np

from stethoscope.engine.layers._base import Array
from stethoscope.engine.optimizers import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Nadam,
    Optimizer,
    RMSprop,
)
from stethoscope.engine.optimizers._base import State
from stethoscope.engine.optimizers.adam import DECAY
from stethoscope.engine.optimizers.adaptive import square_mean
from stethoscope.engine.translate import torch_hooks
from stethoscope.engine.translate.settings import TranslationError

# Settings of a group that change nothing of what is computed.
WITHOUT_EFFECT = {"params", "foreach", "fused", "capturable", "differentiable"}


class TorchOptimizer(Optimizer):
    """What torch does to gradients first.

    Attributes:
        coupled_decay: Share of each weight that is added to its gradient ("weight_decay" of all
            torch optimizers but AdamW).
        maximize: Gradients are followed upwards.
        slots: Name of an array in `state`, and torch's name of it.
    """

    coupled_decay: float = 0.0
    maximize: bool = False
    slots: ClassVar[Mapping[str, str]] = {}

    def update(
        self, weights: Mapping[str, Array], gradients: Mapping[str, Array]
    ) -> dict[str, Array]:
        if self.maximize:
            gradients = {name: -gradient for name, gradient in gradients.items()}
        if self.coupled_decay:
            gradients = {
                name: gradient + weights[name] * self.coupled_decay
                for name, gradient in gradients.items()
            }
        return super().update(weights, gradients)


class TorchSGD(TorchOptimizer, SGD):
    """m <- momentum m + (1 - dampening) g, w <- w - rate m; the first m is g.

    With Nesterov's momentum w <- w - rate (g + momentum m).
    """

    dampening: float = 0.0
    slots: ClassVar[Mapping[str, str]] = {"momentum": "momentum_buffer"}

    def factors(self, rate: float, dtype: np.dtype[Any]) -> tuple[float, ...]:
        return rate, 1 - self.dampening if self.step else 1.0

    def move(self, gradient: Array, state: State, factors: tuple[float, ...]) -> Array:
        rate, share = factors
        if not self.momentum:
            return gradient * -rate
        kept = state["momentum"]
        kept *= self.momentum
        kept += gradient if share == 1 else gradient * share
        if not self.nesterov:
            return kept * -rate
        step: Array = kept * self.momentum
        step += gradient
        step *= -rate
        return step


class TorchAdam(TorchOptimizer, Adam):
    """`Adam` as torch has it: epsilon is added after the mean square's bias is corrected."""

    slots: ClassVar[Mapping[str, str]] = {
        "momentum": "exp_avg",
        "velocity": "exp_avg_sq",
        "velocity_hat": "max_exp_avg_sq",
    }

    def factors(self, rate: float, dtype: np.dtype[Any]) -> tuple[float, ...]:
        root = (1 - self.beta_2 ** (self.step + 1)) ** 0.5
        return rate * root / (1 - self.beta_1 ** (self.step + 1)), self.epsilon * root


class TorchAdamW(TorchAdam, AdamW):
    """`AdamW` with the epsilon of `TorchAdam`."""


class TorchNadam(TorchOptimizer, Nadam):
    """`Nadam` whose share of the momentum grows slowly: 1 - 0.96^(momentum_decay t) / 2."""

    momentum_decay: float = 0.004
    slots: ClassVar[Mapping[str, str]] = {"momentum": "exp_avg", "velocity": "exp_avg_sq"}

    def share(self, count: int, dtype: np.dtype[Any]) -> float:
        return float(self.beta_1 * (1 - 0.5 * DECAY ** (count * self.momentum_decay)))


class TorchAdamax(TorchOptimizer, Adamax):
    """`Adamax` with u <- max(beta_2 u, |g| + epsilon)."""

    slots: ClassVar[Mapping[str, str]] = {"momentum": "exp_avg", "norm": "exp_inf"}

    def move(self, gradient: Array, state: State, factors: tuple[float, ...]) -> Array:
        (alpha,) = factors
        momentum, norm = state["momentum"], state["norm"]
        scratch: Array = gradient - momentum
        scratch *= 1 - self.beta_1
        momentum += scratch
        norm *= self.beta_2
        np.abs(gradient, out=scratch)
        scratch += self.epsilon
        np.maximum(norm, scratch, out=norm)
        np.divide(momentum, norm, out=scratch)
        scratch *= -alpha
        return scratch


class TorchRMSprop(TorchOptimizer, RMSprop):
    """`RMSprop` with g / (sqrt(v) + epsilon), and the rate outside of the momentum."""

    slots: ClassVar[Mapping[str, str]] = {
        "velocity": "square_avg",
        "momentum": "momentum_buffer",
        "average_gradient": "grad_avg",
    }

    def move(self, gradient: Array, state: State, factors: tuple[float, ...]) -> Array:
        velocity = state["velocity"]
        scratch = square_mean(gradient, velocity, self.rho)
        if self.centered:
            mean = state["average_gradient"]
            mean += (gradient - mean) * (1 - self.rho)
            np.multiply(mean, mean, out=scratch)
            np.subtract(velocity, scratch, out=scratch)
            np.sqrt(scratch, out=scratch)
        else:
            np.sqrt(velocity, out=scratch)
        scratch += self.epsilon
        np.divide(gradient, scratch, out=scratch)
        if self.momentum > 0:
            kept = state["momentum"]
            kept *= self.momentum
            kept += scratch
            return kept * -factors[0]
        scratch *= -factors[0]
        return scratch


class TorchAdagrad(TorchOptimizer, Adagrad):
    """`Adagrad` with g / (sqrt(a) + epsilon) and a rate of rate / (1 + lr_decay t)."""

    lr_decay: float = 0.0
    slots: ClassVar[Mapping[str, str]] = {"accumulator": "sum"}

    def factors(self, rate: float, dtype: np.dtype[Any]) -> tuple[float, ...]:
        return (rate / (1 + self.step * self.lr_decay),)

    def move(self, gradient: Array, state: State, factors: tuple[float, ...]) -> Array:
        total = state["accumulator"]
        scratch: Array = gradient * gradient
        total += scratch
        np.sqrt(total, out=scratch)
        scratch += self.epsilon
        np.divide(gradient, scratch, out=scratch)
        scratch *= -factors[0]
        return scratch


class TorchAdadelta(TorchOptimizer, Adadelta):
    """`Adadelta` after what torch does to gradients."""

    slots: ClassVar[Mapping[str, str]] = {
        "accumulated_grad": "square_avg",
        "accumulated_delta_var": "acc_delta",
    }


def read(original: Any, trained: Collection[int]) -> TorchOptimizer:
    """An optimizer with the settings of one of torch, without its state.

    Args:
        original: Of torch.optim.
        trained: ids of the parameters that are trained.

    Raises:
        TranslationError: The engine has no such optimizer, or not with these settings.
    """
    kind = type(original).__name__
    group = _group(original, trained)
    rate, decay = group["lr"], group.get("weight_decay", 0.0)
    apart = bool(group.get("decoupled_weight_decay"))
    found = _made(kind, rate, group, decay if apart else 0.0)
    if not apart:
        found.coupled_decay = decay
    found.maximize = bool(group.get("maximize"))
    return found


def parameters_of(original: Any) -> set[int]:
    """The ids of the parameters that it moves.

    Raises:
        TranslationError: It is no optimizer of torch, or somebody has hung hooks on it.
    """
    if not hasattr(original, "param_groups"):
        given = original if isinstance(original, str) else getattr(original, "__name__", original)
        raise TranslationError(
            f"optimizer {given!r} cannot be translated: expected an object such as "
            "torch.optim.SGD(model.parameters(), lr=0.1)."
        )
    hung = torch_hooks.on_optimizer(original)
    if hung:
        kind = type(original).__name__
        raise TranslationError(f"optimizer {kind} cannot be translated: {hung}.")
    return {id(p) for group in original.param_groups for p in group["params"]}


def restore(found: TorchOptimizer, original: Any, owners: Mapping[str, Any]) -> None:
    """Goes on where the torch optimizer stands.

    Args:
        found: As `read` returned it.
        original: Of torch.optim.
        owners: Name of each trained weight, and its `torch_weights.Held` with its shape and dtype.

    Raises:
        TranslationError: The weights have not made the same steps.
    """
    state, steps = {}, set()
    wanted = found.start(np.zeros(())).keys()
    for name, (held, shape, dtype) in owners.items():
        kept = original.state.get(held.tensor) or {}
        arrays = {
            slot: held.read(shape, kept[own]).astype(dtype)
            for slot, own in found.slots.items()
            if slot in wanted and kept.get(own) is not None
        }
        steps.add(int(kept.get("step", bool(arrays))))  # SGD counts none: all that matters is 0
        if arrays:
            state[name] = arrays
    if len(steps) > 1:
        raise TranslationError(
            f"optimizer {type(original).__name__} cannot be translated: its parameters have made "
            f"{min(steps)} to {max(steps)} steps; the engine counts one number for all."
        )
    if state:
        found.restore(steps.pop(), state)


def give_back(found: TorchOptimizer, original: Any, owners: Mapping[str, Any]) -> None:
    """Writes the state into the torch optimizer; the arguments are those of `restore`."""
    if not found.step:
        return
    for name, (held, _, _) in owners.items():
        arrays = found.state.get(name)
        if arrays is None:
            continue
        kept = original.state[held.tensor]
        for slot, array in arrays.items():
            kept[found.slots[slot]] = held.back(array)
        if type(original).__name__ != "SGD":
            single = held.tensor.detach().cpu().new_tensor
            kept["step"] = single(float(found.step))
            if isinstance(found, Nadam):
                kept["mu_product"] = single(found.product)


def _group(original: Any, trained: Collection[int]) -> dict[str, Any]:
    """The settings of all groups, as plain numbers."""
    kind = type(original).__name__
    if not type(original).__module__.startswith("torch.optim."):
        raise TranslationError(f"optimizer {kind} cannot be translated: it is a class of your own.")
    first: dict[str, Any] = {}
    for index, group in enumerate(original.param_groups):
        if not any(id(p) in trained for p in group["params"]):
            continue
        settings = {k: _plain(v) for k, v in group.items() if k not in WITHOUT_EFFECT}
        if "initial_lr" in settings:
            raise TranslationError(
                f"optimizer {kind} cannot be translated: a scheduler changes its learning rate "
                "between the steps, which the engine would not do; translate it without one."
            )
        first = first or settings
        other = next((k for k in settings if settings[k] != first.get(k)), None)
        if other is not None:
            raise TranslationError(
                f"optimizer {kind} cannot be translated: parameter group {index} has "
                f"{other}={settings[other]}, another one {first.get(other)}; the engine has one "
                "group of weights."
            )
    if not first:
        raise TranslationError(
            f"optimizer {kind} cannot be translated: it moves no parameter of the model."
        )
    return first


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_plain(part) for part in value)
    return float(value) if hasattr(value, "item") else value


def _made(kind: str, rate: float, group: Mapping[str, Any], decay: float) -> TorchOptimizer:
    """The optimizer; `decay` is what is taken away from the weights themselves."""
    made: TorchOptimizer
    settings: dict[str, Any] = {}
    if "eps" in group:
        settings["epsilon"] = group["eps"]
    if "betas" in group:
        settings["beta_1"], settings["beta_2"] = group["betas"]
    if kind == "SGD":
        made = TorchSGD(rate, group["momentum"], group["nesterov"])
        made.dampening = group["dampening"]
    elif kind in ("Adam", "AdamW") and decay:
        made = TorchAdamW(rate, decay, amsgrad=group["amsgrad"], **settings)
    elif kind in ("Adam", "AdamW"):
        made = TorchAdam(rate, amsgrad=group["amsgrad"], **settings)
    elif kind == "NAdam":
        made = TorchNadam(rate, weight_decay=decay or None, **settings)
        made.momentum_decay = group["momentum_decay"]
    elif kind == "Adamax":
        made = TorchAdamax(rate, **settings)
    elif kind == "RMSprop":
        shares = {"rho": group["alpha"], "momentum": group["momentum"]}
        made = TorchRMSprop(rate, centered=group["centered"], **shares, **settings)
    elif kind == "Adagrad":
        made = TorchAdagrad(rate, group["initial_accumulator_value"], **settings)
        made.lr_decay = group["lr_decay"]
    elif kind == "Adadelta":
        made = TorchAdadelta(rate, group["rho"], **settings)
    else:
        raise TranslationError(
            f"optimizer {kind} cannot be translated: the engine has SGD, Adam, AdamW, NAdam, "
            "Adamax, RMSprop, Adagrad and Adadelta."
        )
    return made
