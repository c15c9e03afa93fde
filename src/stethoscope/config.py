"""Settings: command line over environment over pyproject.toml over defaults."""

from __future__ import annotations

import dataclasses
import os
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from stethoscope.types import Severity

PREFIX = "STETHOSCOPE_"
FALSE_WORDS = ("", "0", "false", "no", "off")


class ConfigError(ValueError):
    """A setting has a value that it cannot have; the message says what was expected."""


@dataclasses.dataclass(frozen=True)
class Config:
    """All settings. A field `x_y` is `--x-y`, `STETHOSCOPE_X_Y` and `x-y` in pyproject.toml.

    Attributes:
        on_error: What an ERROR does to the run: "warn", "stop" (politely) or "raise".
        fail_on: Least severity that makes the exit code 1; "undetermined" fails on that too,
            "never" never fails.
        probe_every: Interval of full statistics after the dense start; None means 20, or more
            where they are dear.
        select: Codes, prefixes of codes or names of the rules to run; empty means all.
        ignore: Of those not to run. Both also as one text, with commas.
        engine: What trains the fits of a Keras script under `run`: "native", its own backend, or
            "numpy", the translation of the model.
        trace_dir: Folder of the traces.
        verbose: Also show notes and why rules were skipped.
        quiet: Print nothing but errors.
        disable: Make everything a no-op.
    """

    on_error: Literal["warn", "stop", "raise"] = "warn"
    fail_on: Literal["error", "warning", "note", "undetermined", "never"] = "error"
    probe_every: int | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    engine: Literal["native", "numpy"] = "native"
    trace_dir: str = ".stethoscope"
    verbose: bool = False
    quiet: bool = False
    disable: bool = False

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for field in dataclasses.fields(self):
            choices = typing.get_args(hints[field.name])
            value = getattr(self, field.name)
            if typing.get_origin(hints[field.name]) is Literal and value not in choices:
                raise ConfigError(
                    f"{field.name} must be one of {', '.join(choices)}; got {value!r}."
                )
        for name in ("select", "ignore"):
            object.__setattr__(self, name, _rules(name, getattr(self, name)))
        if self.probe_every is None:
            return
        if isinstance(self.probe_every, bool) or not isinstance(self.probe_every, int):
            raise ConfigError(f"probe_every must be a whole number, got {self.probe_every!r}.")
        if self.probe_every < 1:
            raise ConfigError(f"probe_every must be 1 or more, got {self.probe_every}.")

    def fails(self, severities: list[Severity], undetermined: bool) -> bool:
        """Whether findings of these severities make the exit code 1."""
        if self.fail_on == "never":
            return False
        if self.fail_on == "undetermined":
            return undetermined or Severity.ERROR in severities
        return any(s.rank <= Severity(self.fail_on).rank for s in severities)


def load(
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> Config:
    """The settings in force.

    Args:
        overrides: Fields given on the command line or as keywords; None values are not given.
        environ: The environment.
        folder: Where to look for pyproject.toml, upwards; default the working directory.

    Raises:
        ConfigError: An unknown field or a value that a field cannot have.
    """
    values: dict[str, Any] = _pyproject(folder or Path.cwd())
    values.update(_environment(environ))
    values.update({k: v for k, v in (overrides or {}).items() if v is not None})
    known = {field.name: field for field in dataclasses.fields(Config)}
    for name in values:
        if name not in known:
            raise ConfigError(f"unknown setting {name!r}: expected one of {', '.join(known)}.")
    return Config(**{name: _coerce(name, value) for name, value in values.items()})


def _pyproject(folder: Path) -> dict[str, Any]:
    for parent in (folder, *folder.parents):
        path = parent / "pyproject.toml"
        if path.is_file():
            try:
                table = tomllib.loads(path.read_text(encoding="utf-8"))
            except (OSError, tomllib.TOMLDecodeError) as error:
                raise ConfigError(f"{path} cannot be read: {error}") from error
            settings = table.get("tool", {}).get("stethoscope", {})
            if not isinstance(settings, dict):
                raise ConfigError(f"{path}: [tool.stethoscope] must be a table, got {settings!r}.")
            return {name.replace("-", "_"): value for name, value in settings.items()}
    return {}


def _environment(environ: Mapping[str, str]) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(Config)}
    found = {}
    for key, value in environ.items():
        name = key[len(PREFIX) :].lower()
        if key.startswith(PREFIX) and name in names:
            found[name] = value
    return found


def _coerce(name: str, value: Any) -> Any:
    default = next(f.default for f in dataclasses.fields(Config) if f.name == name)
    if isinstance(default, bool):
        return value.lower() not in FALSE_WORDS if isinstance(value, str) else bool(value)
    if isinstance(default, int) or name == "probe_every":
        try:
            return int(value)
        except (TypeError, ValueError):
            raise ConfigError(f"{name} must be a whole number, got {value!r}.") from None
    return value


def _rules(name: str, value: Any) -> tuple[str, ...]:
    """The rules that `value` names, as a tuple."""
    parts = value.split(",") if isinstance(value, str) else value
    try:
        wanted = tuple(str(part).strip() for part in parts if str(part).strip())
    except TypeError:
        raise ConfigError(f"{name} must be codes or names of rules, got {value!r}.") from None
    if wanted:
        from stethoscope.rules import all_rules, is_named

        for one in wanted:
            if not any(is_named(rule, one) for rule in all_rules()):
                raise ConfigError(
                    f"{name} names {one!r}, which is no rule's code, prefix or name: "
                    "`stethoscope rules` lists them."
                )
    return wanted
