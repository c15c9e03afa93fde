"""Hidden layers without an activation, or with too many that saturate."""

from __future__ import annotations

from collections.abc import Iterable

from stethoscope.faults._base import (
    BLOW_UP,
    LIKELY,
    NO_GRADIENT,
    NO_LEARNING,
    POSSIBLE,
    Fault,
    Findings,
    Suspect,
    set_activation,
)
from stethoscope.program import LayerSpec
from stethoscope.rules.hidden_activation import chain_of_saturating
from stethoscope.types import Change, Fix, Op, Place, Slot, Stage, Stat
from stethoscope.vocabulary import AFFINE, LayerKind

ALMOST_ALL = 0.9  # as in the rule `dead-units`


class MissingHiddenActivation(Fault):
    """Two linear maps in a row are one: the network is a linear model."""

    name = "missing-hidden-activation"
    group = "structure"
    shown_by = frozenset({"missing-hidden-activation"})
    effects = NO_LEARNING

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        symptoms = findings.of("missing-hidden-activation")
        program = findings.program
        affine = [s for s in program.layers if s.kind in AFFINE]
        if not symptoms:
            return
        # One diagnosis, at the first such layer, with a change for each of them.
        specs = [s for s in (program.layer(x.place.layer or "") for x in symptoms) if s is not None]
        if not specs:
            return
        missing = [
            set_activation(spec, "relu", "no activation follows it").change for spec in specs
        ]
        title = f'activation "relu" after {", ".join(spec.path for spec in specs[:4])}'
        fix = Fix(title, missing[0], tuple(missing[1:]))
        all_linear = len(specs) >= len(affine) - 1
        why = [
            ("Is there an activation between the linear layers?", f"no: {symptoms[0].message}"),
            ("Is any hidden layer non-linear?", "no" if all_linear else "yes"),
        ]
        sure = LIKELY if all_linear else POSSIBLE
        yield self.suspect(symptoms, confidence=sure, fixes=[fix], why=why)


class SaturatingActivations(Fault):
    """A stack of sigmoids (or tanhs): each layer takes most of the gradient away."""

    name = "saturating-activations"
    group = "structure"
    shown_by = frozenset({"saturating-stack"})
    effects = NO_LEARNING | NO_GRADIENT | frozenset({"saturated-activation"})

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("saturating-stack"):
            program = findings.program
            paths = chain_of_saturating(program, symptom.place.layer or "")
            specs = [spec for spec in map(program.layer, paths) if spec is not None]
            if not specs:
                continue
            name = specs[0].activation or "sigmoid"
            changes = [set_activation(spec, "relu", "").change for spec in specs]
            title = f'activation "{name}" -> "relu" in {specs[0].path} to {specs[-1].path}'
            vanished = findings.of("vanishing-gradient", "unchanged-weight")
            why = [
                (f"How many {name} layers follow each other?", str(len(specs))),
                (
                    "Does the gradient reach the first of them?",
                    f"hardly: {vanished[0].message}" if vanished else "weakly",
                ),
            ]
            yield self.suspect(
                [symptom],
                confidence=0.92 if vanished else LIKELY,
                fixes=[Fix(title, changes[0], tuple(changes[1:]))],
                why=why,
            )


class DyingRelu(Fault):
    """The ReLU units of a layer are 0 for every sample and get no gradient."""

    name = "dying-relu"
    group = "structure"
    shown_by = frozenset({"dead-units"})
    effects = NO_LEARNING | NO_GRADIENT

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        dead = findings.of("dead-units")
        if not dead:
            return
        symptom = min(dead, key=lambda s: (s.place.step or 0, _order(findings, s.place.layer)))
        spec = findings.program.layer(symptom.place.layer or "")
        if spec is None:
            return
        others = [s for s in dead if s is not symptom]
        slot = Slot(spec.path, "", Stage.OUTPUT)
        alive = not findings.measured.first(slot, Stat.DEAD_SHARE) >= ALMOST_ALL
        killed = alive and bool(findings.of("update-ratio-too-large"))
        sure = POSSIBLE - 0.2 if killed else POSSIBLE + 0.2
        fix = set_activation(spec, "leaky_relu", "it passes a gradient when negative")
        why = [
            ("Do the units of the layer respond to any sample?", f"no: {symptom.message}"),
            ("Did they at the first step?", "yes" if alive else "no"),
        ]
        yield self.suspect(
            [symptom, *others], confidence=sure, fixes=[fix], why=why, fatal=_shut(findings)
        )


class BadInitialization(Fault):
    """The weights that the run started from stop it."""

    name = "bad-initialization"
    group = "structure"
    shown_by = frozenset({"initialization"})
    effects = NO_LEARNING | NO_GRADIENT | BLOW_UP | frozenset({
        "dead-units", "saturated-activation", "update-ratio-too-large",
    })  # fmt: skip

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        symptoms = findings.of("initialization")
        for symptom in symptoms:
            spec = findings.program.layer(symptom.place.layer or "")
            if spec is None:
                continue
            fix = _initializer(spec, symptom.place.param or "", symptom.place)
            why = [("Did the weights start at a usual scale?", f"no: {symptom.message}")]
            acting = findings.program.activation_after(spec.path)
            paths = {spec.path} | ({acting[1].path} if acting else set())
            stuck = [
                s
                for s in findings.of("dead-units", "saturated-activation")
                if s.place.layer in paths
            ]
            yield self.suspect(
                [symptom, *stuck],
                confidence=0.9 if stuck else POSSIBLE + 0.1,
                fixes=[fix],
                why=why,
                fatal=bool(stuck) and _shut(findings),
            )


class SoftmaxAxis(Fault):
    """Softmax over the batch: the outputs of one sample depend on its neighbours."""

    name = "softmax-axis"
    group = "structure"
    shown_by = frozenset({"softmax-over-batch"})
    effects = NO_LEARNING | NO_GRADIENT | frozenset({"output-loss-mismatch", "double-activation"})

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("softmax-over-batch"):
            source = symptom.place.source
            path = f"layers[{symptom.place.layer}].axis"
            fix = Fix("softmax over the last axis (dim=-1)", Change(Op.SET, path, -1, source))
            yield self.suspect([symptom], confidence=0.97, fixes=[fix], fatal=True)


class ExcessiveDropout(Fault):
    """Dropout takes away nearly everything."""

    name = "excessive-dropout"
    group = "structure"
    shown_by = frozenset({"high-dropout-rate"})
    effects = NO_LEARNING

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("high-dropout-rate"):
            rate = float(symptom.evidence[0].value)
            path = f"layers[{symptom.place.layer}].rate"
            value = round(1 - rate, 4) if rate > 0.5 else 0.5
            fix = Fix(
                f"dropout rate {rate:g} -> {value:g} (if {rate:g} was the share to keep)",
                Change(Op.SET, path, value, symptom.place.source),
            )
            yield self.suspect([symptom], confidence=POSSIBLE + 0.1, fixes=[fix])


class TinyBatchNorm(Fault):
    """Batch normalization over so few values that its statistics are noise."""

    name = "tiny-batch-batchnorm"
    group = "structure"
    shown_by = frozenset({"batch-norm-on-few"})
    effects = NO_LEARNING

    def consider(self, findings: Findings) -> Iterable[Suspect]:
        for symptom in findings.of("batch-norm-on-few"):
            source = findings.program.fit.source
            fix = Fix(
                "batches of at least 16 samples", Change(Op.SET, "fit.batch_size", 16, source)
            )
            yield self.suspect([symptom], confidence=POSSIBLE + 0.1, fixes=[fix])


def _shut(findings: Findings) -> bool:
    """Whether a whole layer is dead and the output no longer depends on the input.

    Nothing upstream of the layer gets a gradient then: the arithmetic forbids learning.
    """
    entire = [s for s in findings.of("dead-units") if float(s.evidence[0].value) == 1.0]
    return bool(entire) and bool(findings.of("collapsed-output"))


def _order(findings: Findings, path: str | None) -> int:
    paths = [spec.path for spec in findings.program.layers]
    return paths.index(path) if path in paths else len(paths)


def _initializer(spec: LayerSpec, param: str, place: Place) -> Fix:
    if len(spec.params.get(param, ())) < 2:
        change = Change(Op.SET, f"layers[{spec.path}].{param}", 0.0, place.source)
        return Fix(f"start {spec.path}/{param} at 0", change)
    he = spec.activation not in ("sigmoid", "tanh", "softmax")
    name = "he_normal" if he and spec.kind is not LayerKind.RECURRENT else "glorot_uniform"
    change = Change(Op.SET, f"layers[{spec.path}].{param}_initializer", name, place.source)
    return Fix(f"initialize {spec.path}/{param} with {name}", change)
