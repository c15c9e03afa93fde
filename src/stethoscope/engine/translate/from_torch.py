"""From a torch.nn.Sequential with its loss and optimizer, by reading it: torch is not imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stethoscope import engine
from stethoscope.engine.layers._base import Layer, Shape, Symbol
from stethoscope.engine.network import Input
from stethoscope.engine.translate import torch_hooks, torch_layers, torch_losses, torch_optimizers
from stethoscope.engine.translate.settings import TranslationError, where
from stethoscope.engine.translate.torch_weights import Held, weights_of
from stethoscope.types import SourceRef
from stethoscope.vocabulary import LayerKind

FOLLOWERS = (LayerKind.ACTIVATION, LayerKind.DROPOUT, LayerKind.RESHAPE)
"""Kinds whose units are where those of their input are."""


class TorchReader:
    """Translates one module.

    Args:
        model: A torch.nn.Sequential; it may hold others.
        loss: A loss module.
        optimizer: Of the module's parameters, with the same settings for all.
        input_shape: Of one sample, in torch's order: channels first.
        sources: id of a module to the call that constructed it, where that is known.
        dtype: Of the engine model.
    """

    def __init__(
        self,
        model: Any,
        loss: Any,
        optimizer: Any,
        input_shape: Shape,
        sources: Mapping[int, SourceRef],
        dtype: str,
    ) -> None:
        self.model = model
        self._loss, self._optimizer = loss, optimizer
        self._input_shape, self._dtype = tuple(input_shape), dtype
        self._sources = sources
        self._modules: dict[Layer, Any] = {}
        self._tracked: dict[Layer, int] = {}  # batches that a normalization has counted

    def read(self) -> engine.Model:
        """The engine model with the weights, the loss and the optimizer's state of the original.

        Raises:
            TranslationError: see `translate`.
        """
        trained = self._trained()
        symbol = first = Input(self._input_shape)
        names: dict[int, Layer] = {}
        for name, module in _modules(self.model):
            place = f"layer {where(type(module).__name__, name, self._sources.get(id(module)))}"
            layer = names.get(id(module))
            if layer is None or not weights_of(module):
                layer = self._layer(name, module, symbol, place, trained)
            names[id(module)] = layer
            try:
                symbol = layer(symbol)
            except (ValueError, IndexError) as error:
                raise TranslationError(f"{place} cannot be translated: {error}") from error
        if symbol is first:
            raise TranslationError("the model cannot be translated: it has no layers.")
        found = engine.Model(first, symbol, dtype=self._dtype)
        self._copy_weights(found)
        if self._loss is not None and self._optimizer is not None:
            loss = torch_losses.read(self._loss)
            loss.source = self._sources.get(id(self._loss), loss.source)
            optimizer = torch_optimizers.read(self._optimizer, trained)
            optimizer.source = self._sources.get(id(self._optimizer), optimizer.source)
            found.compile(optimizer, loss)
            torch_optimizers.restore(optimizer, self._optimizer, self._owners(found))
        return found

    def give_back(self, found: engine.Model) -> None:
        """Writes the weights and the optimizer's state of an engine model into the original."""
        for layer, module in self._modules.items():
            held = weights_of(module)
            for name, value in found.network.weights_of(layer).items():
                held[name].tensor.detach().copy_(held[name].back(value))
        for layer, count in self._tracked.items():
            if layer.trainable:
                uses = sum(node.layer is layer for node in found.network.nodes)
                self._modules[layer].num_batches_tracked.fill_(count + uses * found.steps)
        if isinstance(found.optimizer, torch_optimizers.TorchOptimizer):
            torch_optimizers.give_back(found.optimizer, self._optimizer, self._owners(found))

    def _trained(self) -> set[int]:
        """The ids of the parameters that training moves."""
        own = {id(p): p for p in self.model.parameters()}
        trained = {number for number, p in own.items() if p.requires_grad}
        if self._optimizer is None:
            return trained
        moved = torch_optimizers.parameters_of(self._optimizer)
        if moved - own.keys():
            raise TranslationError(
                f"optimizer {type(self._optimizer).__name__} cannot be translated: it has other "
                "parameters than the model."
            )
        return trained & moved

    def _layer(
        self, name: str, module: Any, symbol: Symbol, place: str, trained: set[int]
    ) -> Layer:
        problem = _problem(module)
        if problem:
            raise TranslationError(f"{place} cannot be translated: {problem}.")
        frozen = self.model.training and not module.training
        try:
            layer = torch_layers.layer_of(module, symbol.shape, frozen)
        except (ValueError, TypeError, IndexError, ZeroDivisionError) as error:
            raise TranslationError(f"{place} cannot be translated: {error}") from error
        layer.name, layer.source = name, self._sources.get(id(module))
        if layer.kind in FOLLOWERS:
            first = 1 if len(symbol.shape) == 3 else -1
            layer.units_on(symbol.layer.unit_axis if symbol.layer else first)
        self._freeze(layer, module, place, frozen, trained)
        held = weights_of(module)
        if held:
            taken = {id(one.tensor) for known in self._held() for one in known.values()}
            if any(id(one.tensor) in taken for one in held.values()):
                raise TranslationError(f"{place} cannot be translated: it shares its parameters.")
            self._modules[layer] = module
            if getattr(module, "num_batches_tracked", None) is not None:
                self._tracked[layer] = int(module.num_batches_tracked)
        return layer

    def _freeze(
        self, layer: Layer, module: Any, place: str, frozen: bool, trained: set[int]
    ) -> None:
        """Says whether the layer is trained: all of it or nothing."""
        read = {id(one.tensor) for one in weights_of(module).values()}
        parameters = list(module.parameters(recurse=False))
        if {id(p) for p in parameters} - read:
            names = ", ".join(n for n, _ in module.named_parameters(recurse=False))
            raise TranslationError(
                f"{place} cannot be translated: the engine does not read all of its parameters "
                f"{names}."
            )
        moved = {id(p) in trained for p in parameters}
        if len(moved) > 1:
            raise TranslationError(f"{place} cannot be translated: a part of it is frozen.")
        layer.trainable = moved != {False}
        if isinstance(layer, engine.BatchNormalization):
            if frozen and not parameters:
                layer.trainable = False
            if frozen == layer.trainable:
                raise TranslationError(
                    f"{place} cannot be translated: its weights are "
                    + ("trained" if frozen else "frozen")
                    + " while it uses the statistics of "
                    + ("all batches" if frozen else "each batch")
                    + "; the engine does both or neither."
                )

    def _held(self) -> Iterator[dict[str, Held]]:
        for module in self._modules.values():
            yield weights_of(module)

    def _copy_weights(self, found: engine.Model) -> None:
        for layer, module in self._modules.items():
            held = weights_of(module)
            for name, weight in found.network.weights_of(layer).items():
                try:
                    value = held[name].read(weight.shape)
                except ValueError as error:
                    place = where(type(module).__name__, layer.name, layer.source)
                    raise TranslationError(
                        f"layer {place} cannot be translated: {error}"
                    ) from error
                found.network.weights[f"{layer.name}/{name}"] = value.astype(self._dtype)

    def _owners(self, found: engine.Model) -> dict[str, tuple[Held, Shape, np.dtype[Any]]]:
        """Name of each trained weight: where it is in torch, and its shape and dtype here."""
        trained, owners = set(found.network.trained), {}
        for layer, module in self._modules.items():
            for name, held in weights_of(module).items():
                full = f"{layer.name}/{name}"
                if full in trained:
                    weight = found.network.weights[full]
                    owners[full] = held, weight.shape, weight.dtype
        return owners


def _problem(module: Any) -> str:
    """Why a module cannot be read at all, whatever its class does; "" if it can."""
    if not type(module).__module__.startswith("torch.nn.modules."):
        return "it is a class of your own"
    own = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    for name, tensor in own:
        if "Uninitialized" in type(tensor).__name__:
            return f"its {name} has no shape before the first batch"
        if str(tensor.dtype) not in ("torch.float32", "torch.float64", "torch.int64"):
            return f"it computes in {str(tensor.dtype).removeprefix('torch.')}"
        if tensor.device.type == "meta":
            return f"its {name} has no values"
    return torch_hooks.on_module(module)


def _modules(model: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The modules of nested Sequentials in their order, under torch's names."""
    if not _chain(model):
        raise TranslationError(
            f"model {type(model).__name__} cannot be translated: its data flow is not written "
            "down. Use a torch.nn.Sequential."
        )
    for name, module in model._modules.items():
        if _chain(module):
            yield from _modules(module, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", module


def _chain(module: Any) -> bool:
    """Whether it calls its children one after the other, and nothing else."""
    kinds = [
        kind
        for kind in type(module).__mro__
        if (kind.__module__, kind.__name__) == ("torch.nn.modules.container", "Sequential")
    ]
    if not kinds or torch_hooks.on_module(module):
        return False
    return bool(type(module).forward is vars(kinds[0])["forward"])


def input_shape(shape: Sequence[int] | None, model: Any) -> Shape:
    """The shape of one sample; a module that starts with a Linear says it itself.

    Raises:
        TranslationError: It has to be given.
    """
    if shape is not None:
        return tuple(shape)
    for _, module in _modules(model):
        if type(module).__name__ == "Linear" and hasattr(module, "in_features"):
            return (int(module.in_features),)
        if type(module).__name__ not in ("Identity", "Dropout"):
            break
    raise TranslationError(
        "the shape of the input is not written in the model: give input_shape, of one sample."
    )
