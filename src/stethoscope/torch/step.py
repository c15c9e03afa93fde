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
from stethoscope.torch.flow import Flow, Key, tensors_in
from stethoscope.torch.roots import LossSite, Root
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


@dataclasses.dataclass(eq=False)
class LossCall:
    """A call of a loss function that no `backward` has come from yet.

    Attributes:
        value: The mean of its result.
        elements: Numbers in its result; 1 when it is reduced.
        made: Number of its autograd node: it tells nodes apart and keeps no graph alive.
        index: Place among the loss calls of the micro-batch.
        site: What is known of the call; None when it was never probed.
        count: Samples of its target.
        target: Statistics of the target, on a probed step.
        metric: Name and value of its metric.
        correlation: Of the prediction with the target.
    """

    value: float
    elements: int
    made: int | None
    index: int
    site: LossSite | None = None
    count: int = 1
    target: tuple[Key, FloatArray] | None = None
    metric: tuple[str, float] | None = None
    correlation: float | None = None


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
        self.pending: list[LossCall] = []
        self.called = 0  # loss calls of this micro-batch
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
        self._hooked: dict[Key, int] = {}
        self._gradient_of: dict[Key, int] = {}

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
        self.pending = []
        self.before = []
        self.flow = Flow()

    def observe(self, key: Key, param: str, stage: Stage, row: FloatArray) -> None:
        """Keeps the statistics of one tensor; the first of a step, unless a later one is worse."""
        place = (key, param, stage)
        seen = self.tensors.get(place)
        if seen is None or nonfinite(row) > nonfinite(seen):
            self.tensors[place] = row

    def hook(self, key: Key) -> int:
        """Numbers the calls of a layer whose gradients will come back."""
        call = self._hooked[key] = self._hooked.get(key, -1) + 1
        return call

    def observe_gradient(self, key: Key, call: int, row: FloatArray) -> None:
        """Keeps the gradient of the first call's output, unless a later one's is worse.

        Within one backward pass that of the last call comes first.
        """
        place = (key, "", Stage.OUTPUT_GRAD)
        seen = self.tensors.get(place)
        if seen is not None:
            more = nonfinite(row) - nonfinite(seen)
            if more < 0 or (more == 0 and call > self._gradient_of[key]):
                return
        self.tensors[place], self._gradient_of[key] = row, call

    def add_loss(self, call: LossCall) -> None:
        """A loss function was called; `backward` will tell what for."""
        if len(self.pending) < MAX_CALLS:
            self.pending.append(call)

    def samples(self) -> int:
        """Size of the latest batch, from the first tensor that a model was called with."""
        if not self.batches:
            return 0
        batch = self.batches[-1]
        first = next(tensors_in((batch.args, batch.kwargs)), None)
        return len(first) if first is not None and first.ndim else 0

    def take(self, call: LossCall) -> None:
        """The facts of a loss call that is trained on."""
        if call.target is not None:
            self.observe(call.target[0], "", Stage.TARGET, call.target[1])
        if call.metric is None and call.correlation is None:
            return
        if self.metric_of not in (None, call.index):
            return
        if call.elements > 1 and call.site is not None and call.site.altered:
            return  # a metric of elements that the program may leave out
        self.metric_of = call.index
        if call.metric is not None:
            self.metrics.setdefault(call.metric[0], []).append(call.metric[1])
        if call.correlation is not None:
            self.correlations.append(call.correlation)

    def settle(self) -> None:
        """The step is over: where no `backward` was seen, its loss calls are what is trained on."""
        if not self.backward:
            for call in self.pending:
                self.take(call)

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
        """Mean over micro-batches of what `backward` came from; None when no loss was seen."""
        values = list(self.losses)
        if not self.backward and self.pending:
            values = [sum(call.value for call in self.pending)]
        if not values:
            return None
        return values[0] if self.closure else sum(values) / len(values)


def number(tensor: Tensor) -> float:
    """The value of a loss; the mean of one that is not yet reduced."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        value = tensor.detach()
        return float(value if value.numel() == 1 else value.float().mean())
