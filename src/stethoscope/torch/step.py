"""What was seen since the last optimizer step: collected by the hooks, emptied into a run."""

from __future__ import annotations

import dataclasses
import weakref
from collections import deque
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from stethoscope.stats import FloatArray, nonfinite
from stethoscope.torch.describe import Call
from stethoscope.torch.flow import Flow, Key
from stethoscope.torch.roots import Root
from stethoscope.types import SourceRef, Stage

MAX_BATCHES = 8  # references that one step keeps, for the scan
MAX_FORWARDS = 64  # in one step; more are no training step, and are not worth recording
MAX_CALLS = 400  # after the model's forward; a hand-written loss is shorter


@dataclasses.dataclass
class Batch:
    """One forward pass, as it can be run again while the weights are those of this step.

    Attributes:
        root, module: What was called.
        args, kwargs: References, not copies.
        rng: State of torch's generator before the pass.
    """

    root: Root
    module: nn.Module
    args: tuple[Any, ...]
    rng: Tensor
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)


class Scaled(NamedTuple):
    """A scalar that is another one times a number."""

    result: weakref.ref[Tensor]
    value: float
    tensor: weakref.ref[Tensor]


class Step:
    """One step in the making.

    Args:
        probing: Whether full statistics are taken.
    """

    def __init__(self, probing: bool) -> None:
        self.probing = probing
        self.flow = Flow()
        self.tensors: dict[tuple[Key, str, Stage], FloatArray] = {}
        self.batches: deque[Batch] = deque(maxlen=MAX_BATCHES)
        self.targets: deque[tuple[Key, Tensor]] = deque(maxlen=MAX_BATCHES)
        self.roots: list[Root] = []
        self.forwards = 0
        self.losses: list[float] = []
        self.micro: list[float] = []
        self.backward: list[float] = []
        self.metrics: dict[str, list[float]] = {}
        self.metric_of: int | None = None
        self.correlations: list[float] = []
        self.calls: list[Call] = []
        self.events: list[dict[str, Any]] = []
        self.spent = 0.0
        self.closure = False
        self.problem: Exception | None = None  # of ours, inside the backward pass
        self.refused = False  # a loss raised on its arguments
        self.fingerprint: float | None = None
        self.update_source: SourceRef | None = None
        self.before: list[tuple[Tensor, Tensor]] = []
        self.scaled: dict[int, Scaled] = {}

    def add(self, batch: Batch) -> None:
        """A forward pass begins."""
        self.batches.append(batch)
        self.calls.clear()
        if batch.root not in self.roots:
            self.roots.append(batch.root)
        self.forwards += 1
        if self.forwards > MAX_FORWARDS:
            self.probing = False

    def release(self) -> None:
        """Lets go of everything of the user's: the step is over."""
        self.probing = False
        self.batches.clear()
        self.targets.clear()
        self.calls.clear()
        self.before = []
        self.flow = Flow()

    def observe(self, key: Key, param: str, stage: Stage, row: FloatArray) -> None:
        """Keeps the statistics of one tensor; the first of a step, unless a later one is worse."""
        place = (key, param, stage)
        seen = self.tensors.get(place)
        if seen is None or nonfinite(row) > nonfinite(seen):
            self.tensors[place] = row

    def scale(self, operand: Tensor, result: Tensor) -> None:
        """Notes that `result` is `operand` times a number."""
        found = self.unscaled(operand)
        value, tensor = found if found is not None else (number(operand), weakref.ref(operand))
        self.scaled[id(result)] = Scaled(weakref.ref(result), value, tensor)

    def unscaled(self, loss: Tensor) -> tuple[float, weakref.ref[Tensor]] | None:
        """The loss before it was multiplied or divided by numbers (GradScaler, accumulation).

        Its value, and the tensor while it lives; None when `loss` was not scaled.
        """
        found = self.scaled.get(id(loss))
        if found is None or found.result() is not loss:
            return None
        return found.value, found.tensor

    def loss(self) -> float | None:
        """Mean over micro-batches of the sum of the loss calls of each; None when none was seen."""
        values = self.losses + ([sum(self.micro)] if self.micro else [])
        if not values:
            return None
        return values[0] if self.closure else sum(values) / len(values)


def number(tensor: Tensor) -> float:
    """The value of a loss; the mean of one that is not yet reduced."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        value = tensor.detach()
        return float(value if value.numel() == 1 else value.float().mean())
