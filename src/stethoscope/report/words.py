"""The words of a report that its forms share: numbers, moments, places, certainty."""

from __future__ import annotations

import math

from stethoscope.types import Diagnosis, Evidence, Place, PlaceKind, Stage, SymptomClass

NOT_LEARNING = frozenset({"loss-not-decreasing", "metric-not-increasing", "no-learning"})
"""Symptoms that DeepLocalize calls MDL: the model does not learn."""

STAGE_WORDS = {
    Stage.INPUT: "input",
    Stage.TARGET: "target",
    Stage.PRE_ACTIVATION: "before activation",
    Stage.OUTPUT: "after activation",
    Stage.LOSS: "loss",
    Stage.METRIC: "metric",
    Stage.OUTPUT_GRAD: "gradient at the output",
    Stage.WEIGHT_GRAD: "weight gradient",
    Stage.UPDATE: "weight update",
    Stage.WEIGHT: "weight",
    Stage.HYPER: "setting",
}

# Calibrated confidence in words; the bounds are those that weather reports use.
_CERTAINTY = ((0.95, "certain"), (0.8, "very likely"), (0.6, "likely"), (0.0, "possible"))


def certainty(confidence: float) -> str:
    """A confidence in a word.

    >>> certainty(0.97), certainty(0.5)
    ('certain', 'possible')
    """
    return next((word for bound, word in _CERTAINTY if confidence >= bound), "possible")


def number(value: float | int | str) -> str:
    """A figure with at most four digits that matter.

    >>> number(0.00012345), number(32.0), number(1234567.0), number("relu"), number(1e-9)
    ('0.0001234', '32', '1,234,567', 'relu', '1e-09')
    """
    if isinstance(value, (str, bool)) or not isinstance(value, (int, float)):
        return str(value)
    if math.isfinite(value) and value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    return f"{value:.4g}"


def evidence(item: Evidence) -> str:
    """One piece of evidence as a clause.

    >>> evidence(Evidence("gradient norm", 1e-9, 1e-6, "<"))
    'gradient norm 1e-09 < 1e-06'
    >>> evidence(Evidence("output", 1.0, 1.0, "="))
    'output = 1'
    """
    value, bound = number(item.value), number(item.bound)
    if isinstance(item.value, float) and not math.isfinite(item.value):
        return f"{item.what} is {value}"
    if item.relation == "=":
        return f"{item.what} = {value}" if value == bound else f"{item.what} = {value} = {bound}"
    if item.relation == "!=":
        return f"{item.what} is {value}, not {bound}"
    return f"{item.what} {value} {item.relation} {bound}"


def paper_code(place: Place, symptoms: tuple[str, ...] = ()) -> str | None:
    """The papers' code of a place; MDL where the claim is that the model does not learn.

    Args:
        place: Where.
        symptoms: Names of the symptoms that are explained.
    """
    if place.stage is not None and place.stage.code is not None:
        return place.stage.code
    return "MDL" if NOT_LEARNING & set(symptoms) else None


def where(place: Place) -> str:
    """What of the program a place is, in words, without the moment."""
    stage = STAGE_WORDS[place.stage] if place.stage else ""
    if place.kind is PlaceKind.LAYER:
        text = f"layer {place.layer or '?'}"
        if place.param:
            text += f"/{place.param}"
        return f"{text}, {stage}" if stage else text
    if place.kind is PlaceKind.DATA:
        return f"data, {place.path or stage}"
    if place.kind is PlaceKind.LOSS:
        return place.path or "loss"
    if place.kind is PlaceKind.LOOP:
        return f"training loop, {place.path or stage or 'steps'}"
    return place.path or stage or "setting"


def moment(diagnosis: Diagnosis) -> str:
    """When it was known: "before step 1" or the step, with epoch, batch and rows."""
    place = diagnosis.place
    from_the_start = any(
        symptom.kind is not SymptomClass.EVENT and (symptom.place.step or 0) <= 0
        for symptom in diagnosis.symptoms
    )
    if diagnosis.first_seen <= 0 and from_the_start:
        text = "known before step 1"
    else:
        text = f"first seen at step {max(diagnosis.first_seen, 0):,}"
        if place.epoch and place.step == diagnosis.first_seen:
            text += f" (epoch {place.epoch}, batch {place.batch or 0})"
    if place.rows:
        shown = ", ".join(str(row) for row in place.rows[:5])
        text += f", row{'s' if len(place.rows) > 1 else ''} {shown}"
        text += " ..." if len(place.rows) > 5 else ""
        text += " of the batch"
    confirmed = diagnosis.confirmed
    if confirmed is not None and confirmed > max(diagnosis.first_seen, 0):
        text += f", confirmed at step {confirmed:,}"
    return text
