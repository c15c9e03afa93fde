"""A recurrent layer multiplies its state or gradient at every position."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.example import REGRESSOR
from stethoscope.faults._base import BLOW_UP, NO_LEARNING, Fault, Findings, Suspect, set_to
from stethoscope.types import Stage
from stethoscope.vocabulary import LayerKind


class ExplodingRecurrence(Fault):
    """A recurrent layer multiplies its state or gradient at every position.

    Why it is bad: what is multiplied by 2 at each of 40 positions is multiplied by 1e12 in all; the
    longer the sequences, the sooner a number is not finite.

    How to fix: an orthogonal recurrent kernel where the first weights do it, clipping of the
    gradient's norm where training does; or an LSTM or GRU, whose gates bound the state.
    """

    name = "exploding-recurrence"
    group = "numerics"
    shown_by = frozenset({
        "nonfinite-activation", "nonfinite-gradient", "exploding-gradient", "exploding-activation",
    })  # fmt: skip
    effects = BLOW_UP | NO_LEARNING | frozenset({"update-ratio-too-large"})
    healthy = REGRESSOR.but(hidden=(16,), positions=40)
    faulty = healthy.but(recurrent_gain=20.0)

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        symptoms = [s for s in findings.symptoms if s.name in self.shown_by]
        recurrent = {s.path for s in findings.program.layers if s.kind is LayerKind.RECURRENT}
        hit = [s for s in symptoms if s.place.layer in recurrent]
        if not hit or not findings.program.optimizers:
            return
        first = min(hit, key=lambda s: s.place.step or 0)
        at_once = not first.place.step and first.place.stage in (Stage.PRE_ACTIVATION, Stage.OUTPUT)
        layer = first.place.layer
        source = findings.program.optimizers[0].source
        clip = set_to("optimizer.clipnorm", 1.0, source, "clip the gradient norm to 1.0")
        start = set_to(
            f"layers[{layer}].recurrent_initializer",
            "orthogonal",
            first.place.source,
            f"start the recurrent kernel of {layer} orthogonal: it keeps a state's length",
        )
        why = [
            ("Is the layer recurrent?", "yes"),
            ("What grew?", first.message),
            ("Was it so with the initial weights?", "yes" if at_once else "no"),
        ]
        fixes = [start] if at_once else [clip]  # no clipping mends a state that overflows
        yield self.suspect(hit, confidence=0.7, fixes=fixes, why=why)
