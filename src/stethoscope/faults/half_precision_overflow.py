"""A number is beyond what float16 holds: above 65,504, or divided by one that became 0."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.faults._base import BLOW_UP, NO_LEARNING, Fault, Findings, Suspect
from stethoscope.faults._numerics import earliest
from stethoscope.types import Change, Fix, Op

_HALF = ("float16", "half")


class HalfPrecisionOverflow(Fault):
    """A number is beyond what float16 holds: above 65,504, or divided by one that became 0.

    Why it is bad: squared errors, sums over a batch and exponentials pass 65,504 early; squares of
    small gradients, by whose root Adam divides, fall below 6e-8 and are 0.

    How to fix: bfloat16, which has float32's range; or float32 weights with half-precision
    arithmetic in the layers alone (mixed precision) and a loss scaler.
    """

    name = "half-precision-overflow"
    group = "numerics"
    shown_by = frozenset({"nonfinite-activation", "nonfinite-loss", "nonfinite-gradient"})
    effects = BLOW_UP | NO_LEARNING
    healthy = REGRESSOR.but(optimizer="adam", learning_rate=0.01)
    faulty = healthy.but(dtype="float16")  # Adam divides by roots of squares that became 0

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        symptom = earliest(findings)
        if symptom is None:
            return
        dtypes = [data.dtype or "" for data in findings.program.inputs]
        dtypes += [str(s.config.get("dtype", "")) for s in findings.program.layers]
        if not any(half in dtype for dtype in dtypes for half in _HALF):
            return
        if any("bfloat16" in dtype for dtype in dtypes):
            return
        change = Change(Op.SET, "fit.precision", "bfloat16", symptom.place.source)
        fix = Fix("bfloat16 instead of float16, or a loss scaler", change)
        why = [("Which type are the numbers?", "float16: 6e-8 to 65,504")]
        yield self.suspect([symptom], confidence=0.8, fixes=[fix], why=why)
