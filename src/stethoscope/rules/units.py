"""Units that no longer respond: dead, saturated, or the same for every sample."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stethoscope.example import CLASSIFIER, REGRESSOR, Example
from stethoscope.rules._base import StreakRule
from stethoscope.trace import Row
from stethoscope.types import Evidence, Slot, Stage, Stat, SymptomClass
from stethoscope.vocabulary import ACTIVATIONS, LayerKind


class DeadUnits(StreakRule):
    """Nearly all units of a layer give 0 for every sample.

    What it detects: on 5 probed steps in a row, at least 90 % of the units of a ReLU-like layer
    are exactly 0 for every sample and position of the batch.

    Why it is bad: where a ReLU is 0 so is its derivative: no gradient passes, the units cannot
    come back.

    How to fix: a smaller learning rate, scaled inputs, He initialization, biases at 0, leaky ReLU.

    False alarms: 50 to 80 % of zeros is how a ReLU works: it is units that are counted, not
    zeros. In a batch of a few samples many units rest by chance, so small batches need more steps.

    References: Lu et al. 2019 (dying ReLU); DeepDiagnosis (ICSE'22) "dead node", whose share of
    zeros is not used here.
    """

    code = "F003"
    name = "dead-units"
    kind = SymptomClass.SUSPICION
    needs = frozenset({Stage.OUTPUT})
    stage = Stage.OUTPUT
    streak = 5
    healthy = CLASSIFIER
    faulty = Example(bias=-10.0)

    share = 0.9  # what is left of the layer is less than a tenth of it

    def check(self, row: Row, slot: Slot) -> tuple[Sequence[Evidence], str] | None:
        """Dead share of one layer's output."""
        spec = row.program.layer(slot.layer)
        if spec is None or spec.activation not in ACTIVATIONS:
            return None
        dead = row.get(slot, Stat.DEAD_SHARE)
        if not ACTIVATIONS[spec.activation].dies or not dead >= self.share:
            return None
        evidence = [Evidence(f"dead units of {slot.layer}", dead, self.share, ">")]
        return evidence, f"{dead:.0%} of the units of {slot.layer} are 0 for every sample."


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
    healthy = Example(activation="tanh")
    faulty = Example(activation="tanh", input_scale=300.0)

    share = 0.9  # the rest of the layer still learns at half of this

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


class CollapsedOutput(StreakRule):
    """The model gives the same output for every sample.

    What it detects: on 10 probed steps in a row, the standard deviation across the samples of the
    output is below 1/1000 of what the targets vary by (of the outputs' own scale where the targets
    are classes).

    Why it is bad: the output does not depend on the input any more.

    How to fix: this is an effect: look for the cause upstream (dead units, a rate too large, an
    activation that cannot move).

    False alarms: the first steps of a network that starts at 0; batches of one sample are left out.

    References: TheDeepChecker "constant output".
    """

    code = "F005"
    name = "collapsed-output"
    kind = SymptomClass.EVENT
    needs = frozenset({Stage.OUTPUT})
    stage = Stage.OUTPUT
    streak = 10
    healthy = REGRESSOR
    faulty = Example(
        data="binary",
        outputs=1,
        loss="binary_crossentropy",
        from_logits=False,
        output_activation="softmax",
    )

    share = 1e-3  # a trained classifier varies by a tenth or more, a fresh one by a hundredth

    def check(self, row: Row, slot: Slot) -> tuple[Sequence[Evidence], str] | None:
        """Spread across samples of an output layer."""
        outputs = row.program.output_layers()
        spec = next((o for o in outputs if o.path == slot.layer), None)
        if spec is None or (spec.output_shape and spec.output_shape[0] == 1):
            return None
        varies = row.get(slot, Stat.SAMPLE_STD)
        scale = max(abs(row.get(slot, Stat.MIN)), abs(row.get(slot, Stat.MAX)))
        targets = row.program.targets
        if len(targets) == 1 and targets[0].std and not targets[0].integer_valued:
            scale = targets[0].std
        rows = row.program.inputs[0].batch_shape if row.program.inputs else None
        if not math.isfinite(varies) or (rows and rows[0] < 2):
            return None
        if scale > 0 and varies > self.share * scale:
            return None
        evidence = [
            Evidence(f"spread of {slot.layer} across samples", varies, self.share * scale, "<")
        ]
        return evidence, f"The output {slot.layer} is the same for every sample."
