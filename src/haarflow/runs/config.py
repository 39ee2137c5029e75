"""Configs from words: a mode, a TOML file, `key=value` settings, and back to a command."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from haarflow.errors import Refusal, one_of
from haarflow.runs.catalogue import nearest
from haarflow.runs.experiment import Experiment

Kind = TypeVar("Kind", bound=BaseModel)  # an experiment, or another config with a class variable `name`
MODES = ("tour", "quick", "full")


def configure(
    kind: type[Experiment],
    *,
    mode: str = "quick",
    file: Path | None = None,
    settings: Iterable[str] = (),
    values: Mapping[str, Any] | None = None,
) -> Experiment:
    """The experiment in a mode, changed by a TOML file or by values, and then by settings."""
    changes: dict[str, Any] = read_toml("--config", file) if file else dict(values or {})
    for setting in settings:
        changes = merged(changes, parse(setting))
    base = of_mode(kind, mode)
    if base is not None and not changes:
        return base
    return checked(kind, merged(base.model_dump(mode="json") if base else {}, changes))


def of_mode(kind: type[Experiment], mode: str) -> Experiment | None:
    """The experiment in a mode; None where some setting has no default, so that the mode is not enough to make it."""
    try:
        made = getattr(kind, one_of("A mode", mode, MODES))()
    except ValidationError as error:
        if all(problem["type"] == "missing" for problem in error.errors()):
            return None
        raise Refusal(_sentence(kind, error)) from None
    if not isinstance(made, kind):
        raise Refusal(f"{mode}() of {kind.name} gives the experiment in that mode; got {type(made).__name__}.")
    return made


def parse(setting: str) -> dict[str, Any]:
    """One `key=value` as a dictionary; the value is TOML, or else a string."""
    key, equals, value = setting.partition("=")
    key = key.strip()
    if not equals or not key:
        raise Refusal(f"--set takes key=value; got {setting!r}. Write for example `--set dt=0.1`.")
    try:
        if "\n" in setting:
            raise ValueError("a second line would be a second setting")
        return tomllib.loads(f"{key} = {value}")
    except (ValueError, RecursionError):
        for word in reversed(key.split(".")):
            value = {word: value}
        return value if isinstance(value, dict) else {key: value}


def checked(kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    """The experiment, or another config, with these values, or a refusal in one sentence."""
    try:
        return kind.model_validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        raise Refusal(_sentence(kind, error)) from None


def command_of(experiment: Experiment, seed: int) -> str:
    """The shortest command line that makes this record."""
    kind, config = type(experiment), experiment.model_dump(mode="json")
    commands = [_command(kind.name, config, mode, of_mode(kind, mode), seed) for mode in ("quick", "full", "tour")]
    from haarflow.runs.cost import affordable

    return min(commands, key=lambda command: command.count(" --set ")) + " --force" * (not affordable(experiment))


def _command(name: str, config: dict[str, Any], mode: str, base: Experiment | None, seed: int) -> str:
    import shlex

    usual = base.model_dump(mode="json") if base else {}
    words = ["haarflow", "run", name, f"--{mode}"]
    for key, value in config.items():
        if key not in usual or value != usual[key]:
            words += ["--set", f"{key}={toml(value)}"]
    return shlex.join([*words, "--seed", str(seed)])


def toml(value: Any) -> str:
    """A JSON value in TOML's words; JSON is TOML except for tables, which are written inline."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(value, default=str)  # dates are words


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The old values changed by the new, table by table."""
    both = {key: merged(old[key], new[key]) for key in new if _tables(old.get(key), new[key])}
    return {**old, **new, **both}


def _tables(*values: Any) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def read_toml(owner: str, path: Path) -> dict[str, Any]:
    """What a TOML file says, or a refusal in the name of whoever reads it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = (error.strerror or "unreadable").lower()
        raise Refusal(f"{owner} reads a TOML file; {path} cannot be read ({reason}).") from None
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of numbers with thousands of digits
        raise Refusal(f"{owner} reads a TOML file; {path} is not one: {error}.") from None


def _sentence(kind: Any, error: ValidationError) -> str:
    """The first complaint of pydantic as one sentence in the house's style."""
    first, *others = error.errors(include_url=False)
    key = ".".join(str(word) for word in first["loc"]) or "config"
    more = f" ({len(others)} more setting{'s' * (len(others) > 1)} refused.)" if others else ""
    if first["type"] == "extra_forbidden":
        return f"{kind.name} has no setting {key!r}; {nearest(key, list(kind.model_fields))}{more}"
    if first["type"] == "missing":
        return f"{kind.name}, setting {key!r}: it has no default and must be given. Write `--set {key}=...`.{more}"
    rule = first["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ").rstrip(".")
    got = json.dumps(first["input"], default=str)
    field = kind.model_fields.get(key)
    usual = field.get_default(call_default_factory=True) if field and not field.is_required() else None
    advice = (
        f" Write for example `--set {key}={toml(json.loads(json.dumps(usual)))}`."
        if usual is not None and usual != first["input"]
        else ""
    )
    return f"{kind.name}, setting {key!r}: {rule[0].lower()}{rule[1:]}; got {got[:80]}.{advice}{more}"
