"""Records in words, for the terminal: short, with every claim on request or where one fails."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from haarflow.runs.ledger import Record


def number(value: Any) -> str:
    """A number as a person reads it."""
    if value is None:
        return "not finite"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def duration(seconds: float) -> str:
    """A time as a person says it: 34 seconds, 5 minutes, 2.5 hours."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def gist(claim: str) -> str:
    """The first thing that a claim says, up to its first colon, semicolon or full stop; what follows explains it.

    >>> gist("Proximal steps follow their flow to first order in tau: on the line, on a grid.")
    'Proximal steps follow their flow to first order in tau'
    """
    return re.split(r"[:;.](?=\s|$)", claim, maxsplit=1)[0]


def fitted(text: str, width: int) -> str:
    """The text in a line of that width, cut at a word and marked by an ellipsis if it is longer."""
    if len(text) <= width:
        return text
    cut = text[: max(width - 1, 1)].rstrip()
    whole = cut.rpartition(" ")[0] if text[len(cut) : len(cut) + 1].strip() else cut
    return f"{(whole or cut).rstrip(' ,')}…"


def catalogue_lines(entries: list[Any], width: int | None, *, claims: bool = False) -> list[str]:
    """A line for each experiment below the name of its group, cut to the width if there is one; or claims in full."""
    names, lines, heading = max((len(entry.name) for entry in entries), default=0), [], None
    for entry in entries:
        if entry.group != heading:
            heading = entry.group
            lines.append(heading)
        words = entry.claim if claims else gist(entry.claim)
        words = words if width is None or claims else fitted(words, width - names - 4)
        lines.append(f"  {entry.name:{names}}  {words}")
        lines += [f"{'':{names + 4}}Source: {entry.source}"] if claims else []
    return lines


def numbers(record: "Record") -> dict[str, Any]:
    """The numbers behind the verdicts of a record."""
    return record.facts["numbers"]


def evidence(record: "Record", claim: str) -> str:
    """The number a verdict rests on, if it is known."""
    known = record.facts["evidence"].get(claim)
    return number(known["value"]) if known else ""


def reason(record: "Record", claim: str) -> str:
    """Why a verdict fails: the number that was measured and the one that was wanted."""
    known = record.facts["evidence"].get(claim)
    if known:
        return f"measured {number(known['value'])}, wanted {known['wanted']}"
    return "see the numbers: " + ", ".join(f"{name} = {number(value)}" for name, value in numbers(record).items())


def print_record(record: "Record") -> None:
    """Print a record: claim, verdicts, numbers, command and versions."""
    from rich.markup import escape
    from rich.table import Table

    screen, facts = console(), record.facts
    screen.print(f"[bold]{escape(facts['experiment'])}[/bold]  {escape(facts['claim'])}")
    if facts["source"]:
        screen.print(f"[dim]Source: {escape(facts['source'])}[/dim]")
    screen.print(claim_table([record]))
    table = Table("number", "value", title="numbers", title_justify="left", box=None, pad_edge=False)
    for name, value in numbers(record).items():
        table.add_row(escape(name), number(value))
    if table.row_count:
        screen.print(table)
    settings = ", ".join(f"{key}={value}" for key, value in facts["config"].items())
    screen.print(f"[dim]config[/dim]   {escape(settings)}, seed {facts['seed']}", soft_wrap=True)
    screen.print(f"[dim]command[/dim]  {escape(facts['command'])}", soft_wrap=True)
    screen.print(f"[dim]versions[/dim] {', '.join(f'{k} {v}' for k, v in facts['versions'].items())}", soft_wrap=True)
    screen.print(f"[dim]record[/dim]   {escape(str(record.path))}", soft_wrap=True)


def claim_table(records: Iterable["Record"]) -> Any:
    """Every claim of some records, its verdict and its number, as a rich table."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("experiment", "claim", "verdict", "number", "seconds", show_lines=False)
    for record in records:
        seconds = f"{sum(record.seconds.values()):.1f}"
        for row, (claim, holds) in enumerate(record.facts["verdicts"].items()):
            verdict = "[green]holds[/green]" if holds else "[bold red]fails[/bold red]"
            words = escape(claim) if holds else f"{escape(claim)}\n[red]{escape(reason(record, claim))}[/red]"
            name, time = (record.facts["experiment"], seconds) if row == 0 else ("", "")
            table.add_row(escape(name), words, verdict, evidence(record, claim), time)
    return table


def print_verdicts(records: list["Record"], *, claims: bool = False) -> None:
    """Print a line for each record, and below it the claims that fail; with `claims`, every claim as one table."""
    if claims and records:
        console().print(claim_table(records))
        return
    names = [record.facts["experiment"] for record in records]
    for name, record in zip(names, records, strict=True):
        _line(record, name, max(map(len, names)))


def print_sweep(outcomes: list[Any], *, claims: bool = False) -> None:
    """Print a line for each run of a sweep: settings, verdicts, first numbers; with `claims`, every claim."""
    name = outcomes[0].name.partition(" ")[0]
    console().print(f"Runs of {name}:", markup=False)
    labels = [outcome.name.removeprefix(f"{name} ") for outcome in outcomes]
    for label, outcome in zip(labels, outcomes, strict=True):
        if outcome.record is None:
            console().print(f"{label}  no record", style="bold red", markup=False)
            continue
        _line(outcome.record, label, max(map(len, labels)), numbered=True)
    if claims:
        console().print(claim_table(outcome.record for outcome in outcomes if outcome.record))


def print_answer(answer: Any, columns: dict[str, list]) -> None:
    """An answer about somebody's data: its sentence, and the columns of a table that a terminal has room for."""
    from rich.table import Table

    from haarflow.practice.answers import short

    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(name)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*(short(cell) for cell in row))
    out = console()
    out.print(str(answer), markup=False, highlight=False)
    out.print(table)


def _line(record: "Record", label: str, width: int, *, numbered: bool = False) -> None:
    """A record in a line that fits the terminal; a claim that fails gets a line of its own, with its number."""
    from rich.text import Text

    screen, verdicts = console(), record.facts["verdicts"]
    tally = f"{sum(verdicts.values())} of {len(verdicts)} hold"
    first = ", ".join(f"{name} = {number(value)}" for name, value in list(numbers(record).items())[:4])
    seconds = f"{sum(record.seconds.values()):.1f} s"
    words = first if numbered else gist(record.facts["claim"])
    room = max(screen.width - width - 28, 12)
    colour = "green" if record.holds else "bold red"
    line = Text.assemble((f"{label:{width}}", "bold"), "  ", (f"{tally:14}", colour), f"{seconds:>9}  ")
    screen.print(line + Text(fitted(words, room), "dim"), soft_wrap=True)
    for claim in (claim for claim, holds in verdicts.items() if not holds):
        screen.print(f"  ✗ {claim}: {reason(record, claim)}", style="red", markup=False, soft_wrap=True)


def console() -> Any:
    """The terminal, without colours of its own choice for numbers and words."""
    from rich.console import Console

    return Console(highlight=False)
