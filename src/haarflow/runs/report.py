"""The report: one HTML file that needs nothing else, a function of the records it shows."""

import math
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from haarflow.errors import Refusal
from haarflow.runs import discovery, judge, ledger, style
from haarflow.runs.words import evidence, number, reason

NAME = "report.html"
AGAIN = "give the command of the record again."
PIXELS_PER_INCH = 108  # so that a panel 8.4 inches wide fills the page


@dataclass(frozen=True)
class Section:
    """A record, its part of the page, and what could not be drawn."""

    record: ledger.Record
    html: str
    complaints: tuple[str, ...]


def report(out: Path) -> tuple[Path, list[str]]:
    """Write OUT/report.html from every record below OUT; its path, and complaints about figures."""
    if not out.is_dir():
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
    sections = sorted(sections, key=lambda part: (part.record.group, part.record.experiment, part.record.digest))
    verdicts = [holds for part in sections for holds in part.record.verdicts.values()]
    problems = "".join(f'<p class="problem">{_prose(name)}: {_prose(why)}</p>' for name, why in missing.items())
    body = [
        f"<h1>{_headline(verdicts)}</h1>",
        f'<p class="lead">{_lead(sections, verdicts)}</p>{problems}',
        verdict_table(sections),
        *(part.html for part in sections),
        "<footer>Made from the records beside this file; each number is recomputed by its command.</footer>",
    ]
    return _frame("".join(body))


def verdict_table(sections: list[Section]) -> str:
    """Every claim, its verdict, the number it rests on, and the seconds its experiment took."""
    rows, heading = [], None
    for part in sections:
        if part.record.group != heading:
            heading = part.record.group
            rows.append(f'<tr class="heading"><td colspan="5">{escape(heading)}</td></tr>')
        rows += _verdict_rows(part.record)
    return _grid(["experiment", "claim", "verdict"], ["number", "seconds"], rows)


def section(record: ledger.Record) -> Section:
    """The part of the page about one record."""
    figures, complaints = _figures(record)
    facts = record.facts
    source = f'<p class="quiet">Source: {_prose(facts["source"])}</p>' if facts["source"] else ""
    notes = "".join(f'<p class="quiet">{_prose(words)}</p>' for words in facts["notes"].split("\n\n") if words)
    html = [
        f'<section id="{_anchor(record)}">',
        f'<div class="title"><h2>{escape(_title(record))}</h2>{_tally(record)}</div>',
        f'<p class="claim">{_prose(facts["claim"])}</p>{source}{notes}{_verdicts(record)}{figures}',
        f"<h3>Command</h3><pre>{escape(facts['command'])}</pre>",
        f'<div class="facts"><div><h3>Numbers</h3>{_table(facts["figures"])}</div>',
        f"<div><h3>Config</h3>{_table({**facts['config'], 'seed': facts['seed']})}</div></div>",
        f'<h3>Made with</h3><p class="quiet">{_made_with(record)}</p></section>',
    ]
    return Section(record, "".join(html), tuple(complaints))


def _figures(record: ledger.Record) -> tuple[str, list[str]]:
    """The panels of a record, and what could not be drawn."""
    arrays = record.arrays()
    try:
        experiment = discovery.load(record.experiment).model_validate(record.config)
    except ValueError:  # the experiment has gone or its settings have changed since
        return _problem("The figures are drawn by the experiment's file, which is not here or has changed."), []
    pictures, complaints = [], []
    if judge.standing(experiment, record) is not judge.Standing.CURRENT:
        complaints = [f"{record.experiment}: its record was made by other code than its file has now; {AGAIN}"]
        pictures = [_problem(complaints[0])]
    try:
        panels = experiment.panels(arrays)
    except Exception as error:
        html, words = _undrawn(record, "the panels", error)
        return "".join([*pictures, html]), [*complaints, *words]
    for order, panel in enumerate(panels):
        try:
            picture = _picture(panel, f"{record.digest}-{order}")
        except Exception as error:
            html, words = _undrawn(record, f"{panel.title!r}", error)
            complaints += words
        else:
            label = escape(panel.title, quote=True)
            caption = f"<figcaption><b>{_prose(panel.title)}.</b> {_prose(panel.caption)}</figcaption>"
            width = f"max-width: {panel.size[0] * PIXELS_PER_INCH:.0f}px"
            drawn = f'<div role="img" aria-label="{label}" style="{width}">{picture}</div>'
            html = f"<figure>{drawn}{caption}</figure>"
        pictures.append(html)
    return "".join(pictures), complaints


def _picture(panel: Any, salt: str) -> str:
    """A panel as the text that goes into the page: SVG, or a film inside the page's own text."""
    if panel.movie is None:
        return style.render(panel, salt)
    return f'<img class="film" alt="" src="data:image/gif;base64,{b64encode(style.film(panel)).decode()}">'


def _undrawn(record: ledger.Record, what: str, error: Exception) -> tuple[str, list[str]]:
    words = f"{record.experiment}: {what} could not be drawn ({type(error).__name__}: {error})."
    return _problem(words), [words]


def _headline(verdicts: list[bool]) -> str:
    if not verdicts:
        return "No claim has been tested yet"
    if all(verdicts):
        return "The claim holds" if len(verdicts) == 1 else f"All {len(verdicts)} claims hold"
    return f"{sum(verdicts)} of {len(verdicts)} claims hold"


def _lead(sections: list[Section], verdicts: list[bool]) -> str:
    count = len(sections)
    seconds = math.fsum(sum(part.record.seconds.values()) for part in sections)
    failing = len(verdicts) - sum(verdicts)
    why = " Each verdict that fails is explained by its number." if failing else ""
    counted = f"{count} experiment{'s' * (count != 1)}"
    return f"{counted}, computed in {_duration(seconds)} of worker time, in float64.{why}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _verdict_rows(record: ledger.Record) -> list[str]:
    rows = []
    for order, (claim, holds) in enumerate(record.verdicts.items()):
        first = order == 0
        name = f'<a href="#{_anchor(record)}">{escape(record.experiment)}</a>' if first else ""
        seconds = f"{sum(record.seconds.values()):.1f}" if first else ""
        why = "" if holds else f'<span class="why">{_prose(reason(record, claim))}</span>'
        rows.append(
            f'<tr><td class="name">{name}</td><td>{_prose(claim)}{why}</td><td>{_badge(holds)}</td>'
            f'<td class="number">{_minus(evidence(record, claim))}</td><td class="number">{seconds}</td></tr>'
        )
    return rows


def _verdicts(record: ledger.Record) -> str:
    rows = []
    for claim, holds in record.verdicts.items():
        known = holds or claim in record.evidence
        why = "" if known else f'<span class="why">{_prose(reason(record, claim))}</span>'
        wanted = record.evidence.get(claim, {}).get("wanted", "")
        rows.append(
            f"<tr><td>{_badge(holds)}</td><td>{_prose(claim)}{why}</td>"
            f'<td class="number">{_minus(evidence(record, claim))}</td>'
            f'<td class="number">{_minus(wanted)}</td></tr>'
        )
    return "<h3>Verdicts</h3>" + _grid(["verdict", "claim"], ["measured", "wanted"], rows)


def _grid(words: list[str], numbers: list[str], rows: list[str]) -> str:
    """A table with a head, its last columns numbers."""
    head = "".join([f"<th>{name}</th>" for name in words] + [f'<th class="number">{name}</th>' for name in numbers])
    body = "".join(rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _table(values: Mapping[str, Any]) -> str:
    rows = (f'<tr><td>{_prose(key)}</td><td class="number">{_value(value)}</td></tr>' for key, value in values.items())
    return f'<div class="wide"><table><tbody>{"".join(rows)}</tbody></table></div>'


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_value(item) for item in value)
    return escape(_minus(number(value)))


def _made_with(record: ledger.Record) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    seconds = record.seconds
    memory = f"; the largest worker held {record.memory:,.0f} MB" if record.memory else ""
    return (
        f"{escape(versions)}; {escape(record.precision)}; "
        f"compiled in {seconds['compile']:.1f} s, ran in {seconds['run']:.1f} s{memory}; "
        f"record <code>{escape(record.experiment)}/{escape(record.digest)}</code>."
    )


def _tally(record: ledger.Record) -> str:
    holding, total = sum(record.verdicts.values()), len(record.verdicts)
    words = "holds" if holding == total else "fails" if total == 1 else f"{holding} of {total} hold"
    return f'<span class="badge {"holds" if holding == total else "fails"}">{words}</span>'


def _badge(holds: bool) -> str:
    return '<span class="badge holds">✓ holds</span>' if holds else '<span class="badge fails">✗ fails</span>'


def _problem(words: str) -> str:
    return f'<p class="problem">{_prose(words)}</p>'


def _anchor(record: ledger.Record) -> str:
    return f"{record.experiment}-{record.digest}"


def _title(record: ledger.Record) -> str:
    words = record.experiment.replace("-", " ")
    return words[:1].upper() + words[1:]


def _minus(words: str) -> str:
    """A true minus sign in front of digits."""
    return re.sub(r"-(?=\d)", "−", words)


def _prose(words: str) -> str:
    """Escaped words, with `code` between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words))


def _frame(body: str) -> str:
    assets = files("haarflow.runs") / "assets"
    css = (assets / "report.css").read_text(encoding="utf-8")
    css = css.replace("LIGHT", style.variables(dark=False)).replace("DARK", style.variables(dark=True))
    script = (assets / "report.js").read_text(encoding="utf-8")
    buttons = "".join(f'<button value="{name}">{name}</button>' for name in ("auto", "light", "dark"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<title>haarflow report</title><link rel="icon" href="data:,">'
        f'<style>{css}</style></head><body><div class="top sans">'
        '<div class="brand">haarflow<span>learning with symmetry, '
        "seen through the mean-field limit</span></div>"
        f'<div class="themes" role="group" aria-label="colours">{buttons}</div></div>'
        f"<main>{body}</main><script>{script}</script></body></html>\n"
    )
