"""Records in words, for the terminal."""

from typing import Any

from haarflow.runs.ledger import Record


def number(value: Any) -> str:
    """A number as a person reads it."""
    if value is None:
        return "not finite"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def evidence(record: Record, claim: str) -> str:
    """The number a verdict rests on, if it is known."""
    known = record.facts["evidence"].get(claim)
    return number(known["value"]) if known else ""


def reason(record: Record, claim: str) -> str:
    """Why a verdict fails: the number that was measured and the one that was wanted."""
    known = record.facts["evidence"].get(claim)
    if known:
        return f"measured {number(known['value'])}, wanted {known['wanted']}"
    return "see the numbers: " + ", ".join(
        f"{name} = {number(value)}" for name, value in record.facts["figures"].items()
    )


def print_record(record: Record) -> None:
    """Print a record: claim, verdicts, numbers, command and versions."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    facts = record.facts
    console.print(f"[bold]{escape(facts['experiment'])}[/bold]  {escape(facts['claim'])}")
    if facts["source"]:
        console.print(f"[dim]Source: {escape(facts['source'])}[/dim]")
    console.print(verdict_table([record]))
    numbers = Table("number", "value", title="numbers", title_justify="left", box=None, pad_edge=False)
    for name, value in facts["figures"].items():
        numbers.add_row(escape(name), number(value))
    if facts["figures"]:
        console.print(numbers)
    settings = ", ".join(f"{key}={value}" for key, value in facts["config"].items())
    console.print(f"[dim]config[/dim]   {escape(settings)}, seed {facts['seed']}", soft_wrap=True)
    console.print(f"[dim]command[/dim]  {escape(facts['command'])}", soft_wrap=True)
    console.print(f"[dim]versions[/dim] {', '.join(f'{k} {v}' for k, v in facts['versions'].items())}", soft_wrap=True)
    console.print(f"[dim]record[/dim]   {escape(str(record.path))}", soft_wrap=True)


def verdict_table(records: list[Record]) -> Any:
    """The verdicts of some records as a rich table."""
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


def print_verdicts(records: list[Record]) -> None:
    """Print the verdicts of some records as one table."""
    from rich.console import Console

    if records:
        Console(highlight=False).print(verdict_table(records))


def print_sweep(outcomes: list[Any]) -> None:
    """Print one line for each run of a sweep: its settings, how many claims hold, and its first numbers."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    name = outcomes[0].name.partition(" ")[0]
    table = Table(
        Column(f"runs of {name}", no_wrap=True), Column("claims", no_wrap=True), "numbers", box=None, pad_edge=False
    )
    for outcome in outcomes:
        run = escape(outcome.name.removeprefix(f"{name} "))
        if outcome.record is None:
            table.add_row(run, "[bold red]no record[/bold red]", "")
            continue
        verdicts, figures = outcome.record.verdicts, list(outcome.record.figures.items())[:4]
        colour = "green" if outcome.record.holds else "bold red"
        numbers = ", ".join(f"{name} = {number(value)}" for name, value in figures)
        held = f"[{colour}]{sum(verdicts.values())} of {len(verdicts)} hold[/{colour}]"
        table.add_row(run, held, escape(numbers))
    Console(highlight=False).print(table)
