"""Loss calls, backward calls and data, as the torch calls of a step show them."""

from __future__ import annotations

import enum
import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from stethoscope.agreement import MAX_ELEMENTS, correlation
from stethoscope.data import DataProfile
from stethoscope.diagnosis import locate
from stethoscope.torch import describe
from stethoscope.torch.backward_graph import made_by, upstream
from stethoscope.torch.describe import Call
from stethoscope.torch.flow import Key, tensors_in
from stethoscope.torch.handwritten import compared
from stethoscope.torch.roots import LossSite, Root
from stethoscope.torch.step import MAX_CALLS, LossCall, Step, number
from stethoscope.torch.tensors import array, measurable
from stethoscope.torch.tensors import describe as statistics
from stethoscope.types import Stage

HAND_WRITTEN = "hand-written"
SAME = 0.01  # a tiny penalty, and rounding in half precision, leave the meaning of a value
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
    index, step.called = step.called, step.called + 1
    place = (func.__name__, index)
    pair = describe.prediction_and_target(func, args, kwargs)
    if step.probing:
        arguments(step, root, func, args, kwargs, source, index)
    call = LossCall(number(result), result.numel(), made_by(result), index)
    step.add_loss(call)
    call.site = site = root.last_site.get(place)
    if pair is None or site is None:
        return
    prediction, target = pair
    call.count = len(target) if target.ndim else 1
    key = (root.number, f"#{site.number}")
    step.targets.append((key, target))
    if step.probing and measurable(target):
        call.target = (key, statistics(target))
    if step.probing or prediction.numel() <= METRIC_ELEMENTS:
        call.metric, call.correlation = _metric(site, prediction, target)


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


def refused(
    step: Step,
    root: Root,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    source: Any,
) -> None:
    """A loss function raised on its arguments: they may be what the Program shows to be wrong."""
    arguments(step, root, func, args, kwargs, source)
    pair = describe.prediction_and_target(func, args, kwargs)
    trained = any(site.fed for site in root.sites.values())
    if pair is not None and not trained and measurable(pair[1]):
        site = root.last_site[func.__name__, 0]
        step.observe((root.number, f"#{site.number}"), "", Stage.TARGET, statistics(pair[1]))
    step.refused = True


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
    if measurable(target) and site.profile.batches < PROFILE_BATCHES:
        site.add(target)


def _metric(
    site: LossSite, prediction: Tensor, target: Tensor
) -> tuple[tuple[str, float] | None, float | None]:
    """The metric of a batch, and the correlation of its predictions with its targets."""
    found = describe.batch_metric(site.spec, prediction, target)
    if prediction.numel() > MAX_ELEMENTS:
        return found, None
    return found, correlation(array(prediction), array(target), site.spec.class_axis)


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
    if len(step.calls) < MAX_CALLS:
        step.calls.append(Call(func, args, kwargs, result, locate.here(sys._getframe(3))))


def scaled(step: Step, args: tuple[Any, ...], result: Tensor, by_scaler: bool) -> None:
    """A scalar was multiplied or divided by a number: that is no other loss.

    A tensor is such a number in the hands of a GradScaler only; else it is a count or a weight.
    """
    if not by_scaler and sum(isinstance(a, Tensor) for a in args) > 1:
        return
    moving = [a for a in args if isinstance(a, Tensor) and a.requires_grad and a.numel() == 1]
    if len(moving) == 1 and moving[0] is not result:
        step.scale(moving[0], result)


def backward(step: Step, root: Root, tensor: Tensor) -> None:
    """`backward` is about to run from `tensor`: a micro-batch is complete.

    What is followed is this tensor, before it was scaled. The loss calls that it was computed
    from say what it means; the others are figures for a log, and no part of the loss.
    """
    given = number(tensor)
    step.backward.append(given)
    plain = step.unscaled(tensor)
    value = given if plain is None else plain[0]
    fed = _fed(step, tensor)
    if fed:
        step.pending = [call for call in step.pending if call not in fed]
        step.losses.append(_course(root, fed, value, given))
        for call in fed:
            step.take(call)
    else:
        made = tensor if plain is None else plain[1]()
        if step.probing and step.calls and made is not None:
            _hand_written(step, root, made)
        site = root.sites.get((HAND_WRITTEN, len(step.losses)))
        if site is not None and site.spec.reduction == "sum":
            value = site.of_a_first_batch(value, step.samples())
        step.losses.append(value)
    step.calls = []
    step.called = 0


def _fed(step: Step, tensor: Tensor) -> list[LossCall]:
    """The loss calls that `tensor` was computed from."""
    if not step.pending:
        return []
    nodes = upstream(tensor, {call.made for call in step.pending if call.made is not None})
    return [call for call in step.pending if call.made in nodes]


def _course(root: Root, fed: list[LossCall], value: float, given: float) -> float:
    """The value that a step adds to the course of the loss; notes what the program made of it.

    Args:
        root: The model.
        fed: The loss calls that `backward` came from.
        value: Of the tensor of `backward`, before it was scaled by numbers.
        given: Of that tensor itself.
    """
    for call in fed:
        if call.site is not None and not call.site.fed:
            call.site.fed = root.news = True
    site, call = fed[0].site, fed[0]
    if site is None or len(fed) > 1 or not math.isfinite(value):
        return value
    seen = (site.altered, site.whole)
    if math.isclose(value, call.value, rel_tol=SAME):
        site.whole = site.whole or "mean"
    elif math.isclose(value, call.value * call.elements, rel_tol=SAME):
        site.whole = "sum"
    elif math.isfinite(call.value):
        site.altered = True
    if value and math.isfinite(given):
        site.multiplied(given / value)
    if seen != (site.altered, site.whole):
        root.news = True
    summed = site.whole == "sum" or site.spec.reduction == "sum"
    if summed and math.isclose(value, call.value * call.elements, rel_tol=SAME):
        return site.of_a_first_batch(value, call.count)
    return value


def _hand_written(step: Step, root: Root, loss: Tensor) -> None:
    key = (HAND_WRITTEN, len(step.losses))
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
            site = root.sites[key] = LossSite(spec, None, profile, len(root.sites), fed=True)
            root.news = True
        site.spec = spec
        site.output = keys.get(spec.output or "")
        site.computed = spec.output is not None and site.output is None
    site.calls += 1
    pair = compared(step.calls, loss, outputs=names)
    root.unseen[Stage.METRIC] = UNKNOWN_FORMULA if pair is None else BY_HAND
    if pair is not None:
        place = (root.number, f"#{site.number}")
        if measurable(pair[1]):
            step.observe(place, "", Stage.TARGET, statistics(pair[1]))
            if site.profile.batches < PROFILE_BATCHES:
                site.add(pair[1])
        step.targets.append((place, pair[1]))
        whole = LossCall(math.nan, 1, None, 0, site)
        whole.metric, whole.correlation = _metric(site, *pair)
        step.take(whole)
