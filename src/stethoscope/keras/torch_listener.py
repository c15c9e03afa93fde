"""Describing the tensors of one step on the torch backend, while it runs or when it is re-run."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import keras
import torch

from stethoscope.keras.feed import as_numpy
from stethoscope.keras.layout import Layout
from stethoscope.keras.taps import Tapped
from stethoscope.keras.undisturbed import undisturbed
from stethoscope.keras.watch import Observation
from stethoscope.nonfinite import bad_rows, first_nonfinite
from stethoscope.stats import nonfinite
from stethoscope.torch.tensors import describe
from stethoscope.types import Slot, Stage


class Listener:
    """Describes what the layers of one step compute, and the gradients that come back.

    Attributes:
        seen: In the order in which the step computed them.
        rows: Slot to the samples that hold a non-finite value.
        missed: Where functional activations were not seen; "" is the model itself.
        seconds: Time that describing inside the step took.
    """

    def __init__(self) -> None:
        self.seen: list[Observation] = []
        self.rows: dict[Slot, list[int]] = {}
        self.missed: set[str] = set()
        self.seconds = 0.0
        self.problem: Exception | None = None

    def before(self, tapped: Tapped, tensor: Any) -> None:
        """Sees a pre-activation."""
        self._timed(
            Slot(tapped.path, "", Stage.PRE_ACTIVATION),
            tensor,
            saturation=tapped.saturation,
            unit_axis=tapped.unit_axis,
        )

    def after(self, tapped: Tapped, tensor: Any) -> Any:
        """Sees an output, and its gradient when that is known."""
        self._timed(Slot(tapped.path, "", Stage.OUTPUT), tensor, unit_axis=tapped.unit_axis)
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            slot = Slot(tapped.path, "", Stage.OUTPUT_GRAD)
            with contextlib.suppress(RuntimeError):  # a view of a leaf and the like
                tensor.register_hook(  # type: ignore[no-untyped-call]
                    lambda gradient: self._gradient(slot, gradient)
                )
        return tensor

    def _gradient(self, slot: Slot, gradient: Any) -> None:
        """Sees a gradient. Those of a shared layer's calls come back with the first call's last."""
        known = next((i for i, one in enumerate(self.seen) if one[0] == slot), None)
        self._timed(slot, gradient)
        if known is not None and self.seen[-1][0] == slot:
            found = self.seen.pop()[1]
            if nonfinite(found) >= nonfinite(self.seen[known][1]):
                self.seen[known] = (slot, found)

    def miss(self, path: str) -> None:
        """Is told of a functional activation that is not seen."""
        self.missed.add(path)

    def tensor(self, slot: Slot, tensor: Any) -> None:
        """Sees any other tensor of the step."""
        self._see(slot, tensor)

    def _timed(self, slot: Slot, tensor: Any, **how: Any) -> None:
        begun = time.perf_counter()
        self._see(slot, tensor, **how)
        self.seconds += time.perf_counter() - begun

    def _see(self, slot: Slot, tensor: Any, **how: Any) -> None:
        if not isinstance(tensor, torch.Tensor) or tensor.is_meta:
            return
        try:
            vector = describe(tensor.detach(), **how)
            self.seen.append((slot, vector))
            if slot not in self.rows and first_nonfinite([(slot, vector)]):
                self.rows[slot] = bad_rows(as_numpy(tensor))
        except Exception as error:
            # Raised again at the end of the step: an error here would end the user's training.
            self.problem = error

    def data(self, x: Any, y: Any) -> None:
        """Sees the inputs and targets of the step."""
        for stage, data in ((Stage.INPUT, x), (Stage.TARGET, y)):
            for i, tensor in enumerate(t for t in keras.tree.flatten(data) if t is not None):
                if not isinstance(tensor, torch.Tensor):
                    tensor = torch.as_tensor(keras.ops.convert_to_numpy(tensor))
                self._see(Slot("", str(i), stage), tensor)


def rerun(model: Any, layout: Layout, batch: Any, seeds: list[tuple[Any, Any]]) -> Listener:
    """Repeats a step up to its gradients, looking at everything; changes nothing.

    Args:
        model: Its weights are those of the step.
        layout: What to look at.
        batch: Of the step.
        seeds: Variables of random generators with their values before the step.

    Returns:
        What was seen. Side effects of the user's own code in `call` happen once more.
    """
    x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
    listener = Listener()
    listener.data(x, y)
    for parameter in layout.parameters:
        listener.tensor(parameter.slot(Stage.WEIGHT), parameter.variable.value)
    variables = model.trainable_variables
    scope = keras.StatelessScope(state_mapping=seeds, collect_losses=True)
    with undisturbed(), torch.random.fork_rng(), torch.enable_grad(), scope:
        with layout.listening(model, listener):
            how = {"training": True} if model._call_has_training_arg else {}
            outputs = model(x, **how)
        loss = model._compute_loss(x=x, y=y, y_pred=outputs, sample_weight=weight, training=True)
        listener.tensor(Slot("", "", Stage.LOSS), loss)
        values = [variable.value for variable in variables]
        grads = torch.autograd.grad(loss, values, allow_unused=True)
    for held, grad in zip(layout.of(variables), grads, strict=True):
        if held is not None and grad is not None:
            listener.tensor(held.slot(Stage.WEIGHT_GRAD), grad)
    return listener


def seed_variables(model: Any) -> list[Any]:
    """The states of the random generators that a model's layers hold."""
    return [v for v in model.non_trainable_variables if v.path.endswith("seed_generator_state")]
