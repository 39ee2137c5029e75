"""The application that commands join, their exit codes, and the options that several of them take."""

from pathlib import Path
from typing import Annotated

import typer

HOLDS, FAILS, BAD_INPUT, UNFINISHED, INTERRUPTED = 0, 1, 2, 3, 130
STOPPED = "Stopped. Finished parts are kept: give the same command again and it resumes."

app = typer.Typer(
    name="haarflow",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Quick = Annotated[bool, typer.Option("--quick", help="Minutes on a laptop (the default).")]
Full = Annotated[bool, typer.Option("--full", help="The published parameters.")]
Tour = Annotated[bool, typer.Option("--tour", help="The smallest size whose verdict means something.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="The seed of every random number.")]
Out = Annotated[Path, typer.Option("--out", help="The folder of the records.")]
Workers = Annotated[int, typer.Option("--workers", min=0, help="Worker processes; 0 runs in this one.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output.")]
Force = Annotated[bool, typer.Option("--force", help="Compute although there is a record, and whatever it costs.")]
Claims = Annotated[bool, typer.Option("--claims", help="Show every claim, not only those that fail.")]
Version = Annotated[bool, typer.Option("--version", help="Print the version.")]


@app.callback()
def start(version: Version = False) -> None:
    """Learning with symmetry, seen through the mean-field limit: run the claims and read the report."""
    if version:
        from haarflow import __version__

        typer.echo(f"haarflow {__version__}")
        raise typer.Exit(HOLDS)
