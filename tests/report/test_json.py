import json

import pytest

from stethoscope.report.json import render
from stethoscope.types import PlaceKind, Severity, Stage, SymptomClass, Verdict

TEXT, NUMBER, WHOLE = (str,), (int, float, str), (int,)


def optional(kind):
    return ("null or", kind)


SOURCE = {"file": TEXT, "line": WHOLE, "exact": (bool,), "via": [[NUMBER]]}
PLACE = {
    "kind": {kind.value for kind in PlaceKind},
    "layer": optional(TEXT),
    "param": optional(TEXT),
    "stage": optional({stage.value for stage in Stage}),
    "code": optional({"EBA", "EAA", "ELF", "EAF", "EBW", "EBDW", "MDL"}),
    "path": optional(TEXT),
    "step": optional(WHOLE),
    "epoch": optional(WHOLE),
    "batch": optional(WHOLE),
    "source": optional(SOURCE),
}
CHANGE = {"op": {"set", "insert", "remove", "scale", "wrap"}, "path": TEXT, "value": object}
RUN = {
    "verdict": {verdict.value for verdict in Verdict},
    "framework": TEXT,
    "steps": WHOLE,
    "diagnoses": [
        {
            "fault": TEXT,
            "severity": {severity.value for severity in Severity},
            "confidence": (float,),
            "first_seen": WHOLE,
            "confirmed": optional(WHOLE),
            "place": PLACE,
            "fixes": [{"title": TEXT, "change": CHANGE}],
            "symptoms": [{"rule": TEXT, "name": TEXT, "layer": optional(TEXT)}],
            "why": [[TEXT]],
        }
    ],
    "symptoms": [
        {
            "rule": TEXT,
            "name": TEXT,
            "class": {kind.value for kind in SymptomClass},
            "place": PLACE,
            "evidence": [{"what": TEXT, "value": NUMBER, "bound": NUMBER, "relation": TEXT}],
            "message": TEXT,
        }
    ],
    "skipped": dict,
    "overhead": dict,
}
SCHEMA = {"schema": WHOLE, "runs": [RUN]}


def agree(value, shape, path="report"):
    """Checks a document against the shape that other programs rely on; more fields may be there."""
    if shape is object:
        return
    if shape is dict:
        assert isinstance(value, dict), path
    elif isinstance(shape, tuple) and shape[:1] == ("null or",):
        if value is not None:
            agree(value, shape[1], path)
    elif isinstance(shape, dict):
        assert isinstance(value, dict), path
        assert shape.keys() <= value.keys(), (path, shape.keys() - value.keys())
        for key, inner in shape.items():
            agree(value[key], inner, f"{path}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), path
        for number, item in enumerate(value):
            agree(item, shape[0], f"{path}[{number}]")
    elif isinstance(shape, set):
        assert value in shape, (path, value)
    else:
        assert isinstance(value, shape), (path, value)


def strictly(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("name", ["faulty", "crowded", "healthy", "undetermined"])
def test_shape(name, request):
    agree(strictly(render([request.getfixturevalue(name)])), SCHEMA)


def test_values(faulty):
    document = strictly(render([faulty]))
    assert document["schema"] == 1
    (run,) = document["runs"]
    assert (run["verdict"], run["framework"], run["steps"]) == ("faulty", "keras", 40)
    (found,) = run["diagnoses"]
    assert found["place"]["code"] == "EAA"
    assert found["place"]["source"]["via"] == [["main.py", 3]]
    assert found["fixes"][0]["change"] == {
        "op": "set",
        "path": "layers[dense_2].activation",
        "value": "sigmoid",
        "source": found["place"]["source"],
    }
    assert [s["name"] for s in found["symptoms"]] == ["single-unit-softmax"] + [
        "unchanged-weight"
    ] * 2
    assert found["why"] == [["Is the softmax over one unit?", "yes, 1"]]


def test_nonfinite_numbers_are_strings(faulty):
    (run,) = strictly(render([faulty]))["runs"]
    assert run["symptoms"][1]["evidence"][0]["value"] == "nan"
    assert run["diagnoses"][0]["fixes"][1]["change"]["value"] == "inf"


def test_healthy_says_cm_and_nothing_is_an_empty_list(healthy):
    assert strictly(render([healthy]))["runs"][0]["code"] == "CM"
    assert strictly(render([], notes=["no step"])) | {"tool": None} == {
        "schema": 1,
        "tool": None,
        "runs": [],
        "notes": ["no step"],
    }
