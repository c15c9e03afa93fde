"""Nearly all pre-activations of a layer lie where the activation is flat."""

from __future__ import annotations

from collections.abc import Sequence

from stethoscope.example import CLASSIFIER
from stethoscope.row import Block, Row
from stethoscope.rules._base import BoolArray, StreakRule
from stethoscope.types import Evidence, Slot, Stage, Stat, SymptomClass
from stethoscope.vocabulary import ACTIVATIONS, LayerKind


class SaturatedActivation(StreakRule):
    """Nearly all pre-activations of a layer lie where the activation is flat.

    What it detects: on 5 probed steps in a row, at least 90 % of the pre-activations of a hidden
    sigmoid, tanh or softsign are where the derivative is below 2 % of its largest value.

    Why it is bad: almost no gradient passes the layer.

    How to fix: scaled inputs, Glorot initialization, a smaller learning rate, or relu.

    False alarms: an output layer of a good classifier saturates when it is right, and gates of
    recurrent layers do: neither is read. A suspicion.

    References: Glorot and Bengio 2010; DeepDiagnosis (ICSE'22) "saturated activation".
    """

    code = "F004"
    name = "saturated-activation"
    kind = SymptomClass.SUSPICION
    needs = frozenset({Stage.PRE_ACTIVATION})
    stage = Stage.PRE_ACTIVATION
    streak = 5
    healthy = CLASSIFIER.but(activation="tanh")
    faulty = healthy.but(input_scale=300.0)

    share = 0.9  # the rest of the layer still learns at half of this

    def may(self, block: Block) -> tuple[list[Slot], BoolArray]:
        """Where the saturated share is large."""
        slots, (share,) = block.of(self.stage, Stat.SATURATED_SHARE)
        return slots, share >= self.share

    def check(self, row: Row, slot: Slot) -> tuple[Sequence[Evidence], str] | None:
        """Saturated share of one layer's pre-activation."""
        spec = row.program.layer(slot.layer)
        if spec is None or spec.kind is LayerKind.RECURRENT:
            return None
        if any(spec.path == output.path for output in row.program.output_layers()):
            return None
        share = row.get(slot, Stat.SATURATED_SHARE)
        if not share >= self.share:
            return None
        low, high = row.get(slot, Stat.MIN), row.get(slot, Stat.MAX)
        evidence = [
            Evidence(f"saturated pre-activations of {slot.layer}", share, self.share, ">"),
            Evidence(
                f"range of the pre-activations of {slot.layer}",
                f"{low:.3g}..{high:.3g}",
                "{:.3g}..{:.3g}".format(*ACTIVATIONS[spec.activation or "linear"].saturation),
                "!=",
            ),
        ]
        return evidence, (
            f"{share:.0%} of the pre-activations of {slot.layer} are where its activation is flat."
        )
