"""Watching Keras on the torch backend: the real step is looked at while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import torch

from stethoscope.keras.nonfinite import bad_rows, first_nonfinite
from stethoscope.keras.taps import Tapped, shadow, tap
from stethoscope.keras.watch import Observation, Watch
from stethoscope.torch.tensors import describe
from stethoscope.types import Slot, Stage


class Listener:
    """Describes what the layers of one step compute, and the gradients that come back.

    Attributes:
        seen: In the order in which the step computed them.
        rows: Slot to the samples that hold a non-finite value.
    """

    def __init__(self) -> None:
        self.seen: list[Observation] = []
        self.rows: dict[Slot, list[int]] = {}
        self._called: set[str] = set()
        self.problem: Exception | None = None

    def before(self, tapped: Tapped, tensor: Any) -> None:
        """Sees a pre-activation."""
        self._see(
            Slot(tapped.path, "", Stage.PRE_ACTIVATION),
            tensor,
            saturation=tapped.saturation,
            unit_axis=tapped.unit_axis,
        )

    def after(self, tapped: Tapped, tensor: Any) -> Any:
        """Sees an output, and its gradient when that is known."""
        self._see(Slot(tapped.path, "", Stage.OUTPUT), tensor, unit_axis=tapped.unit_axis)
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            slot = Slot(tapped.path, "", Stage.OUTPUT_GRAD)
            with contextlib.suppress(RuntimeError):  # a view of a leaf and the like
                tensor.register_hook(lambda gradient: self._see(slot, gradient))
        return tensor

    def tensor(self, slot: Slot, tensor: Any) -> None:
        """Sees any other tensor of the step."""
        self._see(slot, tensor)

    def _see(self, slot: Slot, tensor: Any, **how: Any) -> None:
        if not isinstance(tensor, torch.Tensor) or tensor.is_meta:
            return
        try:
            vector = describe(tensor.detach(), **how)
            self.seen.append((slot, vector))
            if slot not in self.rows and first_nonfinite([(slot, vector)]):
                self.rows[slot] = bad_rows(tensor)
        except Exception as error:
            # Raised again at the end of the step: an error here would end the user's training.
            self.problem = error


class TorchWatch(Watch):
    """Watches one fit on the torch backend."""

    def run(self, original: Callable[..., Any], *args: Any) -> Any:
        """One batch: `args` is the list that holds it."""
        probed = self.monitor.schedule.probe(self.step)
        listener = Listener()
        outputs: list[Any] = []
        with contextlib.ExitStack() as stack:
            with self.ours():
                rate = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
                self._prepare(stack, listener, outputs, probed)
            logs = original(*args)
        with self.ours():
            if listener.problem is not None:
                raise listener.problem
            x, y, _ = keras.utils.unpack_x_y_sample_weight(args[0][0])
            if probed:
                self._data(listener, x, y)
                self.observe([one for one in listener.seen if not one[0].stage.is_scalar])
                self.look_at_batch(x, y, outputs[0] if outputs else None)
                self._first_bad(listener)
            values = [float(v.value.detach()) for v in self.meters().variables]
        if self.active:
            self.end_step((values, rate), at_once=probed)
        return logs

    def _prepare(
        self, stack: contextlib.ExitStack, listener: Listener, outputs: list[Any], probed: bool
    ) -> None:
        if self.model.jit_compile:
            self.declare("activations", "torch.compile runs the step: nothing can be seen in it")
            return
        optimizer = self.model.optimizer
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        stack.callback(shadow(optimizer, "apply", self._apply(optimizer, listener, probed)))
        loss = _keep_loss(self.model._compute_loss, listener)
        stack.callback(shadow(self.model, "_compute_loss", loss))
        if probed:
            stack.callback(shadow(self.model, "call", _keep_outputs(self.model.call, outputs)))
            stack.enter_context(tap(self.layout.tapped, listener))

    def _apply(self, optimizer: Any, listener: Listener, probed: bool) -> Callable[..., Any]:
        original = optimizer.apply

        def apply(grads: Any, trainable_variables: Any = None) -> Any:
            grads = list(grads)
            if trainable_variables is None:
                variables = list(getattr(optimizer, "_trainable_variables", ()))
            else:
                variables = trainable_variables = list(trainable_variables)
            before: list[Any] = []
            with self.ours():
                if probed:
                    before = self._before(listener, grads, variables)
                elif self.scans_left and not _all_finite(grads):
                    self.scan(listener, grads, variables)
            result = original(grads, trainable_variables)
            with self.ours():
                for parameter, old in before:
                    new = parameter.variable.value.detach()
                    listener.tensor(parameter.slot(Stage.UPDATE), new - old)
            return result

        return apply

    def _before(self, listener: Listener, grads: list[Any], variables: list[Any]) -> list[Any]:
        """Looks at gradients and weights before the update; returns copies of the weights."""
        before = []
        for parameter, grad in zip(self.layout.of(variables), grads, strict=False):
            if parameter is None or grad is None:
                continue
            weight = parameter.variable.value.detach()
            listener.tensor(parameter.slot(Stage.WEIGHT_GRAD), grad)
            listener.tensor(parameter.slot(Stage.WEIGHT), weight)
            before.append((parameter, weight.clone()))
        return before

    def _data(self, listener: Listener, x: Any, y: Any) -> None:
        for stage, data in ((Stage.INPUT, x), (Stage.TARGET, y)):
            for i, tensor in enumerate(t for t in keras.tree.flatten(data) if t is not None):
                if not isinstance(tensor, torch.Tensor):
                    tensor = torch.as_tensor(keras.ops.convert_to_numpy(tensor))
                listener.tensor(Slot("", str(i), stage), tensor)

    def _first_bad(self, listener: Listener) -> None:
        found = first_nonfinite(listener.seen) if self.scans_left else None
        if found is not None:
            self.report_nonfinite(found, self.step, listener.rows.get(found[0], ()))

    def scan(self, listener: Listener, grads: list[Any], variables: list[Any]) -> None:
        """Names the first non-finite tensor of a plain step whose gradients are not finite."""


def _keep_outputs(original: Callable[..., Any], outputs: list[Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        outputs.append([t.detach() for t in keras.tree.flatten(result) if t is not None])
        return result

    return call


def _keep_loss(original: Callable[..., Any], listener: Listener) -> Callable[..., Any]:
    def compute_loss(*args: Any, **kwargs: Any) -> Any:
        loss = original(*args, **kwargs)
        listener.tensor(Slot("", "", Stage.LOSS), loss)
        return loss

    return compute_loss


def _all_finite(grads: list[Any]) -> bool:
    known = [g.detach() for g in grads if isinstance(g, torch.Tensor) and not g.is_sparse]
    if not known:
        return True
    total = torch.stack([n.float() for n in torch._foreach_norm(known)]).sum()
    return bool(torch.isfinite(total).item())
