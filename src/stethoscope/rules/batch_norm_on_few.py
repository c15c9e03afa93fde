"""Batch normalization over one or two samples."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import CLASSIFIER
from stethoscope.program import Program
from stethoscope.rules._base import ProgramRule, layer_place
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import LayerKind


class TinyBatchNorm(ProgramRule):
    """Batch normalization over one or two samples.

    What it detects: a batch normalization whose batch, times positions, holds fewer than 4 values
    of a channel.

    Why it is bad: the mean and variance of two numbers are noise; with one number the output is
    always 0.

    How to fix: a larger batch, or layer or group normalization.

    False alarms: a ragged last batch; the batch that was asked for counts, or the mean of those
    seen. A suspicion.

    References: Wu and He 2018 (group normalization).
    """

    code = "S015"
    name = "batch-norm-on-few"
    kind = SymptomClass.SUSPICION
    healthy = CLASSIFIER.but(batch_norm=True, learning_rate=0.01)
    faulty = healthy.but(batch=2)

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
                    f"{spec.path} takes mean and variance over {values} "
                    f"value{'s' * (values != 1)}.",
                )
