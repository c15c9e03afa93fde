"""Watching Keras on the torch backend: the real step is looked at while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import torch

from stethoscope.keras.taps import shadow
from stethoscope.keras.torch_listener import Listener, rerun, seed_variables
from stethoscope.keras.watch import INSIDE, Watch
from stethoscope.nonfinite import first_nonfinite
from stethoscope.types import Slot, Stage


class TorchWatch(Watch):
    """Watches one fit on the torch backend."""

    _seed_variables: list[Any] | None = None

    def run(self, original: Callable[..., Any], *args: Any) -> Any:
        """One batch: `args` is the list that holds it."""
        probed = self.monitor.schedule.probe(self.step)
        listener = Listener()
        outputs: list[Any] = []
        with contextlib.ExitStack() as stack:
            with self.ours():
                rate = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
                self._prepare(stack, listener, outputs, probed, args[0][0])
            logs = original(*args)
        self.monitor.spent(listener.seconds)
        with self.ours():
            if listener.problem is not None:
                raise listener.problem
            x, y, _ = keras.utils.unpack_x_y_sample_weight(args[0][0])
            if probed:
                self.declare_functions(listener.missed)
                listener.data(x, y)
                self.look_at_batch(x, y, outputs[0] if outputs else None)
                self.observe([one for one in listener.seen if not one[0].stage.is_scalar])
                self._first_bad(listener)
            values = [float(v.value.detach()) for v in self.meters().variables]
        if self.active:
            self.end_step((values, rate), at_once=probed)
        return logs

    def _prepare(
        self,
        stack: contextlib.ExitStack,
        listener: Listener,
        outputs: list[Any],
        probed: bool,
        batch: Any,
    ) -> None:
        if self.model.jit_compile:
            self.declare("torch.compile runs the step: nothing can be seen in it", *INSIDE)
            return
        optimizer = self.model.optimizer
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        seeds = [] if probed else [(v, v.value.clone()) for v in self._seeds()]
        apply = self._apply(optimizer, listener, probed, batch, seeds)
        stack.callback(shadow(optimizer, "apply", apply))
        loss = _keep_loss(self.model._compute_loss, listener)
        stack.callback(shadow(self.model, "_compute_loss", loss))
        if probed:
            stack.callback(shadow(self.model, "call", _keep_outputs(self.model.call, outputs)))
            stack.enter_context(self.layout.listening(self.model, listener))

    def _seeds(self) -> list[Any]:
        """The states of the random generators of the model's layers."""
        if self._seed_variables is None:
            self._seed_variables = seed_variables(self.model)
        return self._seed_variables

    def _apply(
        self,
        optimizer: Any,
        listener: Listener,
        probed: bool,
        batch: Any,
        seeds: list[Any],
    ) -> Callable[..., Any]:
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
                elif self.scans_left > 0 and not _all_finite(grads):
                    self._scan(batch, seeds, grads, variables)
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

    def _first_bad(self, listener: Listener) -> None:
        found = first_nonfinite(listener.seen) if self.scans_left > 0 else None
        if found is not None:
            self.found(found, self.step, listener.rows)

    def _scan(self, batch: Any, seeds: list[Any], grads: list[Any], variables: list[Any]) -> None:
        """Names the first non-finite tensor of a plain step whose gradients are not finite."""
        listener = rerun(self.model, self.layout, batch, seeds)
        if first_nonfinite(listener.seen) is None:
            # Not reproduced: the gradients are all that is known for certain.
            for parameter, grad in zip(self.layout.of(variables), grads, strict=False):
                if parameter is not None and grad is not None:
                    listener.tensor(parameter.slot(Stage.WEIGHT_GRAD), grad)
        self._first_bad(listener)


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
