"""What `rules`, `explain` and `demo` print; every rule and fault can be explained."""

import json

import pytest

from stethoscope import cli
from stethoscope.faults import all_faults
from stethoscope.report import catalog
from stethoscope.rules import all_rules
from stethoscope.types import SymptomClass

SECTIONS = ("What it detects", "Why it is bad", "How to fix", "False alarms", "References")
RULES = {rule.code: rule for rule in all_rules()}
FAULTS = {fault.name: fault for fault in all_faults()}


@pytest.mark.parametrize("command", ["rules", "explain"])
def test_every_rule_and_every_fault_is_listed_once(command, capsys):
    assert cli.main([command]) == 0
    rules, faults = capsys.readouterr().out.split("\n\nFaults: ")
    lines = rules.splitlines()[2:]
    assert [line.split()[:2] for line in lines] == [[r.code, r.name] for r in all_rules()]
    lines = faults.splitlines()[2:-2]
    assert sorted(line.split()[0] for line in lines) == sorted(FAULTS)
    assert all(line.endswith(".") for line in lines)


def test_rules_as_json(capsys):
    assert cli.main(["rules", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["code"] for row in rows] == list(RULES)
    assert {row["class"] for row in rows} <= {kind.value for kind in SymptomClass}
    assert all(row["summary"].endswith(".") for row in rows)


@pytest.mark.parametrize("code", RULES)
def test_every_rule_explains_itself(code, capsys):
    for name in (code, code.lower(), RULES[code].name):
        assert cli.main(["explain", name]) == 0
    text = capsys.readouterr().out
    places = [text.find(section) for section in SECTIONS]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_explains_itself(name, capsys):
    assert cli.main(["explain", name]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{name}   fault, {FAULTS[name].group}\n\n")
    assert "Rules that show it" in text


def test_what_a_fault_says_of_rules_names_rules():
    known = {rule.name for rule in all_rules()}
    for fault in all_faults():
        assert fault.shown_by | fault.effects <= known, fault.name


def test_a_near_miss_is_pointed_out(capsys):
    assert cli.main(["explain", "vanishing-gradients"]) == 2
    hint = capsys.readouterr().err
    assert "Did you mean vanishing-gradient" in hint
    assert "`stethoscope rules` lists all of them" in hint
    assert "dead-units" in catalog.similar("dead-unit")


def test_demo_finds_the_broken_program_and_leaves_the_repaired_one_alone(stethoscope):
    shown = stethoscope("demo")
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr.index("FAULTY   broken.py") < shown.stderr.index("HEALTHY")
    assert "1  double-activation" in shown.stderr
    assert 'broken.py:19   model.add(Activation("softmax"))' in shown.stderr
    assert "output goes through softmax twice" in shown.stdout
    assert '    model.add(Activation("softmax"))' in shown.stdout
    assert '    -model.add(Activation("softmax"))' in shown.stdout
