"""The settings of an experiment: what each is and means, its value in each mode, and whether time grows with it.

The meaning of a setting is the comment beside its field, so that whoever reads the experiment's file has it too:

    repetitions: Count = 60  # independent runs at each N

"""

import ast
import io
import json
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from haarflow.runs import cost
from haarflow.runs.config import MODES, of_mode, toml
from haarflow.runs.experiment import Experiment
from haarflow.runs.terminal import console

USUAL = {  # settings that mean the same wherever they stand, unless a comment says more
    "batch": "samples of a minibatch",
    "dt": "time that each step makes",
    "fault": "a mistake planted on purpose, to see verdicts fail",
    "horizon": "time to train for",
    "repetitions": "independent runs",
    "tau": "weight of the penalty",
    "temperature": "temperature of the noise",
}
SHOWN = ("quick", "tour", "full")
TIME = {1: "grows", -1: "falls", 0: ""}  # what the time of a run does when a setting grows


@dataclass(frozen=True)
class Setting:
    """A setting as `haarflow settings` shows it; a mode that leaves it open has no value for it."""

    name: str
    kind: str
    values: dict[str, Any]
    meaning: str
    time: str


def settings(kind: type[Experiment], path: Path) -> list[Setting]:
    """Every setting of an experiment, whose file is at the path."""
    modes = {mode: made for mode in MODES if (made := of_mode(kind, mode)) is not None}
    dumps = {mode: made.model_dump(mode="json") for mode, made in modes.items()}
    growth = cost.growth(modes["quick"]) if "quick" in modes else {}
    schema, beside = kind.model_json_schema(), comments(path.read_text(encoding="utf-8"))
    found = []
    for name, field in kind.model_fields.items():
        words = field.description or beside.get(name) or USUAL.get(name, "")
        values = {mode: dump[name] for mode, dump in dumps.items()}
        found.append(
            Setting(name, described(schema["properties"][name], schema), values, words, TIME[growth.get(name, 0)])
        )
    return found


def comments(source: str) -> dict[str, str]:
    """The comments at the end of the lines of annotated names in classes, by name; the last one of a name counts."""
    beside = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    fields = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.AnnAssign)]
    named = {field.target.id: field for field in fields if isinstance(field.target, ast.Name)}
    lines = {name: (field.lineno, field.end_lineno or field.lineno) for name, field in named.items()}
    return {name: beside[line] for name, ends in lines.items() for line in ends if line in beside}


def described(schema: dict[str, Any], whole: dict[str, Any]) -> str:
    """A JSON schema in words: a whole number >= 1; a list of numbers > 0; 'exact' or 'random'."""
    if "$ref" in schema:
        return described(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    if "enum" in schema or "const" in schema:
        choices = [json.dumps(choice) for choice in schema.get("enum", [schema.get("const")])]
        return " or ".join(filter(None, [", ".join(choices[:-1]), choices[-1]]))
    if "anyOf" in schema:
        return " or ".join(described(one, whole) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"a list, each {described(schema.get('items', {}), whole)}{_bounds(schema)}"
    names = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "string": "a word"}
    return f"{names.get(schema.get('type', ''), 'a table')}{_bounds(schema)}"


def _bounds(schema: dict[str, Any]) -> str:
    """The rules of a schema, as they follow its kind."""
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    limits = [f" {sign} {schema[rule]:g}" for rule, sign in signs.items() if rule in schema]
    rules = [" and".join(limits)]
    rules += [f", a multiple of {schema['multipleOf']:g}"] if "multipleOf" in schema else []
    rules += [f", at least {schema['minItems']}"] if schema.get("minItems", 1) > 1 else []
    return "".join(rules)


def print_settings(entry: Any, found: list[Setting]) -> None:
    """Print the claim of an experiment and a table of its settings; a mode that agrees with quick is left blank."""
    from rich.markup import escape
    from rich.table import Column, Table

    screen = console()
    screen.print(f"[bold]{escape(entry.name)}[/bold]  {escape(entry.claim)}\n")
    modes = [Column(mode, overflow="fold") for mode in SHOWN]
    table = Table(Column("setting", no_wrap=True, style="bold"), *modes, "time", "what it is", box=None, pad_edge=False)
    for one in found:
        what = "; ".join(part for part in (one.meaning, one.kind) if part)
        table.add_row(one.name, *(escape(_cell(one, mode)) for mode in SHOWN), one.time, escape(what))
    screen.print(table)
    screen.print(
        "\nBlank: as in quick. Time: whether a run takes longer (grows) or less long (falls) as the setting grows."
    )
    for one in found[:1]:
        value = toml(one.values["quick"]) if "quick" in one.values else "..."
        screen.print(f"Change one with: haarflow run {entry.name} --set '{one.name}={value}'", markup=False)


def _cell(setting: Setting, mode: str) -> str:
    """The value of a setting in a mode."""
    if mode not in setting.values:
        return "to be given"
    same = mode != "quick" and setting.values[mode] == setting.values.get("quick")
    return "" if same else _short(setting.values[mode])


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_short(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
