"""Layers whose own settings defeat them."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import CLASSIFIER, Example
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule, activation_place, layer_place
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import LayerKind


class SoftmaxAxis(ProgramRule):
    """Softmax runs over the samples of a batch.

    What it detects: a softmax over axis 0 of an output with a batch axis.

    Why it is bad: the outputs of one sample depend on the others of its batch and do not sum to 1.

    How to fix: softmax over the last axis (dim=-1).

    False alarms: contrastive losses normalize over the batch on purpose, in the loss, which is not
    a layer of the model.

    References: PyTorch's warning on an implicit softmax dimension; NeuraLint.
    """

    code = "S013"
    name = "softmax-over-batch"
    kind = SymptomClass.CONTRADICTION
    healthy = CLASSIFIER
    faulty = Example(
        output_activation="softmax",
        softmax_axis=0,
        loss="categorical_crossentropy",
        from_logits=False,
        one_hot=True,
    )

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a layer."""
        for spec in program.output_layers():
            axis = spec.config.get("axis", spec.config.get("dim"))
            if spec.activation not in ("softmax", "log_softmax") or not isinstance(axis, int):
                continue
            rank = len(spec.output_shape) if spec.output_shape else 0
            if rank < 2 or axis % rank != 0:
                continue
            evidence = [Evidence(f"axis of {spec.path}", axis, -1, "!=")]
            yield self.symptom(
                activation_place(program, spec.path),
                evidence,
                "Softmax runs over axis 0, the samples of the batch, not over the classes.",
            )


class ExcessiveDropout(ProgramRule):
    """Dropout removes most of what it gets.

    What it detects: a rate of 0.8 or more.

    Why it is bad: four of five activations are lost at every step; what is left is mostly noise.
    Often the share to keep was meant.

    How to fix: a rate of 0.2 to 0.5.

    False alarms: dropout on inputs of very wide, redundant models: a suspicion.

    References: UMLAUT (CHI'21); NeuraLint.
    """

    code = "S014"
    name = "high-dropout-rate"
    kind = SymptomClass.SUSPICION
    healthy = CLASSIFIER
    faulty = Example(dropout=0.95)

    high = 0.8  # Srivastava et al. 2014 use 0.2 to 0.5; UMLAUT's users confused keep and drop

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a layer."""
        for spec in program.layers:
            rate = spec.config.get("rate", spec.config.get("p"))
            if spec.kind is not LayerKind.DROPOUT or not isinstance(rate, (int, float)):
                continue
            if rate >= self.high:
                evidence = [Evidence(f"rate of {spec.path}", float(rate), self.high, ">")]
                yield self.symptom(
                    layer_place(program, spec.path),
                    evidence,
                    f"{spec.path} drops {rate:.0%} of what it gets.",
                )


class TinyBatchNorm(ProgramRule):
    """Batch normalization over one or two samples.

    What it detects: a batch normalization whose batch, times positions, holds fewer than 4 values
    of a channel.

    Why it is bad: the mean and variance of two numbers are noise; with one number the output is
    always 0.

    How to fix: a larger batch, or layer or group normalization.

    False alarms: a ragged last batch; only the commonest batch counts. A suspicion.

    References: Wu and He 2018 (group normalization).
    """

    code = "S015"
    name = "batch-norm-on-few"
    kind = SymptomClass.SUSPICION
    healthy = Example(batch_norm=True)
    faulty = Example(batch_norm=True, batch=2, learning_rate=0.01)

    few = 4  # the variance of 3 values has a relative error of 1

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a layer."""
        batch = program.fit.batch_size
        if batch is None and program.inputs and program.inputs[0].batches_seen:
            batch = round(program.inputs[0].rows_seen / program.inputs[0].batches_seen)
        if batch is None:
            return
        for spec in program.layers:
            if spec.kind is not LayerKind.NORMALIZATION or not spec.type.startswith("BatchNorm"):
                continue
            if not spec.output_shape or spec.trainable is False:
                continue
            positions = 1
            for size in spec.output_shape[1:]:
                positions *= max(size, 1)
            channels = max(next(iter(spec.params.values()), (1,))[0], 1)
            values = batch * max(positions // channels, 1)
            if values < self.few:
                evidence = [Evidence(f"values a channel of {spec.path}", values, self.few, "<")]
                yield self.symptom(
                    layer_place(program, spec.path),
                    evidence,
                    f"{spec.path} takes mean and variance over {values} values.",
                )
