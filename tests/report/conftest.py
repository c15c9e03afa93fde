"""Reports as a run would give them, written by hand."""

import pytest

from stethoscope.types import (
    Change,
    Diagnosis,
    Evidence,
    Fix,
    Op,
    Place,
    PlaceKind,
    Report,
    Severity,
    SourceRef,
    Stage,
    Symptom,
    SymptomClass,
    Verdict,
)

META = {
    "script": "train.py",
    "framework": "keras",
    "framework_version": "3.15.1",
    "backend": "jax",
    "steps": 40,
    "trace": ".stethoscope/train-1.sqlite",
    "trace_problem": None,
    "rank": 0,
}
SOFTMAX = SourceRef(
    "train.py", 14, True, (("main.py", 3),), 14, 'model.add(Dense(1, activation="softmax"))'
)


def _symptom(rule, name, kind, layer, *evidence):
    place = Place(PlaceKind.LAYER, layer, None, Stage.OUTPUT, f"layers[{layer}]", step=0)
    return Symptom(rule, name, kind, place, evidence, f"{name} of {layer}")


def diagnosis(rank=0, severity=Severity.ERROR):
    place = Place(
        PlaceKind.LAYER, "dense_2", None, Stage.OUTPUT, "layers[dense_2].activation", 0, 0, 0
    )
    found = [
        _symptom(
            "S001",
            "single-unit-softmax",
            SymptomClass.CONTRADICTION,
            "dense_2",
            Evidence("output of all 32 samples", 1.0, 1.0, "="),
            Evidence("gradient norm of dense_2/kernel", 0.0, 1e-12, "<"),
        )
    ]
    found += [
        _symptom(
            "W001",
            "unchanged-weight",
            SymptomClass.EVENT,
            layer,
            Evidence("loss", float("nan"), 0.69, ">"),
        )
        for layer in ("dense", "dense_1")
    ]
    kinds = ["single-unit-softmax", "learning-rate-too-high", "dying-relu", "tiny-batch-batchnorm"]
    return Diagnosis(
        fault=kinds[rank % 4],
        severity=severity,
        confidence=0.97 - 0.2 * rank,
        place=Place(**{**vars(place), "source": SOFTMAX}),
        fixes=(
            Fix(
                'activation "softmax" -> "sigmoid": the labels are 0/1',
                Change(Op.SET, "layers[dense_2].activation", "sigmoid", SOFTMAX),
            ),
            Fix("two units", Change(Op.SET, "layers[dense_2].units", float("inf"))),
            Fix("a third way", Change(Op.REMOVE, "layers[dense_2].activation")),
        ),
        symptoms=tuple(found) if rank == 0 else tuple(found[1:]),
        why=(("Is the softmax over one unit?", "yes, 1"),),
        message="Softmax over one unit is 1.0 whatever the weights are: nothing can be learned.",
        first_seen=0 if rank == 0 else 12,
        confirmed=0 if rank == 0 else 30,
    )


def report(verdict, diagnoses=(), reason=""):
    symptoms = tuple(s for d in diagnoses for s in d.symptoms)
    overhead = {"seconds": 0.1, "share": 0.0213, "total_seconds": 500.0}
    ran = tuple(f"S{i:03d}" for i in range(31))
    skipped = {"G001": "gradients are not seen", "A001": "no activation was seen"}
    return Report(META, verdict, reason, tuple(diagnoses), symptoms, ran, skipped, overhead)


@pytest.fixture
def faulty():
    return report(Verdict.FAULTY, [diagnosis(0)], "an error was found")


@pytest.fixture
def crowded():
    severities = [Severity.ERROR, Severity.WARNING, Severity.WARNING, Severity.NOTE]
    return report(Verdict.FAULTY, [diagnosis(i, s) for i, s in enumerate(severities)])


@pytest.fixture
def healthy():
    return report(Verdict.HEALTHY, reason="The loss fell from 0.7 to 0.1.")


@pytest.fixture
def undetermined():
    return report(Verdict.UNDETERMINED, reason="Only 3 steps were seen.")
