"""Operations outside their domain, and numbers too large for their type."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.faults._base import BLOW_UP, NO_LEARNING, POSSIBLE, Fault, Findings, Suspect
from stethoscope.types import Change, Fix, Op, Symptom
from stethoscope.vocabulary import LayerKind

_HALF = ("float16", "half")


class InvalidOperation(Fault):
    """A logarithm or division of 0, a root at 0, an overflowing exponential."""

    name = "invalid-operation"
    group = "numerics"
    shown_by = frozenset({"nonfinite-activation", "nonfinite-loss", "nonfinite-gradient"})
    effects = BLOW_UP | NO_LEARNING

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        symptom = _earliest(findings)
        if symptom is None or findings.of("nonfinite-input", "nonfinite-target"):
            return
        spec = findings.program.layer(symptom.place.layer or "")
        if spec is not None and spec.kind is LayerKind.RECURRENT:
            return
        small = max((max(r) for r in findings.measured.ratios.values()), default=0.0) < 0.03
        grew = findings.of("exploding-activation", "exploding-gradient", "loss-diverging")
        sure = 0.75 if small and not grew else POSSIBLE - 0.2
        path = symptom.place.path or "loss"
        fix = Fix(
            "keep the argument inside the domain: clamp it, or add a small constant (1e-7)",
            Change(Op.WRAP, path, {"epsilon": 1e-7}, symptom.place.source),
        )
        why = [
            ("Was the data finite?", "yes"),
            ("Were the steps before it of a usual size?", "yes" if small else "no"),
            ("What was not finite first?", symptom.message),
        ]
        yield self.suspect([symptom], confidence=sure, fixes=[fix], why=why)


class HalfPrecisionOverflow(Fault):
    """A number is beyond what float16 holds (65,504)."""

    name = "half-precision-overflow"
    group = "numerics"
    shown_by = InvalidOperation.shown_by
    effects = BLOW_UP | NO_LEARNING

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        symptom = _earliest(findings)
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
        why = [("Which type are the numbers?", "float16, which ends at 65,504")]
        yield self.suspect([symptom], confidence=0.8, fixes=[fix], why=why)


class ExplodingRecurrence(Fault):
    """A recurrent layer multiplies its state or gradient at every position."""

    name = "exploding-recurrence"
    group = "numerics"
    shown_by = frozenset({
        "nonfinite-activation", "nonfinite-gradient", "exploding-gradient", "exploding-activation",
    })  # fmt: skip
    effects = BLOW_UP | NO_LEARNING | frozenset({"update-ratio-too-large"})

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        symptoms = [s for s in findings.symptoms if s.name in self.shown_by]
        recurrent = {s.path for s in findings.program.layers if s.kind is LayerKind.RECURRENT}
        hit = [s for s in symptoms if s.place.layer in recurrent]
        if not hit or not findings.program.optimizers:
            return
        source = findings.program.optimizers[0].source
        change = Change(Op.SET, "optimizer.clipnorm", 1.0, source)
        fix = Fix("clip the gradient norm to 1.0", change)
        why = [("Is the layer recurrent?", "yes"), ("What grew?", hit[0].message)]
        yield self.suspect(hit, confidence=0.7, fixes=[fix], why=why)


def _earliest(findings: Findings) -> Symptom | None:
    found = findings.of("nonfinite-activation", "nonfinite-loss", "nonfinite-gradient")
    if not found:
        return None
    return min(
        found, key=lambda s: (s.place.step or 0, s.place.stage.position if s.place.stage else 99)
    )
