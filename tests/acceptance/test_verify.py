"""The acceptance checks themselves, on reports made by hand: each check can fail."""

import ast
import copy
import re

import pytest
import table
import verify
from items import GROUPS, Item, all_items
from library import AddLibraryUse

PROGRAM = "import keras\nmodel.add(Dense(1, activation='softmax'))\nmodel.fit(x, y)\n"
CASE = {
    "faults": ["single-unit-softmax"],
    "require": ["unscaled-input"],
    "top": 2,
    "kind": ["layer"],
    "lines": ["Dense(1"],
    "first": 0,
}


def diagnosis(fault="single-unit-softmax", severity="error", line=2, kind="layer", fixes=1):
    source = {"file": "faulty.py", "line": line, "end_line": line}
    return {
        "fault": fault,
        "severity": severity,
        "first_seen": 0,
        "place": {"kind": kind, "layer": "dense", "step": 0, "source": source},
        "fixes": [{"change": {"op": "set", "path": "x", "value": 1}}] * fixes,
    }


def report(*diagnoses, verdict="faulty"):
    return {"runs": [{"verdict": verdict, "reason": "", "diagnoses": list(diagnoses)}]}


RIGHT = report(diagnosis(), diagnosis("unscaled-input", "warning"))


def test_a_right_report_has_no_problem():
    assert verify.faulty(RIGHT, 1, CASE, PROGRAM) == []


@pytest.mark.parametrize(
    ("wrong", "code", "word"),
    [
        (RIGHT, 0, "exit code"),
        (report(verdict="healthy"), 1, "silent"),
        (report(diagnosis("learning-rate-too-high"), diagnosis("unscaled-input")), 1, "rank 1"),
        (report(diagnosis()), 1, "not in the top 2"),
        (report(diagnosis(line=3), diagnosis("unscaled-input")), 1, "line 3"),
        (report(diagnosis(kind="loss"), diagnosis("unscaled-input")), 1, "place is loss"),
        (report(diagnosis(fixes=0), diagnosis("unscaled-input")), 1, "no Change"),
        (report(diagnosis(severity="note"), diagnosis("unscaled-input")), 1, "rank 1"),
    ],
    ids=["exit", "silent", "rank", "top", "line", "kind", "change", "a note does not count"],
)
def test_each_fault_of_a_report_is_a_problem(wrong, code, word):
    assert any(word in problem for problem in verify.faulty(wrong, code, CASE, PROGRAM))


def test_a_late_first_step_is_a_problem():
    late = copy.deepcopy(RIGHT)
    late["runs"][0]["diagnoses"][0]["first_seen"] = 40
    assert "first seen at step 40" in verify.faulty(late, 1, CASE, PROGRAM)[0]


def test_a_table_that_names_no_line_is_out_of_date():
    with pytest.raises(ValueError, match="correct the table"):
        verify.faulty(RIGHT, 1, {**CASE, "lines": ["Dense(7"]}, PROGRAM)


def test_healthy_means_healthy():
    assert verify.healthy(report(verdict="healthy"), 0) == []
    assert verify.healthy(report(diagnosis(severity="note"), verdict="healthy"), 0) == []
    assert verify.healthy(report(verdict="undetermined"), 0)
    assert verify.healthy(report(diagnosis(severity="warning")), 0)
    assert verify.healthy(report(verdict="healthy"), 1)
    assert verify.healthy({"runs": []}, 0)


def test_two_reports_are_compared_by_what_they_say():
    assert verify.same(RIGHT, copy.deepcopy(RIGHT)) == []
    assert verify.same(RIGHT, report(diagnosis()))


def test_the_last_figure_is_read():
    assert verify.figure("loss 0.5\nloss nan", r"loss ([\d.]+|nan)") != 0.5
    with pytest.raises(ValueError, match="nothing printed"):
        verify.figure("", r"loss ([\d.]+)")


def test_every_table_names_lines_that_exist():
    for item in all_items():
        if item.group in ("faulty", "paraphrase"):
            program = item.script.read_text(encoding="utf-8")
            assert verify.accepted_lines(program, item.case["lines"]), item.key
        if item.group == "change":
            program = item.script.read_text(encoding="utf-8")
            assert all(re.search(recipe["find"], program) for recipe in item.case["apply"]), (
                item.key
            )


def test_keys_are_unique_and_groups_known():
    items = all_items()
    assert len({item.key for item in items}) == len(items)
    assert {item.group for item in items} == set(GROUPS)


def test_library_use_is_added_without_moving_a_line():
    text = "net = make()\nopt = torch.optim.SGD(net.parameters(), lr=1)\nopt.step()\n"
    tree = AddLibraryUse().visit(ast.parse(text))
    assert "watch(net, opt" in ast.unparse(tree)
    assert [node.lineno for node in tree.body] == [1, 2, 2, 3]
    assert "callbacks=" in ast.unparse(AddLibraryUse().visit(ast.parse("m.fit(x, y, epochs=1)")))


def test_the_table_tells_failures_apart_from_items_not_run():
    items = [Item("faulty", name) for name in "abc"]
    results = {"faulty/a/0": {"problems": []}, "faulty/b/0": {"problems": ["x | y"]}}
    text = table.render(items, results)
    assert "| 1 | 1 | 1 |" in text
    assert "- `faulty/b/0`: x / y" in text
    assert "faulty/c" not in text
