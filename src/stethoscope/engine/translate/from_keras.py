"""From a compiled Keras 3 model to an engine model, by reading it: Keras itself is not imported."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stethoscope import engine
from stethoscope.engine import losses, optimizers
from stethoscope.engine.layers._base import Layer, Symbol
from stethoscope.engine.translate import keras_metrics, own
from stethoscope.engine.translate.settings import (
    TranslationError,
    construct,
    is_layer,
    of_keras,
    where,
)
from stethoscope.types import SourceRef

ARITHMETIC = {"Add": "Add", "Subtract": "Subtract", "Multiply": "Multiply"}
"""Operators on symbolic tensors that are one of the engine's merging layers."""


class KerasReader:
    """Translates one model.

    Args:
        model: A built Keras model.
        sources: id of a layer to the call that constructed it, where that is known.
        dtype: Of the engine model.
    """

    def __init__(self, model: Any, sources: Mapping[int, SourceRef], dtype: str) -> None:
        self.model = model
        self._sources = sources
        self._dtype = dtype
        self._prefix = ""  # the models around the layer that is read
        self._symbols: dict[int, Symbol] = {}
        self._layers: dict[int, Layer] = {}
        self._originals: dict[Layer, Any] = {}

    def read(self) -> engine.Model:
        """The engine model with the weights, the losses and the optimizer's state of the original.

        Raises:
            TranslationError: see `translate`.
        """
        inputs = self._ends("inputs")
        own.refuse(self.model, "model", self.model.name)
        for i, tensor in enumerate(inputs):
            name = str(getattr(tensor, "name", i))
            self._symbols[id(tensor)] = engine.Input(_shape(tensor, name), name)
        outputs = [self._symbol(tensor) for tensor in self._ends("outputs")]
        found = engine.Model([self._symbols[id(t)] for t in inputs], outputs, dtype=self._dtype)
        for layer, original in self._originals.items():
            self._copy_weights(found, layer, original)
        if getattr(self.model, "compiled", False) and self.model.optimizer is not None:
            self._compile(found)
        return found

    def give_back(self, found: engine.Model) -> None:
        """Writes the weights and the optimizer's state of an engine model into the original."""
        for layer, original in self._originals.items():
            held = _weights(original)
            for name, value in found.network.weights_of(layer).items():
                held[name].assign(value)
        optimizer = self.model.optimizer
        if found.optimizer is None or optimizer is None:
            return
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        held = _variables(optimizer)
        held["iteration"].assign(found.optimizer.step)
        for name, slots in self._slots(found).items():
            state = found.optimizer.state.get(name, {})  # none of what never had a gradient
            for slot, value in state.items():
                held[slots[slot]].assign(value)
        if isinstance(found.optimizer, optimizers.Nadam):
            optimizer._u_product.assign(found.optimizer.product)

    def _slots(self, found: engine.Model) -> dict[str, dict[str, str]]:
        """Engine weight -> state of its optimizer -> name of the Keras variable that holds it."""
        slots: dict[str, dict[str, str]] = {}
        optimizer = found.optimizer
        if optimizer is None:
            return slots
        for layer, original in self._originals.items():
            trained = {id(variable) for variable in original.trainable_variables}
            for short, variable in _weights(original).items():
                if id(variable) not in trained:
                    continue
                name = f"{layer.name}/{short}"
                prefix = variable.path.replace("/", "_")
                kept = optimizer.start(found.network.weights[name])
                slots[name] = {slot: f"{prefix}_{slot}" for slot in kept}
        return slots

    def _ends(self, name: str) -> list[Any]:
        ends = getattr(self.model, name, None)
        if not ends:
            raise TranslationError(
                f"model {self.model.name!r} ({type(self.model).__name__}) cannot be translated: the"
                f" data flow of a subclassed model, or of one without an input shape, is not"
                " written down. Use a functional or Sequential model that starts with keras.Input."
            )
        return _flat(ends)

    def _symbol(self, tensor: Any) -> Symbol:
        """What the engine computes for a symbolic tensor of Keras."""
        pending = [tensor]
        while pending:  # no recursion: a model may be thousands of layers deep
            last = pending[-1]
            if id(last) in self._symbols:
                pending.pop()
                continue
            node = _node(last)
            missing = [t for t in node.input_tensors if id(t) not in self._symbols]
            if missing:
                pending.extend(missing)
                continue
            read = [self._symbols[id(t)] for t in node.input_tensors]
            operation = node.operation
            own.refuse_arguments(node, f"{self._prefix}{operation.name}")
            if hasattr(operation, "layers") and hasattr(operation, "inputs"):
                self._inside(operation, read, node)
            else:
                self._symbols[id(last)] = self._layer(operation, node)(read)
        return self._symbols[id(tensor)]

    def _inside(self, model: Any, read: Sequence[Symbol], node: Any) -> None:
        """A model used as a layer: its own layers take its place."""
        own.refuse(model, "model", f"{self._prefix}{model.name}")
        # each use computes the model's tensors anew, also if they are part of the outer one too
        outer, self._symbols = self._symbols, {}
        prefix, self._prefix = self._prefix, f"{self._prefix}{model.name}/"
        for inner, symbol in zip(_flat(model.inputs), read, strict=True):
            self._symbols[id(inner)] = symbol
        made = [self._symbol(tensor) for tensor in _flat(model.outputs)]
        self._symbols, self._prefix = outer, prefix
        for tensor, symbol in zip(_flat(node.outputs), made, strict=True):
            self._symbols[id(tensor)] = symbol

    def _layer(self, original: Any, node: Any) -> Layer:
        known = self._layers.get(id(original))
        if known is not None:
            return known
        source = self._sources.get(id(original))
        kind, name = type(original).__name__, f"{self._prefix}{original.name}"
        place = f"layer {where(kind, name, source)}"
        if not of_keras(type(original)):
            raise TranslationError(f"{place} cannot be translated: it is a class of your own.")
        own.refuse(original, "layer", name)
        has_config = hasattr(original, "get_config") and hasattr(original, "trainable_variables")
        kind = kind if has_config else ARITHMETIC.get(kind, "")
        found: Any = getattr(engine, kind, None)
        if kind == "Identity":
            found = engine.Activation
        if not is_layer(found):
            raise TranslationError(f"{place} cannot be translated: the engine has no such layer.")
        config = original.get_config() if has_config else {}
        policy = config.get("dtype")
        policy = policy["config"]["name"] if isinstance(policy, Mapping) else policy
        if policy not in (None, "float32", "float64"):
            raise TranslationError(f"{place} cannot be translated: it computes in {policy}.")
        if kind == "Identity":
            config = {"activation": "linear"}
        layer: Layer = construct(found, config, place)
        taken = {other.name for other in self._layers.values()}
        if name in taken:  # of another model of the same name that is used as a layer
            name = next(new for i in itertools.count(2) if (new := f"{name}.{i}") not in taken)
        layer.name, layer.source = name, source
        layer.trainable = bool(getattr(original, "trainable", True))
        self._layers[id(original)] = layer
        if has_config:
            self._originals[layer] = original
        return layer

    def _copy_weights(self, found: engine.Model, layer: Layer, original: Any) -> None:
        held = _weights(original)
        for name, weight in found.network.weights_of(layer).items():
            value = held.get(name)
            if value is None or tuple(value.shape) != weight.shape:
                shape = None if value is None else tuple(value.shape)
                raise TranslationError(
                    f"layer {where(type(original).__name__, layer.name, layer.source)} cannot be"
                    f" translated: expected {name} of shape {weight.shape}, found {shape}."
                )
            found.network.weights[f"{layer.name}/{name}"] = _numpy(value).astype(self._dtype)

    def _compile(self, found: engine.Model) -> None:
        model = self.model
        optimizer = self._optimizer(model.optimizer)
        compiled = model._compile_loss
        given = compiled._user_loss
        names = [str(name) for name in getattr(model, "output_names", ())]
        if isinstance(given, Mapping):
            given = [given.get(name) for name in names]
        weights = compiled._user_loss_weights
        if isinstance(weights, Mapping):
            weights = [weights.get(name, 1.0) for name in names]
        per_output = (
            _flat(given) if isinstance(given, list | tuple) else [given] * len(names or [0])
        )
        found.compile(
            optimizer,
            [self._loss(loss) for loss in per_output],
            metrics=keras_metrics.read(getattr(model, "_compile_metrics", None), names),
            loss_weights=None if weights is None else [float(w) for w in _flat(weights)],
        )
        found.output_names = names if len(names) > 1 else []
        self._exclude(found)
        self._restore(found)

    def _loss(self, loss: Any) -> losses.Loss:
        name = loss if isinstance(loss, str) else type(loss).__name__
        kind = getattr(losses, name, None)
        if kind is not None and of_keras(type(loss)) and hasattr(loss, "get_config"):
            # the configuration leaves out what Keras hands on to the loss function
            settings = {**loss.get_config(), **getattr(loss, "_fn_kwargs", {})}
            found: losses.Loss = construct(kind, settings, f"loss {name}")
        else:
            found = _named("loss", losses.get, str(getattr(loss, "__name__", name)), loss)
        found.source = self._sources.get(id(loss))  # else it was written in `compile`
        return found

    def _optimizer(self, original: Any) -> optimizers.Optimizer:
        name = type(original).__name__
        kind = getattr(optimizers, name, None)
        if kind is None or not of_keras(type(original)):
            raise TranslationError(f"optimizer {name} cannot be translated: the engine has none.")
        optimizer: optimizers.Optimizer = construct(
            kind, original.get_config(), f"optimizer {where(name, str(original.name))}"
        )
        optimizer.source = self._sources.get(id(original))
        optimizer.rate_source = self._sources.get(id(getattr(original, "_learning_rate", None)))
        return optimizer

    def _exclude(self, found: engine.Model) -> None:
        """Weights that the Keras optimizer was told not to decay."""
        optimizer = self.model.optimizer
        if found.optimizer is not None and found.optimizer.weight_decay:
            found.optimizer.exclude_from_weight_decay(
                f"{layer.name}/{name}"
                for layer, original in self._originals.items()
                for name, variable in _weights(original).items()
                if not optimizer._use_weight_decay(variable)
            )

    def _restore(self, found: engine.Model) -> None:
        """Goes on where the Keras optimizer stands."""
        held = _variables(self.model.optimizer)
        step = int(_numpy(held["iteration"])) if "iteration" in held else 0
        if found.optimizer is not None and step:
            slots = self._slots(found)
            state = {
                name: {slot: _numpy(held[full]) for slot, full in kept.items() if full in held}
                for name, kept in slots.items()
            }
            found.optimizer.restore(step, state)


def _variables(owner: Any) -> dict[str, Any]:
    return {v.path.rsplit("/", 1)[-1]: v for v in getattr(owner, "variables", ())}


def _weights(layer: Any) -> dict[str, Any]:
    """The variables of a layer under the engine's names."""
    if hasattr(layer, "forward_layer") and hasattr(layer, "backward_layer"):
        directions = (("forward_", layer.forward_layer), ("backward_", layer.backward_layer))
        return {
            prefix + name: variable
            for prefix, one in directions
            for name, variable in _variables(one).items()
        }
    return _variables(layer)


def _named(what: str, get: Any, name: str, original: Any = None) -> Any:
    if original is not None and not isinstance(original, str) and not of_keras(original):
        raise TranslationError(
            f"{what} {name!r} cannot be translated: it is a function of your own."
        )
    try:
        return get(name)
    except (ValueError, TypeError) as error:
        raise TranslationError(
            f"{what} {name!r} cannot be translated: the engine has no such {what}."
        ) from error


def _node(tensor: Any) -> Any:
    history = tensor._keras_history
    return history.operation._inbound_nodes[history.node_index]


def _shape(tensor: Any, name: str) -> tuple[int, ...]:
    shape = tuple(tensor.shape)[1:]
    if any(size is None for size in shape):
        raise TranslationError(f"input {name!r} has an open axis: {shape}; the engine needs sizes.")
    return tuple(int(size) for size in shape)


def _numpy(variable: Any) -> Any:
    value = variable.numpy() if hasattr(variable, "numpy") else variable
    return np.asarray(value)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [item for key in sorted(value) for item in _flat(value[key])]
    if isinstance(value, list | tuple):
        return [item for part in value for item in _flat(part)]
    return [value]
