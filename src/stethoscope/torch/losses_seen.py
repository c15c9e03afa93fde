"""Loss calls, backward calls and data, as the torch calls of a step show them."""

from __future__ import annotations

import enum
import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from stethoscope.agreement import MAX_ELEMENTS, correlation
from stethoscope.data import DataProfile
from stethoscope.diagnosis import locate
from stethoscope.torch import describe
from stethoscope.torch.describe import Call
from stethoscope.torch.flow import Key, tensors_in
from stethoscope.torch.handwritten import compared
from stethoscope.torch.roots import LossSite, Root
from stethoscope.torch.step import MAX_CALLS, Step, number
from stethoscope.torch.tensors import array, measurable
from stethoscope.torch.tensors import describe as statistics
from stethoscope.types import Stage

PROFILE_BATCHES = 200  # of facts of the data; more says nothing new
BY_HAND = "the loss is written by hand: its metric is computed on probed steps only"
UNKNOWN_FORMULA = "the loss is written by hand, and its formula is not recognised"
METRIC_ELEMENTS = 2**16  # of a prediction: up to here a metric on every step costs microseconds


class Role(enum.Enum):
    """What a torch call means to us, whatever its arguments."""

    LOSS = "loss"
    BACKWARD = "backward"
    SCALE = "scale"
    PASS = "pass"
    OTHER = "other"


@functools.lru_cache(maxsize=4096)
def role(func: Callable[..., Any]) -> Role:
    """The role of a torch function or method."""
    name = getattr(func, "__name__", "")
    if func is Tensor.backward or func is torch.autograd.backward:
        return Role.BACKWARD
    if describe.is_loss(func):
        return Role.LOSS
    if name in (
        "__get__",
        "__set__",
        "size",
        "dim",
        "numel",
        "item",
        "tolist",
        "__len__",
        "__repr__",
    ):
        return Role.PASS
    if name.strip("_").lstrip("ri") in ("mul", "multiply", "div", "true_divide", "truediv"):
        return Role.SCALE
    return Role.OTHER


def inputs(step: Step, root: Root, args: Any) -> None:
    """Statistics and facts of what a root is called with; of its first call of a step."""
    named = args.items() if isinstance(args, dict) else enumerate(args)
    for name, value in named:
        for place, tensor in enumerate(tensors_in(value)):
            text = f"{name}.{place}" if place else str(name)
            key = (root.number, text)
            if step.flow.origin(tensor) or (key, "", Stage.INPUT) in step.tensors:
                continue
            if not measurable(tensor):
                continue
            step.observe(key, "", Stage.INPUT, statistics(tensor))
            root.shapes[text] = tuple(tensor.shape)
            _profile(root.profiles, text, tensor)


def _profile(profiles: dict[str, DataProfile], name: str, tensor: Tensor) -> None:
    if name not in profiles:
        profiles[name] = DataProfile(name, source=locate.here())
    profile = profiles[name]
    if profile.batches < PROFILE_BATCHES:
        profile.add(array(describe.sample(tensor)), str(tensor.dtype).removeprefix("torch."))


def loss(
    step: Step,
    root: Root,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Tensor,
    source: Any,
) -> None:
    """A loss function was called. One that no gradient can flow from is a figure for a log."""
    if not result.requires_grad:
        return
    index = len(step.micro)
    step.micro.append(number(result))
    place = (func.__name__, index)
    pair = describe.prediction_and_target(func, args, kwargs)
    if step.probing:
        arguments(step, root, func, args, kwargs, source, index)
    site = root.last_site.get(place)
    if pair is not None and site is not None:
        step.targets.append(((root.number, f"#{site.number}"), pair[1]))
    small = pair is not None and pair[0].numel() <= METRIC_ELEMENTS
    if site is not None and pair is not None and (step.probing or small):
        _metric(step, site, index, pair)


def arguments(
    step: Step,
    root: Root,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    source: Any,
    index: int = 0,
) -> None:
    """Facts of what a loss function is called with; its result is not needed."""
    pair = describe.prediction_and_target(func, args, kwargs)
    place = (func.__name__, index)
    key: tuple[Any, ...] = (*place, source.file if source else "", source.line if source else 0)
    site = root.sites.get(key)
    if site is None:
        spec = describe.loss_spec(func, args, kwargs, output=None, source=source)
        profile = DataProfile(source=source)
        site = root.sites[key] = LossSite(spec, None, profile, len(root.sites))
    root.last_site[place] = site
    _facts(step, root, site, func, args, kwargs, pair)


def _facts(
    step: Step,
    root: Root,
    site: LossSite,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    pair: tuple[Tensor, Tensor] | None,
) -> None:
    site.calls += 1
    if due(site.calls) and site.calls > 1:
        spec = describe.loss_spec(func, args, kwargs, output=None, source=site.spec.source)
        site.spec = spec
    if pair is None:
        return
    prediction, target = pair
    origin = step.flow.origin(prediction)
    step.flow.read([prediction], "loss")
    if site.output is None and origin is not None:
        site.output, site.computed = origin.layer, origin.layer is None
    _target(step, root, site, target)


def _target(step: Step, root: Root, site: LossSite, target: Tensor) -> None:
    if not measurable(target):
        return
    step.observe((root.number, f"#{site.number}"), "", Stage.TARGET, statistics(target))
    if site.profile.batches < PROFILE_BATCHES:
        site.add(target)


def _metric(step: Step, site: LossSite, index: int, pair: tuple[Tensor, Tensor]) -> None:
    if step.metric_of not in (None, index):
        return
    found = describe.batch_metric(site.spec, *pair)
    if found is not None:
        step.metric_of = index
        step.metrics.setdefault(found[0], []).append(found[1])
    prediction, target = pair
    if prediction.numel() <= MAX_ELEMENTS:
        agrees = correlation(array(prediction), array(target), site.spec.class_axis)
        step.metric_of = index
        step.correlations += [agrees] if agrees is not None else []


def due(count: int) -> bool:
    """Whether facts are to be described again: seldom, and more seldom as they grow."""
    return count in (1, 2, 5, 10, 20, 21) or (count > 21 and count % 50 == 0)


def remember(
    step: Step,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
) -> None:
    """Keeps a call after the model's forward, for a loss that is written by hand."""
    if len(step.calls) < MAX_CALLS and not step.micro:
        step.calls.append(Call(func, args, kwargs, result, locate.here(sys._getframe(3))))


def scaled(step: Step, args: tuple[Any, ...], result: Tensor) -> None:
    """A scalar was multiplied or divided: the loss is the operand that gradients flow from."""
    moving = [a for a in args if isinstance(a, Tensor) and a.requires_grad and a.numel() == 1]
    if len(moving) == 1 and moving[0] is not result:
        step.scale(moving[0], result)


def backward(step: Step, root: Root, tensor: Tensor) -> None:
    """`backward` is about to run from `tensor`: a micro-batch is complete."""
    step.backward.append(number(tensor))
    if step.micro:
        step.losses.append(sum(step.micro))
        step.micro = []
    else:
        plain = step.unscaled(tensor)
        step.losses.append(number(tensor) if plain is None else plain[0])
        made = tensor if plain is None else plain[1]()
        if step.probing and step.calls and made is not None:
            _hand_written(step, root, made)
    step.calls = []


def _hand_written(step: Step, root: Root, loss: Tensor) -> None:
    key = ("hand-written", len(step.losses) - 1)
    site = root.sites.get(key)
    names: dict[int, str] = {}
    keys: dict[str, Key | None] = {}
    made: set[int] = set()
    for call in step.calls:
        for tensor in tensors_in((call.args, call.kwargs)):
            origin = step.flow.origin(tensor)
            if origin is not None and len(origin.keys) == 1:
                text = f"{origin.keys[0][0]}:{origin.keys[0][1]}"
                names[id(tensor)] = text
                if id(tensor) not in made:  # what the model gave, before the loss began
                    keys[text] = origin.layer
        made.update(id(tensor) for tensor in tensors_in(call.result))
    if site is None or due(site.calls + 1):
        spec = describe.hand_written_loss(step.calls, loss, outputs=names)
        if spec is None:
            return
        if site is None:
            profile = DataProfile(source=spec.source)
            site = root.sites[key] = LossSite(spec, None, profile, len(root.sites))
        site.spec = spec
        site.output = keys.get(spec.output or "")
        site.computed = spec.output is not None and site.output is None
    site.calls += 1
    pair = compared(step.calls, loss, outputs=names)
    root.unseen[Stage.METRIC] = UNKNOWN_FORMULA if pair is None else BY_HAND
    if pair is not None:
        _target(step, root, site, pair[1])
        step.targets.append(((root.number, f"#{site.number}"), pair[1]))
        _metric(step, site, 0, pair)
