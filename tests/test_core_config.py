import dataclasses

import pytest

from stethoscope.config import Config, ConfigError, load
from stethoscope.types import Severity

PYPROJECT = """
[tool.stethoscope]
probe-every = 5
fail-on = "warning"
select = ["S", "G001"]
quiet = true
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    inner = tmp_path / "deep" / "down"
    inner.mkdir(parents=True)
    return inner


def test_defaults_where_nothing_is_given(tmp_path):
    assert load(environ={}, folder=tmp_path / "nowhere") == Config()


def test_command_line_over_environment_over_pyproject_over_default(project):
    config = load(
        {"probe_every": "7", "fail_on": None},
        {"STETHOSCOPE_PROBE_EVERY": "6", "STETHOSCOPE_ON_ERROR": "stop"},
        project,
    )
    assert config.probe_every == 7
    assert config.on_error == "stop"
    assert config.fail_on == "warning"
    assert config.select == ("S", "G001")
    assert config.trace_dir == ".stethoscope"


@pytest.mark.parametrize(
    ("word", "meaning"),
    [("1", True), ("true", True), ("yes", True), ("0", False), ("false", False), ("", False)],
)
def test_switch_in_the_environment(tmp_path, word, meaning):
    assert load(environ={"STETHOSCOPE_DISABLE": word}, folder=tmp_path).disable is meaning


def test_lists_in_the_environment_are_split_at_commas(tmp_path):
    config = load(environ={"STETHOSCOPE_IGNORE": "S001, G,"}, folder=tmp_path)
    assert config.ignore == ("S001", "G")


def test_foreign_variables_with_our_prefix_are_passed_over(tmp_path):
    assert load(environ={"STETHOSCOPE_HOME": "x"}, folder=tmp_path) == Config()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"fail_on": "always"}, "fail_on must be one of error, warning"),
        ({"on_error": "shout"}, "on_error must be one of warn, stop, raise"),
        ({"probe_every": "often"}, "probe_every must be a whole number"),
        ({"probe_every": 0}, "1 or more"),
        ({"colour": "red"}, "unknown setting 'colour'"),
    ],
)
def test_a_bad_value_says_what_was_expected(tmp_path, given, words):
    with pytest.raises(ConfigError, match=words):
        load(given, {}, tmp_path)


def test_a_broken_pyproject_is_named(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.")
    with pytest.raises(ConfigError, match=r"pyproject\.toml cannot be read"):
        load(environ={}, folder=tmp_path)


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Config)])
def test_every_setting_can_be_given_in_every_way(tmp_path, field):
    default = getattr(Config(), field)
    value = {
        "on_error": "stop",
        "fail_on": "never",
        "probe_every": "3",
        "engine": "numpy",
        "trace_dir": "elsewhere",
        "select": "S",
        "ignore": "S",
    }.get(field, "1")
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.stethoscope]\n{field.replace("_", "-")} = "{value}"\n'
    )
    ways = [
        load({field: value}, {}, tmp_path / "none"),
        load({}, {f"STETHOSCOPE_{field.upper()}": value}, tmp_path / "none"),
        load({}, {}, tmp_path),
    ]
    assert ways[0] == ways[1] == ways[2]
    assert getattr(ways[0], field) != default


@pytest.mark.parametrize(
    ("fail_on", "worst", "undetermined", "fails"),
    [
        ("error", "error", False, True),
        ("error", "warning", False, False),
        ("warning", "warning", False, True),
        ("warning", "note", False, False),
        ("note", "note", False, True),
        ("never", "error", True, False),
        ("undetermined", None, True, True),
        ("undetermined", "error", False, True),
        ("undetermined", "warning", False, False),
        ("error", None, True, False),
    ],
)
def test_what_fails(fail_on, worst, undetermined, fails):
    found = [Severity.NOTE, Severity(worst)] if worst else []
    if fail_on == "warning" and worst == "note":
        found = [Severity.NOTE]
    assert Config(fail_on=fail_on).fails(found, undetermined) is fails


@pytest.mark.parametrize("value", ["S004", "S004,L", ("S004",), ["double-activation", "L"]])
def test_rules_are_named_by_code_prefix_or_name(value):
    expected = {"S004,L": ("S004", "L")}.get(str(value), tuple([value] * isinstance(value, str)))
    assert Config(select=value).select == (expected or tuple(value))


@pytest.mark.parametrize("name", ["select", "ignore"])
@pytest.mark.parametrize("value", ["S04", "S004,Q", ("dead-unit",), 7])
def test_what_names_no_rule_is_refused_at_every_door(tmp_path, name, value):
    with pytest.raises(ConfigError, match=name):
        Config(**{name: value})
    with pytest.raises(ConfigError, match=name):
        load({name: value}, {}, tmp_path)
