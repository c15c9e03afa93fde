"""Two linear maps follow each other without an activation between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stethoscope.example import CLASSIFIER, Example
from stethoscope.program import LayerSpec, Program
from stethoscope.rules._base import ProgramRule, activation_place
from stethoscope.types import Evidence, Symptom, SymptomClass
from stethoscope.vocabulary import AFFINE, PASS_THROUGH, LayerKind


class MissingHiddenActivation(ProgramRule):
    """Two linear maps follow each other without an activation between.

    What it detects: a dense or convolutional layer whose output reaches another one with only
    layers between that hand values on or normalize them linearly.

    Why it is bad: two linear maps in a row are one linear map: the network is not as deep as it
    looks, and may not be able to fit anything but lines.

    How to fix: an activation (relu, gelu) after the hidden layer.

    False alarms: a bottleneck on purpose (matrix factorization, the projections of attention,
    depthwise-separable convolutions): narrower than both its neighbours, or without a bias; max
    pooling between is no linear map. A suspicion.

    References: UMLAUT (CHI'21); NeuraLint; DeepLocalize benchmark, post 48385830.
    """

    code = "S010"
    name = "missing-hidden-activation"
    kind = SymptomClass.SUSPICION
    healthy = CLASSIFIER
    faulty = Example(activation="linear")

    def inspect(self, program: Program) -> Iterable[Symptom]:
        """One symptom a layer."""
        for spec in program.layers:
            if spec.kind not in AFFINE or spec.activation != "linear":
                continue
            for following in _linear_successors(program, spec):
                if _bottleneck(program, spec, following):
                    continue
                evidence = [
                    Evidence(
                        f"activation between {spec.path} and {following.path}",
                        "none",
                        "a non-linear one",
                        "!=",
                    )
                ]
                yield self.symptom(
                    activation_place(program, spec.path),
                    evidence,
                    f"{spec.path} has no activation, so {spec.path} and {following.path} together "
                    "are one linear map.",
                )
                break


def _linear_successors(program: Program, spec: LayerSpec) -> Iterator[LayerSpec]:
    queue, seen = list(program.successors(spec.path)), set[str]()
    while queue:
        path = queue.pop(0)
        following = program.layer(path)
        if following is None or path in seen:
            continue
        seen.add(path)
        if following.kind in AFFINE:
            yield following
        elif following.kind is LayerKind.POOLING and "max" in following.type.lower():
            continue
        elif following.kind in PASS_THROUGH or following.type.startswith("BatchNorm"):
            queue.extend(program.successors(path))


def _bottleneck(program: Program, spec: LayerSpec, following: LayerSpec) -> bool:
    """Low-rank factorization: no bias, or fewer outputs than both inputs and what follows."""
    if spec.kind is LayerKind.CONV or following.kind is LayerKind.CONV:
        depthwise = spec.config.get("groups", 1) not in (1, None)
        return depthwise or "Depthwise" in spec.type or "Separable" in spec.type
    if spec.config.get("use_bias", spec.config.get("bias", True)) is False:
        return True
    weights = [shape for shape in spec.params.values() if len(shape) == 2]
    later = [shape for shape in following.params.values() if len(shape) == 2]
    if not weights or not later or spec.units is None:
        return False
    ins = max(weights[0]) if spec.units == min(weights[0]) else min(weights[0])
    outs = max(later[0]) if spec.units == min(later[0]) else min(later[0])
    return spec.units < ins and spec.units < outs
