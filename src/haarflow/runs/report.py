"""The report: one HTML file that needs nothing else, a function of the records it shows.

It opens with a line and a picture of every experiment; the tables of verdicts, the numbers and the settings are folded
below. Its words are those of the records, typeset; its markup is in templates/report.html.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from haarflow.errors import Refusal
from haarflow.runs import ledger, style
from haarflow.runs.families import Family, families
from haarflow.runs.pictures import Picture, pictures
from haarflow.runs.terminal import duration, number, numbers, reason
from haarflow.runs.typeset import typeset

NAME = "report.html"
GLOSSARY = {
    "vanilla": "plain training, which is told nothing of the symmetry.",
    "DA": "data augmentation: every sample is moved by a random element of the group.",
    "FA": "feature averaging: the network is averaged over the group.",
    "EA": "equivariant architecture: the particles are restricted to E^G.",
    "WI": "weakly invariant: the group does not change the law of the particles, mu = mu^G.",
    "SI": "strongly invariant: the group does not move any particle; all of them lie on E^G.",
    "E^G": "the parameters that the whole group leaves in place.",
    "mu^G": "the law mu averaged over its images under the group.",
    "Qf": "the function f averaged over the group, its nearest equivariant one; |f − Qf|² is how far it is.",
    "W2, RMD": "the transport distance between laws, and the same relative to their size.",
}


@dataclass(frozen=True)
class Section:
    """A record and its pictures, of which some may be missing, with a sentence in their place."""

    record: ledger.Record
    pictures: tuple[Picture, ...]

    @property
    def complaints(self) -> list[str]:
        """What could not be drawn, or was drawn by other code, if the experiment's file is there."""
        return [drawn.problem for drawn in self.pictures if drawn.problem.startswith(f"{self.record.experiment}: ")]

    @property
    def html(self) -> str:
        """Its part of the page."""
        return str(_macros().body(self))


def section(record: ledger.Record) -> Section:
    """A record with its pictures."""
    return Section(record, tuple(pictures(record)))


def report(out: Path) -> tuple[Path, list[str]]:
    """Write OUT/report.html from every record below OUT; its path, and complaints about pictures."""
    if not os.path.isdir(out):
        raise Refusal(f"A report is made from a folder of records; {out} is not a folder.")
    paths = ledger.find_records(out)
    if not paths:
        raise Refusal(
            f"A report is made from finished records; there is none in {out}. "
            "Make some with `haarflow reproduce --tour`."
        )
    sections = [section(ledger.read(path)) for path in paths]
    return write(out, sections), [words for part in sections for words in part.complaints]


def write(out: Path, sections: list[Section], missing: Mapping[str, str] | None = None) -> Path:
    """Write the page at once, so that a browser never sees a half."""
    path = out / NAME
    ledger.write(path, page(sections, missing or {}).encode())
    return path


def page(sections: list[Section], missing: Mapping[str, str]) -> str:
    """The whole page; `missing` says why some experiments have no record."""
    found = families(sections)
    css, script = ((files("haarflow.runs") / "assets" / f"report.{kind}").read_text("utf-8") for kind in ("css", "js"))
    css = css.replace("LIGHT", style.variables(dark=False)).replace("DARK", style.variables(dark=True))
    return str(_macros().page(_headline(found), _lead(found), missing, found, GLOSSARY, css, script)).strip() + "\n"


def _headline(found: list[Family]) -> str:
    held, total = sum(family.held for family in found), sum(family.total for family in found)
    if not total:
        return "No claim has been tested yet"
    if held == total:
        return "The claim holds" if total == 1 else f"All {total} claims hold"
    return f"{held} of {total} claims hold"


def _lead(found: list[Family]) -> str:
    count, runs = len(found), sum(len(family.sections) for family in found)
    fails = any(family.held < family.total for family in found)
    why = " Each verdict that fails is explained by its number." if fails else ""
    counted = f"{count} experiment{'s' * (count != 1)}" + f" in {runs} runs" * (runs > count)
    seconds = math.fsum(family.seconds for family in found)
    return f"{counted}, computed in {duration(seconds)} of worker time, in float64.{why}"


def _setting(value: Any) -> str:
    """The value of a setting, lists by their members."""
    return ", ".join(_setting(item) for item in value) if isinstance(value, list) else number(value)


def _made_with(record: ledger.Record) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    compiling, running = record.seconds["compile"], record.seconds["run"]
    memory = f"; the largest worker held {record.memory:,.0f} MB" if record.memory else ""
    return f"{versions}; {record.precision}; compiled in {compiling:.1f} s, ran in {running:.1f} s{memory}"


@cache
def _macros() -> Any:
    """The macros of the template, each a function that gives safe HTML."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("haarflow.runs", "templates")
    options = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True, "undefined": StrictUndefined}
    environment = Environment(loader=loader, **options)
    filters = {"math": typeset, "number": number, "numbers": numbers, "reason": reason, "setting": _setting}
    environment.filters.update({**filters, "made_with": _made_with})
    return environment.get_template(NAME).module
