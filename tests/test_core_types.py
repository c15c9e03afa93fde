import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope import types
from stethoscope.codec import decode, encode
from stethoscope.program import (
    ColumnFacts,
    DataSpec,
    FitSpec,
    LayerSpec,
    LossSpec,
    OptimizerSpec,
    Program,
)
from stethoscope.types import Op, PlaceKind, Severity, Stage, SymptomClass
from stethoscope.vocabulary import Expects, LayerKind

TEXT = st.text(max_size=8)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
ANY_NUMBER = st.floats(allow_nan=False)
SHAPES = st.lists(st.integers(0, 99), max_size=4).map(tuple)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def maybe(strategy):
    return st.none() | strategy


SOURCES = st.builds(
    types.SourceRef,
    file=TEXT,
    line=st.integers(1, 999),
    exact=st.booleans(),
    via=st.lists(st.tuples(TEXT, st.integers(1, 99)), max_size=2).map(tuple),
    end_line=maybe(st.integers(1, 999)),
    text=TEXT,
)
PLACES = st.builds(
    types.Place,
    kind=st.sampled_from(PlaceKind),
    layer=maybe(TEXT),
    stage=maybe(st.sampled_from(Stage)),
    path=maybe(TEXT),
    step=maybe(st.integers(0, 9)),
    rows=st.lists(st.integers(0, 9), max_size=3).map(tuple),
    source=maybe(SOURCES),
)
EVIDENCE = st.builds(
    types.Evidence, what=TEXT, value=FINITE | TEXT, bound=FINITE | TEXT, relation=TEXT
)
SYMPTOMS = st.builds(
    types.Symptom,
    rule=TEXT,
    name=TEXT,
    kind=st.sampled_from(SymptomClass),
    place=PLACES,
    evidence=st.lists(EVIDENCE, max_size=2).map(tuple),
    message=TEXT,
)
CHANGES = st.builds(
    types.Change,
    op=st.sampled_from(Op),
    path=TEXT,
    value=JSON_VALUES,
    source=maybe(SOURCES),
)
FIXES = st.builds(
    types.Fix, title=TEXT, change=CHANGES, also=st.lists(CHANGES, max_size=1).map(tuple)
)
DIAGNOSES = st.builds(
    types.Diagnosis,
    fault=TEXT,
    severity=st.sampled_from(Severity),
    confidence=st.floats(0, 1),
    place=PLACES,
    fixes=st.lists(FIXES, max_size=2).map(tuple),
    symptoms=st.lists(SYMPTOMS, max_size=2).map(tuple),
    why=st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple),
    message=TEXT,
    first_seen=st.integers(0, 99),
    confirmed=maybe(st.integers(0, 99)),
)
REPORTS = st.builds(
    types.Report,
    meta=st.dictionaries(TEXT, JSON_VALUES, max_size=2),
    verdict=st.sampled_from(types.Verdict),
    reason=TEXT,
    diagnoses=st.lists(DIAGNOSES, max_size=1).map(tuple),
    symptoms=st.lists(SYMPTOMS, max_size=1).map(tuple),
    ran=st.lists(TEXT, max_size=3).map(tuple),
    skipped=st.dictionaries(TEXT, TEXT, max_size=2),
    overhead=st.dictionaries(TEXT, ANY_NUMBER, max_size=2),
)
DATA = st.builds(
    DataSpec,
    name=TEXT,
    shape=maybe(SHAPES),
    min=maybe(ANY_NUMBER),
    class_counts=st.lists(st.tuples(FINITE, st.integers(0, 9)), max_size=2).map(tuple),
    columns=st.lists(st.builds(ColumnFacts, *[ANY_NUMBER] * 4), max_size=2).map(tuple),
    complete=st.booleans(),
    shuffled=maybe(st.booleans()),
)
PROGRAMS = st.builds(
    Program,
    framework=TEXT,
    layers=st.lists(
        st.builds(
            LayerSpec,
            path=TEXT,
            type=TEXT,
            kind=st.sampled_from(LayerKind),
            config=st.dictionaries(TEXT, JSON_VALUES, max_size=2),
            params=st.dictionaries(TEXT, SHAPES, max_size=2),
            output_shape=maybe(SHAPES),
            source=maybe(SOURCES),
        ),
        max_size=2,
    ).map(tuple),
    edges=st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple),
    losses=st.lists(
        st.builds(
            LossSpec,
            name=maybe(TEXT),
            type=TEXT,
            expects=maybe(st.sampled_from(Expects)),
            prediction=maybe(DATA),
            target_shape=maybe(SHAPES),
        ),
        max_size=1,
    ).map(tuple),
    optimizers=st.lists(
        st.builds(OptimizerSpec, name=TEXT, type=TEXT, learning_rate=maybe(ANY_NUMBER)), max_size=1
    ).map(tuple),
    inputs=st.lists(DATA, max_size=1).map(tuple),
    fit=st.builds(FitSpec, epochs=maybe(st.integers(0, 9)), shuffle=maybe(st.booleans())),
    unseen=st.dictionaries(TEXT, TEXT, max_size=2),
)


@given(st.one_of(SOURCES, PLACES, EVIDENCE, SYMPTOMS, CHANGES, FIXES, DIAGNOSES, REPORTS))
def test_what_is_encoded_is_read_back_equal(value):
    text = json.dumps(encode(value), allow_nan=False)
    assert decode(type(value), json.loads(text)) == value


@given(PROGRAMS)
def test_program_is_read_back_equal(program):
    assert Program.from_json(program.to_json()) == program


@pytest.mark.parametrize("word", ["nan", "inf", "-inf"])
def test_nonfinite_number_travels_as_a_string(word):
    facts = ColumnFacts(float(word), 0.0, 0.0, 0.0)
    assert encode(facts)["min"] == word
    assert str(decode(ColumnFacts, encode(facts)).min) == word


@pytest.mark.parametrize("text", ["", "[]", "1", '{"layers": 3}', "{}"])
def test_what_is_no_program_is_refused(text):
    with pytest.raises((ValueError, TypeError, KeyError)):
        Program.from_json(text)


def test_unknown_fields_of_a_later_version_are_passed_over():
    assert decode(types.Evidence, {**encode(types.Evidence("a", 1, 2, "<")), "new": 1}).what == "a"


def test_numpy_scalars_are_plain_numbers():
    import numpy as np

    assert encode({"a": np.float32(0.5), "b": np.int64(3)}) == {"a": 0.5, "b": 3}


def test_papers_codes_are_theirs():
    codes = {stage.value: stage.code for stage in Stage if stage.code}
    assert codes == {
        "pre_activation": "EBA",
        "output": "EAA",
        "loss": "ELF",
        "metric": "EAF",
        "output_grad": "EBDW",
        "weight_grad": "EBDW",
        "update": "EBDW",
        "weight": "EBW",
    }


def test_stages_stand_in_the_order_of_a_step():
    order = [Stage.INPUT, Stage.PRE_ACTIVATION, Stage.OUTPUT, Stage.LOSS, Stage.WEIGHT_GRAD]
    assert sorted(order, key=lambda stage: stage.position) == order


def test_key_of_a_place_forgets_the_moment_only():
    place = types.Place(PlaceKind.LAYER, "a", "kernel", Stage.WEIGHT, step=3)
    assert place.key == dataclasses.replace(place, step=9, rows=(1,)).key
    assert place.key != dataclasses.replace(place, param="bias").key


def test_source_is_written_as_editors_read_it():
    assert str(types.SourceRef("lib.py", 7)) == "lib.py:7"
