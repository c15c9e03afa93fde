"""From a torch.nn.Sequential with its loss and optimizer, by reading it: torch is not imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stethoscope import engine
from stethoscope.engine import losses, optimizers
from stethoscope.engine.layers._base import Array, Layer, Shape
from stethoscope.engine.optimizers.adam import Adam, AdamW
from stethoscope.engine.translate.settings import TranslationError, where

ACTIVATIONS = {
    "ReLU": "relu",
    "ReLU6": "relu6",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "SELU": "selu",
    "SiLU": "silu",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Identity": "linear",
}
"""Modules whose settings leave nothing open; others have a case of their own in `_layer`."""


class TorchReader:
    """Translates one module.

    Args:
        model: A torch.nn.Sequential; it may hold others.
        loss: A loss module.
        optimizer: Of all the module's parameters, in one group.
        input_shape: Of one sample.
        dtype: Of the engine model.
    """

    def __init__(
        self, model: Any, loss: Any, optimizer: Any, input_shape: Shape, dtype: str
    ) -> None:
        self._model, self._loss, self._optimizer = model, loss, optimizer
        self._input_shape, self._dtype = tuple(input_shape), dtype

    def read(self) -> engine.Sequential:
        """The engine model with the weights, the loss and the optimizer's state of the original.

        Raises:
            TranslationError: see `translate`.
        """
        pairs = [(_layer(name, module), module) for name, module in _modules(self._model)]
        layers = [layer for layer, _ in pairs]
        found = engine.Sequential(layers, dtype=self._dtype)
        found.build(self._input_shape)
        for node, (_, module) in zip(found.network.nodes, pairs, strict=True):
            flat = len(node.shape) == 1
            if type(module).__name__.endswith("Softmax") and module.dim == 1 and not flat:
                raise TranslationError(
                    f"layer {node.path!r} cannot be translated: its dim 1 is not the last axis."
                )
        if type(self._loss).__name__ == "CrossEntropyLoss" and not flat:
            raise TranslationError(
                "loss CrossEntropyLoss cannot be translated: its classes are axis 1 of a "
                f"prediction of shape {found.network.nodes[-1].shape}."
            )
        owners: dict[int, str] = {}  # id of a parameter -> name of the engine's weight
        for layer, module in pairs:
            for name, (parameter, turned) in _parameters(module).items():
                full = f"{layer.name}/{name}"
                if id(parameter) in owners:
                    raise TranslationError(
                        f"layer {layer.name!r} cannot be translated: it shares its parameters."
                    )
                owners[id(parameter)] = full
                found.network.weights[full] = _numpy(parameter, turned).astype(self._dtype)
            needed = [bool(p.requires_grad) for p in module.parameters(recurse=False)]
            if len(set(needed)) > 1:
                raise TranslationError(
                    f"layer {layer.name!r} cannot be translated: a part of it is frozen."
                )
            layer.trainable = all(needed)
        if self._loss is not None and self._optimizer is not None:
            found.compile(self._read_optimizer(owners), _read_loss(self._loss))
            self._restore(found, owners)
        return found

    def _read_optimizer(self, owners: dict[int, str]) -> optimizers.Optimizer:
        original, kind = self._optimizer, type(self._optimizer).__name__
        _of_torch(original, f"optimizer {kind}")
        if len(original.param_groups) != 1:
            raise TranslationError(
                f"optimizer {kind} cannot be translated: the engine has one group of weights; "
                f"got {len(original.param_groups)}."
            )
        (group,) = original.param_groups
        if {id(p) for p in group["params"]} != owners.keys():
            raise TranslationError(
                f"optimizer {kind} cannot be translated: it has other parameters than the model."
            )
        decay = group.get("weight_decay", 0)
        if group.get("maximize") or (decay and kind != "AdamW"):
            name = "maximize" if group.get("maximize") else f"weight_decay={decay}"
            raise TranslationError(
                f"optimizer {kind} cannot be translated: the engine has no {name} that is part of "
                "the gradient."
            )
        rate = float(group["lr"])
        if kind == "SGD" and not group["dampening"]:
            return optimizers.SGD(rate, group["momentum"], group["nesterov"])
        if kind in ("Adam", "AdamW") and not group["amsgrad"]:
            shares = {"beta_1": group["betas"][0], "beta_2": group["betas"][1]}
            if kind == "Adam" or not decay:
                return TorchAdam(rate, epsilon=group["eps"], **shares)
            return TorchAdamW(rate, decay, epsilon=group["eps"], **shares)
        raise TranslationError(
            f"optimizer {kind} cannot be translated: the engine has SGD without dampening and "
            "Adam and AdamW without amsgrad."
        )

    def _restore(self, found: engine.Sequential, owners: dict[int, str]) -> None:
        """Goes on where the torch optimizer stands."""
        optimizer, step = found.optimizer, 0
        state: dict[str, dict[str, Array]] = {}
        turned = {
            id(parameter): turn
            for _, module in _modules(self._model)
            for parameter, turn in _parameters(module).values()
        }
        for parameter, kept in self._optimizer.state.items():
            if not kept:
                continue
            slots = {}
            if "exp_avg" in kept:
                step = int(kept["step"])
                slots = {"momentum": kept["exp_avg"], "velocity": kept["exp_avg_sq"]}
            elif kept.get("momentum_buffer") is not None:
                rate = float(self._optimizer.param_groups[0]["lr"])
                slots = {"momentum": kept["momentum_buffer"] * -rate}
            if slots:
                arrays = {k: _numpy(v, turned[id(parameter)]) for k, v in slots.items()}
                state[owners[id(parameter)]] = {k: v.astype(self._dtype) for k, v in arrays.items()}
        if optimizer is not None and state:
            optimizer.restore(step, state)


class TorchAdam(Adam):
    """`Adam` as torch has it: epsilon is added after the mean square's bias is corrected."""

    def factors(self, rate: float, dtype: np.dtype[Any]) -> tuple[float, ...]:
        rest_2 = 1 - self.beta_2 ** (self.step + 1)
        alpha = rate * rest_2**0.5 / (1 - self.beta_1 ** (self.step + 1))
        return alpha, self.epsilon * rest_2**0.5

    def move(
        self, gradient: Array, state: optimizers._base.State, factors: tuple[float, ...]
    ) -> Array:
        alpha, epsilon = factors
        momentum, velocity = state["momentum"], state["velocity"]
        momentum += (gradient - momentum) * (1 - self.beta_1)
        velocity *= self.beta_2
        velocity += gradient * gradient * (1 - self.beta_2)
        scratch: Array = np.sqrt(velocity)
        scratch += epsilon
        np.divide(momentum, scratch, out=scratch)
        scratch *= -alpha
        return scratch


class TorchAdamW(TorchAdam, AdamW):
    """`AdamW` with the epsilon of `TorchAdam`."""


class _SameShape(losses.Loss):
    """Torch repeats targets of another shape, Keras takes an axis of size 1 away: neither here."""

    def fit(self, target: Array, prediction: Array) -> tuple[Array, Array]:
        if np.shape(target) != prediction.shape:
            raise ValueError(
                f"a loss of torch is translated for targets of the prediction's shape "
                f"{prediction.shape}; got {np.shape(target)}: reshape the targets."
            )
        return super().fit(target, prediction)


class _SquaredError(_SameShape, losses.MeanSquaredError):
    """MSELoss."""


class _AbsoluteError(_SameShape, losses.MeanAbsoluteError):
    """L1Loss."""


class _Huber(_SameShape, losses.Huber):
    """HuberLoss, SmoothL1Loss."""


def _modules(model: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The modules of nested Sequentials in their order, under torch's names."""
    if type(model).__name__ != "Sequential" or not hasattr(model, "named_children"):
        raise TranslationError(
            f"model {type(model).__name__} cannot be translated: its data flow is not written "
            "down. Use a torch.nn.Sequential."
        )
    for name, module in model._modules.items():
        if type(module).__name__ == "Sequential":
            yield from _modules(module, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", module


def _layer(name: str, module: Any) -> Layer:
    kind = type(module).__name__
    place = f"layer {where(kind, name)}"
    _of_torch(module, place)
    layer: Layer | None = None
    if kind == "Linear":
        layer = engine.Dense(module.out_features, use_bias=module.bias is not None)
    elif kind in ACTIVATIONS and (kind != "Softplus" or module.beta == 1):
        layer = engine.Activation(ACTIVATIONS[kind])
    elif kind == "LeakyReLU":
        layer = engine.LeakyReLU(module.negative_slope)
    elif kind == "ELU":
        layer = engine.ELU(module.alpha)
    elif kind == "GELU" and module.approximate == "tanh":
        layer = engine.Activation("gelu")
    elif kind in ("Softmax", "LogSoftmax") and module.dim in (-1, 1):
        layer = engine.Activation("softmax" if kind == "Softmax" else "log_softmax")
    elif kind == "Dropout":
        layer = engine.Dropout(module.p)
    elif kind == "Flatten" and (module.start_dim, module.end_dim) == (1, -1):
        layer = engine.Flatten()
    elif kind == "LayerNorm" and len(module.normalized_shape) == 1 and module.weight is not None:
        center = module.bias is not None
        layer = engine.LayerNormalization(epsilon=module.eps, center=center)
    elif kind == "Embedding" and module.padding_idx is None and module.max_norm is None:
        layer = engine.Embedding(module.num_embeddings, module.embedding_dim)
    if layer is None:
        raise TranslationError(
            f"{place} cannot be translated: the engine does not read {module} of torch."
        )
    layer.name = name
    return layer


def _parameters(module: Any) -> dict[str, tuple[Any, bool]]:
    """The engine's name of each parameter -> it, and whether its axes are turned round."""
    kind = type(module).__name__
    names = {
        "Linear": {"kernel": ("weight", True), "bias": ("bias", False)},
        "LayerNorm": {"gamma": ("weight", False), "beta": ("bias", False)},
        "Embedding": {"embeddings": ("weight", False)},
    }.get(kind, {})
    found = {name: (getattr(module, own), turned) for name, (own, turned) in names.items()}
    return {name: pair for name, pair in found.items() if pair[0] is not None}


def _read_loss(loss: Any) -> losses.Loss:
    kind = type(loss).__name__
    _of_torch(loss, f"loss {kind}")
    plain = loss.reduction == "mean" and getattr(loss, "weight", None) is None
    if kind == "MSELoss" and plain:
        return _SquaredError()
    if kind == "L1Loss" and plain:
        return _AbsoluteError()
    if (kind == "HuberLoss" or (kind == "SmoothL1Loss" and loss.beta == 1)) and plain:
        return _Huber(getattr(loss, "delta", 1.0))
    if kind == "CrossEntropyLoss" and plain and not loss.label_smoothing:
        return losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=loss.ignore_index
        )
    if kind == "BCEWithLogitsLoss" and plain and loss.pos_weight is None:
        return losses.BinaryCrossentropy(from_logits=True)
    raise TranslationError(
        f"loss {kind} cannot be translated: the engine reads MSELoss, L1Loss, HuberLoss, "
        "SmoothL1Loss with beta 1, CrossEntropyLoss on class ids and BCEWithLogitsLoss, each with "
        f"reduction 'mean' and without weights; got {loss} with reduction {loss.reduction!r}."
    )


def _of_torch(thing: Any, place: str) -> None:
    if not type(thing).__module__.startswith("torch."):
        raise TranslationError(f"{place} cannot be translated: it is a class of your own.")


def _numpy(tensor: Any, turned: bool) -> Array:
    value = np.asarray(tensor.detach().cpu())
    return np.ascontiguousarray(value.T) if turned else value


def input_shape(shape: Sequence[int] | None, model: Any) -> Shape:
    """The shape of one sample; a module that starts with a Linear says it itself.

    Raises:
        TranslationError: It has to be given.
    """
    if shape is not None:
        return tuple(shape)
    for _, module in _modules(model):
        if type(module).__name__ == "Linear":
            return (int(module.in_features),)
        if type(module).__name__ != "Identity":
            break
    raise TranslationError(
        "the shape of the input is not written in the model: give input_shape, of one sample."
    )
