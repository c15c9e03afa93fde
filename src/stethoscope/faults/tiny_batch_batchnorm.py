"""Batch normalization over so few values that its statistics are noise."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import Example
from stethoscope.faults._base import (
    NO_LEARNING,
    POSSIBLE,
    Fault,
    Findings,
    Suspect,
)
from stethoscope.types import Change, Fix, Op


class TinyBatchNorm(Fault):
    """Batch normalization over so few values that its statistics are noise."""

    name = "tiny-batch-batchnorm"
    group = "structure"
    shown_by = frozenset({"batch-norm-on-few"})
    effects = NO_LEARNING
    healthy = Example(batch_norm=True, learning_rate=0.01)
    faulty = healthy.but(batch=2)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("batch-norm-on-few"):
            source = findings.program.fit.source
            fix = Fix(
                "batches of at least 16 samples", Change(Op.SET, "fit.batch_size", 16, source)
            )
            yield self.suspect([symptom], confidence=POSSIBLE + 0.1, fixes=[fix])
