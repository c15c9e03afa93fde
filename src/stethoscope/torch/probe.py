"""What happens inside a forward pass on a probed step: every layer, every call that matters.

Statistics are taken at once, inside the hook: a later in-place operation may overwrite a tensor.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from stethoscope.diagnosis import locate
from stethoscope.stats import FloatArray
from stethoscope.torch import describe
from stethoscope.torch.calls import activation_axis, keeps_values, writes_in_place
from stethoscope.torch.flow import Key, Node, Origin, merged, tensors_in
from stethoscope.torch.roots import Root
from stethoscope.torch.step import Step
from stethoscope.torch.tensors import describe as statistics
from stethoscope.torch.tensors import measurable
from stethoscope.types import Stage
from stethoscope.vocabulary import ACTIVATIONS, LayerKind

LAST_AXIS = frozenset(
    {LayerKind.DENSE, LayerKind.RECURRENT, LayerKind.EMBEDDING, LayerKind.ATTENTION}
)
LAST_AXIS_TYPES = frozenset({"LayerNorm", "RMSNorm"})
FUNCTIONAL = frozenset(
    {
        LayerKind.ACTIVATION,
        LayerKind.DROPOUT,
        LayerKind.POOLING,
        LayerKind.NORMALIZATION,
        LayerKind.ATTENTION,
        LayerKind.RESCALE,
    }
)
"""Kinds of call that are a layer; a merge is one when it joins two layers, the rest never is."""

SETTINGS = ("dim", "p", "kernel_size", "training", "negative_slope", "alpha")


@dataclasses.dataclass
class Open:
    """A module that is running."""

    module: nn.Module
    path: str
    atomic: bool
    inputs: list[Origin]
    kind: LayerKind | None = None
    activation: str | None = None
    before: FloatArray | None = None


class Probe:
    """Watches one forward pass of a root.

    Args:
        step: Where what is seen goes.
        root: The model.
    """

    def __init__(self, step: Step, root: Root) -> None:
        self.step = step
        self.root = root
        self.open: list[Open] = []
        self.muted = 0
        self.outside = False
        self._counts: dict[tuple[str, str], int] = {}

    # Modules

    def enter(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """A module of the root starts."""
        path = self.root.path(module)
        atomic = self.muted == 0 and is_layer(module)
        now = Open(module, path, atomic, [])
        self.open.append(now)
        if self.muted:
            return
        if atomic:
            now.kind, now.activation = self.root.kind(module)
            tensors = list(tensors_in(args))
            now.inputs = self._read(tensors, (self.root.number, path))
            if now.kind is LayerKind.ACTIVATION and tensors and measurable(tensors[0]):
                now.before = self._before(tensors[0], now.activation)
            if not is_users(module):
                self.muted += 1

    def leave(self, module: nn.Module, output: Any, kwargs: dict[str, Any], failed: bool) -> None:
        """A module of the root ends."""
        while self.open:
            now = self.open.pop()
            if now.atomic and not is_users(now.module):
                self.muted -= 1
            if now.module is module:
                break
        else:
            return
        if self.muted or not now.atomic or failed:
            return
        key = (self.root.number, now.path)
        if kwargs:
            now.inputs += self._read(list(tensors_in(kwargs)), key)
        outputs = list(tensors_in(output))
        kind = now.kind or LayerKind.OTHER
        name = type(module).__name__
        node = self._node(Node(key, kind, now.activation or name, functional=False), outputs)
        self.step.flow.connect(now.inputs or [Origin((), False, None)], key)
        axis = _unit_axis(kind, name, outputs, now.inputs)
        if now.before is not None:
            self.step.observe(key, "", Stage.PRE_ACTIVATION, now.before)
        for tensor in outputs:
            if not self._made_by_call_inside(tensor, key):
                self.step.flow.mark(tensor, Origin((key,), tensor is outputs[0], axis))
        if outputs:
            self._output(node.key, outputs[0], axis)

    # Calls

    def before_call(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[LayerKind, str, FloatArray | None, list[Origin]] | None:
        """A torch call of the user's is about to run: what it is, where that matters."""
        found = describe.call_kind(func, args, kwargs)
        if found is None or found[0] not in FUNCTIONAL:
            return None
        kind, name = found
        tensors = list(tensors_in((args, kwargs)))
        origins = [o for t in tensors if (o := self.step.flow.origin(t))]
        if not tensors or (self.outside and (kind is not LayerKind.ACTIVATION or not origins)):
            return None
        before = None
        if kind is LayerKind.ACTIVATION and measurable(tensors[0]):
            before = self._before(tensors[0], name)
        return kind, name, before, origins

    def after_call(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        seen: tuple[LayerKind, str, FloatArray | None, list[Origin]] | None,
    ) -> None:
        """The call has run."""
        outputs = list(tensors_in(result))
        if not outputs or getattr(func, "__name__", "") == "__get__":
            return
        flow = self.step.flow
        tensors = list(tensors_in((args, kwargs)))
        owner = next((o.path for o in reversed(self.open)), "")
        if seen is None and not self.outside:
            seen = self._merge(func, args, kwargs, tensors)
        if seen is None:
            self._through(func, tensors, outputs)
            return
        kind, name, before, origins = seen
        key = (self.root.number, self._call_path(owner, name))
        self._read(tensors, key)
        node = Node(key, kind, name, functional=True)
        exact = [o for o in origins if o.exact]
        if kind is LayerKind.ACTIVATION and exact and not self.outside:
            node.base = exact[0].keys[0]
        node = self._node(node, outputs)
        if node.source is None:
            node.source = locate.here(sys._getframe(2))
            node.config = _settings(args, kwargs, kind)
            over = activation_axis(func, args, kwargs, outputs[0].ndim)
            if kind is LayerKind.ACTIVATION and over is not None:
                node.config["axis"] = over
        flow.connect(origins or [Origin((), False, None)], key)
        axis = _unit_axis(kind, name, outputs, origins)
        for tensor in outputs:
            flow.mark(tensor, Origin((key,), tensor is outputs[0], axis))
        if before is not None:
            self.step.observe(key, "", Stage.PRE_ACTIVATION, before)
        self._output(key, outputs[0], axis)

    def _merge(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: list[Tensor],
    ) -> tuple[LayerKind, str, FloatArray | None, list[Origin]] | None:
        origins = [o for t in tensors if (o := self.step.flow.origin(t))]
        if len({o.keys for o in origins}) < 2:
            return None
        found = describe.call_kind(func, args, kwargs)
        if found is None or found[0] is not LayerKind.MERGE:
            return None
        return LayerKind.MERGE, found[1], None, origins

    def _through(
        self, func: Callable[..., Any], tensors: list[Tensor], outputs: list[Tensor]
    ) -> None:
        """A call that is no layer: its outputs come from wherever its inputs came from.

        A product with a parameter is made by the module that holds the parameter.
        """
        flow = self.step.flow
        owners = [
            (self.root.number, self.root.params[id(t)][0])
            for t in tensors
            if id(t) in self.root.params and not self.outside
        ]
        origins = self._read([t for t in tensors if id(t) not in self.root.params], func)
        if owners:
            flow.connect(origins or [Origin((), False, None)], owners[0])
            # Whatever was done to its inputs, the module that holds the parameter gave this.
            origin = Origin((owners[0],), False, None, same=True)
        elif origins:
            axis = origins[0].unit_axis
            if len(outputs[0].shape) != len(tensors[0].shape):
                axis = -1
            same = keeps_values(func, len(origins) == len(tensors)) and all(
                o.layer is not None for o in origins
            )
            origin = Origin(merged(origins), False, axis, same)
        else:
            return
        known = {id(t) for t in tensors}
        written = not keeps_values(func) and writes_in_place(func)
        for tensor in outputs:
            if written or id(tensor) not in known or flow.origin(tensor) is None:
                flow.mark(tensor, origin)

    # Helpers

    def _read(self, tensors: list[Tensor], reader: object) -> list[Origin]:
        return self.step.flow.read(tensors, reader)

    def _before(self, tensor: Tensor, activation: str | None) -> FloatArray:
        facts = ACTIVATIONS.get(activation or "")
        interval = facts.saturation if facts and _finite(facts.saturation) else None
        origin = self.step.flow.origin(tensor)
        axis = origin.unit_axis if origin else (1 if tensor.ndim == 4 else -1)
        return statistics(tensor, saturation=interval, unit_axis=axis)

    def _node(self, node: Node, outputs: list[Tensor]) -> Node:
        known = self.step.flow.nodes.setdefault(node.key, node)
        if outputs and known.shape is None:
            known.shape = tuple(outputs[0].shape)
        return known

    def _made_by_call_inside(self, tensor: Tensor, key: Key) -> bool:
        """Whether a call that is a layer of its own, inside the module, made its output."""
        origin = self.step.flow.origin(tensor)
        inside = f"{key[1]}/"
        return origin is not None and any(
            n == key[0] and p.startswith(inside) for n, p in origin.keys
        )

    def _call_path(self, owner: str, name: str) -> str:
        """`owner/relu`, then `owner/relu_1`, in the order of the calls of one pass."""
        count = self._counts[owner, name] = self._counts.get((owner, name), -1) + 1
        text = f"{name}_{count}" if count else name
        return f"{owner}/{text}" if owner else f"/{text}"

    def _output(self, key: Key, tensor: Tensor, axis: int | None) -> None:
        if not measurable(tensor):
            return
        self.step.observe(key, "", Stage.OUTPUT, statistics(tensor, unit_axis=axis))
        if tensor.requires_grad and torch.is_grad_enabled():
            hook = _gradient_hook(self.step, key, self.step.hook(key))
            tensor.register_hook(hook)  # type: ignore[no-untyped-call]


class _gradient_hook:  # noqa: N801 (a callable with a mark, used as a function)
    """Records the gradient of one output; drops what it holds once the step has ended."""

    __torch_unserializable__ = True  # torch then stays silent when the tensor is pickled

    def __init__(self, step: Step, key: Key, call: int) -> None:
        self._step: Step | None = step
        self._key = key
        self._call = call

    def __call__(self, gradient: Tensor) -> None:
        step = self._step
        if step is None or not step.probing or not measurable(gradient):
            return
        try:
            step.observe_gradient(self._key, self._call, statistics(gradient))
        except Exception as error:  # not in the user's backward pass: at the next hook of ours
            self._step, step.problem = None, error


def is_users(module: nn.Module) -> bool:
    """Whether its calls are looked at: a class that torch itself does not define."""
    return not type(module).__module__.startswith("torch.nn.")


def is_layer(module: nn.Module) -> bool:
    """Whether a module is one layer: it has no children that it calls, or torch says what it is."""
    if isinstance(module, nn.modules.loss._Loss):
        return False
    if isinstance(module, nn.MultiheadAttention):
        return True
    children = [name for name in module._modules if name != "parametrizations"]
    if children:
        return False
    return not is_users(module) or bool(module._parameters)


def _finite(interval: tuple[float, float]) -> bool:
    return any(abs(bound) != float("inf") for bound in interval)


def _unit_axis(
    kind: LayerKind, name: str, outputs: list[Tensor], inputs: list[Origin]
) -> int | None:
    if not outputs or outputs[0].ndim < 2:
        return None
    if kind is LayerKind.CONV:
        return 1
    if kind in LAST_AXIS or name in LAST_AXIS_TYPES or outputs[0].ndim == 2:
        return -1
    if inputs and inputs[0].unit_axis is not None:
        return inputs[0].unit_axis
    return 1 if outputs[0].ndim >= 4 or kind is LayerKind.NORMALIZATION else -1


def _settings(args: tuple[Any, ...], kwargs: dict[str, Any], kind: LayerKind) -> dict[str, Any]:
    config = {n: kwargs[n] for n in SETTINGS if isinstance(kwargs.get(n), (int, float))}
    plain = [a for a in args[1:2] if isinstance(a, (int, float)) and not isinstance(a, bool)]
    if kind is LayerKind.ACTIVATION:
        config.pop("dim", None)  # it is the axis
    elif plain and kind is LayerKind.DROPOUT:
        config.setdefault("p", plain[0])
    elif plain and kind is LayerKind.RESCALE:
        config["factor"] = plain[0]
    if kind is LayerKind.DROPOUT:
        config["rate"] = config.get("p", 0.5)
    return config
