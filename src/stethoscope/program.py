"""The Program: what the user wrote, as far as an adapter could see it.

A Program is plain data. Every field that an adapter could not determine is `None`; nothing is
guessed. It is revised as the run shows more (the first forward pass, the first loss call, the
first batches): a `Row` of the trace carries the revision in force at its step.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from stethoscope.codec import decode, encode
from stethoscope.types import SourceRef
from stethoscope.vocabulary import LOSSES, PASS_THROUGH, Expects, LayerKind, TargetKind

SHUFFLED_BATCHES_TO_BELIEVE = 20  # DESIGN: counts and ranges accuse only after 20 shuffled batches


@dataclasses.dataclass(frozen=True)
class LayerSpec:
    """One layer, module or functional activation.

    Attributes:
        path: Attribute path or Keras name; unique in the Program.
        type: The class or function name, as the user knows it ("Linear", "relu").
        kind: What it does; see `vocabulary.LayerKind`.
        activation: Canonical name of the activation applied last inside this layer ("linear"
            when there is known to be none); None when unknown.
        config: Whatever else a rule may need (units, rate, axis, kernel_size, initializer, ...).
        params: Parameter name to shape, in definition order.
        trainable: Whether any parameter is to be trained; None for a layer without parameters.
        output_shape: With the batch axis first, as seen in the first forward pass.
        source: The call that constructed it.
        activation_source: The call that applied or named its activation, where that is another.
    """

    path: str
    type: str
    kind: LayerKind
    activation: str | None = None
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    params: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    trainable: bool | None = None
    output_shape: tuple[int, ...] | None = None
    source: SourceRef | None = None
    activation_source: SourceRef | None = None

    @property
    def units(self) -> int | None:
        """Size of the last axis of the output; None when it was not seen."""
        return self.output_shape[-1] if self.output_shape else None


@dataclasses.dataclass(frozen=True)
class ColumnFacts:
    """Range of one feature over the rows seen."""

    min: float
    max: float
    mean: float
    std: float


@dataclasses.dataclass(frozen=True)
class ConstantErrors:
    """What the best prediction scores that is the same for every sample, position by position.

    Attributes:
        squared: Mean squared error of the means.
        absolute: Mean absolute error of the medians.
        binary: Binary crossentropy of the means; None where a value is outside 0..1.
    """

    squared: float
    absolute: float
    binary: float | None = None


@dataclasses.dataclass(frozen=True)
class DataSpec:
    """Facts of one input or target (or of a prediction) over the rows seen so far.

    Attributes:
        name: Input or target name; "" when there is one only.
        shape: Of one sample, without the batch axis.
        batch_shape: Of the last batch, with the batch axis.
        dtype: As the framework names it.
        min, max, mean, std: Over all finite elements.
        nonfinite_share: Share of elements that are NaN or infinite.
        integer_valued: Every finite element is a whole number.
        distinct: Number of distinct values, None once there are more than 1000.
        class_counts: (class, count) pairs: of the values when they are whole numbers of at most
            1000 kinds, of the hot columns when rows are one-hot.
        rows_sum_to_one: Every row is non-negative and sums to 1 (last axis of at least 2).
        one_hot: Every row is one-hot.
        constant: Every element seen is the same.
        columns: Per feature, for samples of rank 1 with at most 1024 features.
        beyond_unit: Mean distance of the elements from 0..1; 0 for one inside.
        best_constant: The scores to beat as a target; None where samples differ in shape.
        rows_seen, batches_seen: How much was looked at.
        complete: The whole data set was seen.
        shuffled: Batches come in random order; None when unknown.
        source: The call that handed it over; None when it was not seen.
    """

    name: str = ""
    shape: tuple[int, ...] | None = None
    batch_shape: tuple[int, ...] | None = None
    dtype: str | None = None
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    nonfinite_share: float = 0.0
    integer_valued: bool | None = None
    distinct: int | None = None
    class_counts: tuple[tuple[float, int], ...] = ()
    rows_sum_to_one: bool | None = None
    one_hot: bool | None = None
    constant: bool | None = None
    columns: tuple[ColumnFacts, ...] = ()
    beyond_unit: float = 0.0
    best_constant: ConstantErrors | None = None
    rows_seen: int = 0
    batches_seen: int = 0
    complete: bool = False
    shuffled: bool | None = None
    source: SourceRef | None = None

    @property
    def believable(self) -> bool:
        """Whether class counts, constancy and ranges may accuse."""
        return self.complete or (
            self.batches_seen >= SHUFFLED_BATCHES_TO_BELIEVE and self.shuffled is not False
        )


@dataclasses.dataclass(frozen=True)
class LossSpec:
    """One loss of the program, as called.

    Attributes:
        name: Canonical name (`vocabulary.LOSSES`); None for one that is not recognised.
        type: The class or function name, as the user knows it.
        expects: What the prediction must be, as configured (from_logits included).
        output: Path of the layer whose output is the prediction; None when not traced.
        prediction, target: Facts of the real arguments of the call.
        prediction_shape, target_shape: With the batch axis, as passed to the call.
        reduction: "mean", "sum", "none", ...; None when unknown.
        weighted: Class, sample or position weights, or label smoothing, change its scale.
        class_axis: Axis of the prediction that holds the classes.
        ignore_index: Class id that is left out of the loss; None when there is none.
        config: Other settings.
        source: The call that computed (torch) or named (Keras) the loss.
    """

    name: str | None
    type: str
    expects: Expects | None = None
    output: str | None = None
    prediction: DataSpec | None = None
    target: DataSpec | None = None
    prediction_shape: tuple[int, ...] | None = None
    target_shape: tuple[int, ...] | None = None
    reduction: str | None = None
    weighted: bool = False
    class_axis: int | None = None
    ignore_index: int | None = None
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    source: SourceRef | None = None

    @property
    def target_kind(self) -> TargetKind | None:
        """What the loss takes as target; None for an unknown loss."""
        return LOSSES[self.name].target if self.name in LOSSES else None


@dataclasses.dataclass(frozen=True)
class OptimizerSpec:
    """One optimizer.

    Attributes:
        name: Canonical lower-case name: sgd, adam, adamw, rmsprop, adagrad, ...
        type: The class name, as the user knows it.
        learning_rate: At the first step.
        schedule: Name of the schedule that drives the rate; None when there is none.
        config: momentum, nesterov, weight_decay, epsilon, betas, clipnorm, ...
        params: Paths of the parameters it updates, as `layer/param`.
        source: The call that constructed it.
        rate_source: The call that holds the learning rate, where that is another (a schedule).
    """

    name: str
    type: str
    learning_rate: float | None = None
    schedule: str | None = None
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    params: tuple[str, ...] = ()
    source: SourceRef | None = None
    rate_source: SourceRef | None = None


@dataclasses.dataclass(frozen=True)
class FitSpec:
    """How the training is run.

    Attributes:
        epochs, batch_size, steps_per_epoch: As planned; None when unknown (a plain loop).
        shuffle, validation: None when unknown.
        source: The fit call, or the optimizer-step line of a plain loop.
    """

    epochs: int | None = None
    batch_size: int | None = None
    steps_per_epoch: int | None = None
    shuffle: bool | None = None
    validation: bool | None = None
    source: SourceRef | None = None

    @property
    def planned_steps(self) -> int | None:
        """Steps the whole training was to take; None when unknown."""
        if self.epochs is None or self.steps_per_epoch is None:
            return None
        return self.epochs * self.steps_per_epoch


@dataclasses.dataclass(frozen=True)
class Program:
    """Everything known of the user's program.

    Attributes:
        framework: "keras", "torch", ...
        framework_version, backend: Versions and the Keras backend.
        layers: In the order of the forward pass, where that is known.
        edges: (from, to) layer paths of the data flow; "" is the input of the model.
        losses, optimizers, metrics: As compiled or as seen.
        inputs, targets: Facts of the data really trained on.
        fit: How it is run.
        unseen: What the adapter cannot see in this program, to the reason. A `Stage` is why the
            rules that need it are skipped; any other topic ("layer out") is told under the report.
    """

    framework: str
    framework_version: str = ""
    backend: str = ""
    layers: tuple[LayerSpec, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()
    losses: tuple[LossSpec, ...] = ()
    optimizers: tuple[OptimizerSpec, ...] = ()
    metrics: tuple[str, ...] = ()
    inputs: tuple[DataSpec, ...] = ()
    targets: tuple[DataSpec, ...] = ()
    fit: FitSpec = dataclasses.field(default_factory=FitSpec)
    unseen: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def layer(self, path: str) -> LayerSpec | None:
        """The layer at `path`, or None."""
        return self._by_path.get(path)

    @functools.cached_property
    def _by_path(self) -> Mapping[str, LayerSpec]:
        return {spec.path: spec for spec in reversed(self.layers)}  # the first of a name counts

    def kernel_shape(self, path: str, param: str) -> tuple[int, ...] | None:
        """The shape of a parameter that is a matrix or a filter; None of any other."""
        return self._kernels.get((path, param))

    @functools.cached_property
    def _kernels(self) -> Mapping[tuple[str, str], tuple[int, ...]]:
        return {
            (spec.path, name): shape
            for spec in self._by_path.values()
            for name, shape in spec.params.items()
            if len(shape) >= 2
        }

    def successors(self, path: str) -> tuple[str, ...]:
        """Paths of the layers that read the output of `path`."""
        return tuple(to for start, to in self.edges if start == path)

    def predecessors(self, path: str) -> tuple[str, ...]:
        """Paths of the layers whose output `path` reads; "" is the model's input."""
        return tuple(start for start, to in self.edges if to == path)

    def output_layers(self) -> tuple[LayerSpec, ...]:
        """The layers whose output the losses read; by the data flow where no loss was traced."""
        named = [self.layer(loss.output) for loss in self.losses if loss.output]
        if named:
            return tuple({layer.path: layer for layer in named if layer is not None}.values())
        starts = {start for start, _ in self.edges}
        ends = {end for _, end in self.edges}
        return tuple(s for s in self.layers if s.path in ends and s.path not in starts)

    def activation_after(self, path: str) -> tuple[str, LayerSpec] | None:
        """The activation that `path`'s output goes through, and the layer that applies it.

        Follows the data flow through layers that hand values on (dropout, reshape, pooling) and
        normalization. ("linear", layer) when the next thing that happens to the values is no
        activation; None when it is unknown or the flow splits into differing answers.
        """
        spec = self.layer(path)
        if spec is None or spec.activation is None:
            return None
        if spec.activation != "linear":
            return spec.activation, spec
        answers: dict[str, LayerSpec] = {}
        for following in self._next_acting(path):
            if following.kind == LayerKind.ACTIVATION:
                if following.activation is None:
                    return None
                answers[following.activation] = following
            elif following.kind in (LayerKind.OTHER, LayerKind.CONTAINER):
                return None
            else:
                answers["linear"] = spec
        if not answers:
            return "linear", spec
        return next(iter(answers.items())) if len(answers) == 1 else None

    def _next_acting(self, path: str) -> Iterator[LayerSpec]:
        queue, seen = list(self.successors(path)), set[str]()
        while queue:
            name = queue.pop(0)
            spec = self.layer(name)
            if spec is None or name in seen:
                continue
            seen.add(name)
            if spec.kind in PASS_THROUGH or spec.kind == LayerKind.NORMALIZATION:
                queue.extend(self.successors(name))
            else:
                yield spec

    def producer(self, path: str) -> LayerSpec | None:
        """The nearest layer with weights at or upstream of `path`, along single predecessors.

        This is "the output layer" of a person: the Dense before a separate softmax.
        """
        seen: set[str] = set()
        while path and path not in seen:
            seen.add(path)
            spec = self.layer(path)
            if spec is None:
                return None
            if spec.params and spec.kind != LayerKind.NORMALIZATION:
                return spec
            if spec.kind == LayerKind.CONTAINER:  # its weights are in the layers it holds
                return spec
            before = self.predecessors(path)
            if len(before) != 1:
                return None
            path = before[0]
        return None

    def to_json(self) -> str:
        """The Program as one JSON text; `from_json` reads it back equal."""
        return json.dumps(encode(self), allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Program:
        """Reads what `to_json` wrote.

        Raises:
            ValueError, TypeError, KeyError: when `text` is not a Program.
        """
        return decode(Program, json.loads(text))
