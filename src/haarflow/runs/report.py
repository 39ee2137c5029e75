"""The report: one HTML file that needs nothing else, a function of the records it shows."""

import math
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from haarflow.errors import Refusal
from haarflow.runs import catalogue, judge, ledger, overview, style
from haarflow.runs.experiment import Panel
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
    families = [list(parts) for _, parts in groupby(sections, key=lambda part: part.record.experiment)]
    verdicts = [holds for part in sections for holds in part.record.verdicts.values()]
    problems = "".join(f'<p class="problem">{_prose(name)}: {_prose(why)}</p>' for name, why in missing.items())
    body = [
        f"<h1>{_headline(verdicts)}</h1>",
        f'<p class="lead">{_lead(families, verdicts)}</p>{problems}',
        verdict_table(families),
        *(_alone(parts[0]) if len(parts) == 1 else _together(parts) for parts in families),
        "<footer>Made from the records beside this file; each number is recomputed by its command.</footer>",
    ]
    return _frame("".join(body))


def verdict_table(families: list[list[Section]]) -> str:
    """Every claim, its verdict, the number it rests on, and the seconds its experiment took."""
    rows, heading = [], None
    for parts in families:
        records = [part.record for part in parts]
        if records[0].group != heading:
            heading = records[0].group
            rows.append(f'<tr class="heading"><td colspan="5">{escape(heading)}</td></tr>')
        rows += _verdict_rows(records)
    return _grid(["experiment", "claim", "verdict"], ["number", "seconds"], rows)


def _alone(part: Section) -> str:
    """The section of an experiment with one record."""
    return f'<section id="{_anchor([part.record])}">{_heading(_title(part.record), [part.record])}{part.html}</section>'


def _together(parts: list[Section]) -> str:
    """An experiment with several records: how its numbers go with the settings that differ, then each run, folded."""
    records = [part.record for part in parts]
    names = overview.varied(records)
    runs = []
    for part in sorted(parts, key=lambda part: overview.order(part.record, names)):
        words = f"{escape(overview.label(part.record, names))} {_tally([part.record])}"
        body = f'<div id="{_anchor([part.record])}">{part.html}</div>'
        runs.append(f"<details><summary>{words}</summary>{body}</details>")
    try:
        panel = overview.panel(records)
        drawn = _figure(panel, style.render(panel, "-".join(record.digest for record in records)))
    except Exception as error:
        drawn, _ = _undrawn(records[0], "the overview", error)
    heading = _heading(f"{_title(records[0])}: {len(records)} runs", records)
    claim = f'<p class="claim">{_prose(records[0].claim)}</p>'
    return f'<section id="{_anchor(records)}">{heading}{claim}{drawn}<h3>Runs</h3>{"".join(runs)}</section>'


def section(record: ledger.Record) -> Section:
    """The part of the page about one record."""
    figures, complaints = _figures(record)
    facts = record.facts
    source = f'<p class="quiet">Source: {_prose(facts["source"])}</p>' if facts["source"] else ""
    notes = "".join(f'<p class="quiet">{_prose(words)}</p>' for words in facts["notes"].split("\n\n") if words)
    html = [
        f'<p class="claim">{_prose(facts["claim"])}</p>{source}{notes}{_verdicts(record)}{figures}',
        f"<h3>Command</h3><pre>{escape(facts['command'])}</pre>",
        f'<div class="facts"><div><h3>Numbers</h3>{_table(facts["figures"])}</div>',
        f"<div><h3>Config</h3>{_table({**facts['config'], 'seed': facts['seed']})}</div></div>",
        f'<h3>Made with</h3><p class="quiet">{_made_with(record)}</p>',
    ]
    return Section(record, "".join(html), tuple(complaints))


def _figures(record: ledger.Record) -> tuple[str, list[str]]:
    """The panels of a record, and what could not be drawn."""
    arrays = record.arrays()
    try:
        experiment = catalogue.load(record.experiment).model_validate(record.config)
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
            html = _figure(panel, picture)
        pictures.append(html)
    return "".join(pictures), complaints


def _figure(panel: Panel, picture: str) -> str:
    """A picture with its caption."""
    label = escape(panel.title, quote=True)
    caption = f"<figcaption><b>{_prose(panel.title)}.</b> {_prose(panel.caption)}</figcaption>"
    width = f"max-width: {panel.size[0] * PIXELS_PER_INCH:.0f}px"
    return f'<figure><div role="img" aria-label="{label}" style="{width}">{picture}</div>{caption}</figure>'


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


def _lead(families: list[list[Section]], verdicts: list[bool]) -> str:
    count, runs = len(families), sum(map(len, families))
    seconds = math.fsum(sum(part.record.seconds.values()) for parts in families for part in parts)
    failing = len(verdicts) - sum(verdicts)
    why = " Each verdict that fails is explained by its number." if failing else ""
    counted = f"{count} experiment{'s' * (count != 1)}" + f" in {runs} runs" * (runs > count)
    return f"{counted}, computed in {_duration(seconds)} of worker time, in float64.{why}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _verdict_rows(records: list[ledger.Record]) -> list[str]:
    """A row for each claim of an experiment, over all its records."""
    rows = []
    for order, claim in enumerate(dict.fromkeys(claim for record in records for claim in record.verdicts)):
        judged = [record for record in records if claim in record.verdicts]
        name = f'<a href="#{_anchor(records)}">{escape(records[0].experiment)}</a>' if order == 0 else ""
        seconds = f"{math.fsum(sum(record.seconds.values()) for record in records):.1f}" if order == 0 else ""
        failing = [record for record in judged if not record.verdicts[claim]]
        why = f'<span class="why">{_prose(_why(records, failing, claim))}</span>' if failing else ""
        badge = _badge(not failing) if len(judged) == 1 else _count(len(judged) - len(failing), len(judged))
        rows.append(
            f'<tr><td class="name">{name}</td><td>{_prose(claim)}{why}</td><td>{badge}</td>'
            f'<td class="number">{_minus(_range(judged, claim))}</td><td class="number">{seconds}</td></tr>'
        )
    return rows


def _why(records: list[ledger.Record], failing: list[ledger.Record], claim: str) -> str:
    """The number behind a verdict that fails; of several runs, which they are and the first of them."""
    if len(records) == 1:
        return reason(failing[0], claim)
    names = overview.varied(records)
    failing = sorted(failing, key=lambda record: overview.order(record, names))
    more = f", and {len(failing) - 1} more" if len(failing) > 1 else ""
    return f"{overview.label(failing[0], names)}: {reason(failing[0], claim)}{more}"


def _range(records: list[ledger.Record], claim: str) -> str:
    """The number behind a verdict, or the smallest and the largest of several runs."""
    known = [record.evidence[claim]["value"] for record in records if claim in record.evidence]
    numbers = sorted(value for value in known if value is not None)
    if len(records) == 1 or len(numbers) < 2:
        return evidence(records[0], claim)
    ends = dict.fromkeys(number(value) for value in (numbers[0], numbers[-1]))
    return " … ".join(ends)


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


def _heading(title: str, records: list[ledger.Record]) -> str:
    return f'<div class="title"><h2>{escape(title)}</h2>{_tally(records)}</div>'


def _tally(records: list[ledger.Record]) -> str:
    verdicts = [holds for record in records for holds in record.verdicts.values()]
    return _count(sum(verdicts), len(verdicts))


def _count(holding: int, total: int) -> str:
    words = "holds" if holding == total else "fails" if total == 1 else f"{holding} of {total} hold"
    return f'<span class="badge {"holds" if holding == total else "fails"}">{words}</span>'


def _badge(holds: bool) -> str:
    return '<span class="badge holds">✓ holds</span>' if holds else '<span class="badge fails">✗ fails</span>'


def _problem(words: str) -> str:
    return f'<p class="problem">{_prose(words)}</p>'


def _anchor(records: list[ledger.Record]) -> str:
    """Where a record, or an experiment with several of them, stands on the page."""
    return f"{records[0].experiment}-{records[0].digest if len(records) == 1 else 'all'}"


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
