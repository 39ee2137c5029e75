"""Commands about experiments: list, settings, run, reproduce, sweep, and their records: report, show, export."""

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from haarflow.cli.options import (
    BAD_INPUT,
    FAILS,
    HOLDS,
    UNFINISHED,
    Claims,
    Force,
    Full,
    Json,
    Out,
    Quick,
    Seed,
    Tour,
    Workers,
    app,
)
from haarflow.errors import Refusal


def _names(incomplete: str) -> list[str]:
    """The experiments that a name may become, for shells."""
    from haarflow.runs.catalogue import catalogue

    return [name for name in catalogue() if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="An experiment, as `haarflow list` names it.", autocompletion=_names)]


@app.command("list")
def list_(
    claims: Annotated[bool, typer.Option("--claims", help="Every claim in full, and its source.")] = False,
    as_json: Json = False,
) -> None:
    """List the experiments, each with its claim in a line."""
    from haarflow.runs.catalogue import catalogue
    from haarflow.runs.terminal import catalogue_lines

    entries = list(catalogue().values())
    if as_json:
        keys = ("name", "group", "tour", "claim", "source")
        typer.echo(json.dumps([{key: getattr(entry, key) for key in keys} for entry in entries], ensure_ascii=False))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    typer.echo("\n".join(catalogue_lines(entries, width, claims=claims)))


@app.command("settings")
def settings_(name: Name, as_json: Json = False) -> None:
    """Say what can be set in an experiment.

    Each setting with its value in the modes, what it means, and whether a run takes longer with it.
    """
    from haarflow.runs import catalogue

    entry = catalogue.find(name)
    from haarflow.runs import machine, settings

    machine.prepare()
    found = settings.settings(catalogue.load(name), entry.path)
    if as_json:
        typer.echo(json.dumps([vars(setting) for setting in found], ensure_ascii=False))
    else:
        settings.print_settings(entry, found)


@app.command()
def run(
    name: Name,
    quick: Quick = False,
    full: Full = False,
    tour: Tour = False,
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting, key=value; may be repeated.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="A TOML file of settings.")] = None,
    seed: Seed = 0,
    out: Out = Path("results"),
    workers: Workers = 2,
    claims: Claims = False,
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Run one experiment and write its report.

    It is not run again if its record exists. The report, OUT/NAME/report.html, shows all its records in OUT.
    """
    from haarflow.runs import catalogue

    mode = _mode(tour, quick, full)
    catalogue.find(name)
    from haarflow.runs import machine, report, terminal
    from haarflow.runs.config import configure

    machine.prepare()  # before the experiment's file makes its first array
    experiment = configure(catalogue.load(name), mode=mode, file=config, settings=settings or [])
    (outcome,) = _sweep([experiment], seed, out, workers, force)
    if outcome.record is None:
        raise outcome.problem
    home = outcome.record.path.parent
    if as_json:
        typer.echo(json.dumps({**outcome.record.summary(), "report": str(home / report.NAME)}, ensure_ascii=False))
    elif claims:
        terminal.print_record(outcome.record)
    else:
        terminal.print_verdicts([outcome.record])
        typer.echo(f"Record: {outcome.record.path}")
    path, complaints = report.report(home)
    if not as_json:
        typer.echo(f"Report: {path}")
    _tell(complaints)
    raise typer.Exit(HOLDS if outcome.record.holds else FAILS)


@app.command()
def reproduce(
    tour: Tour = False,
    quick: Quick = False,
    full: Full = False,
    only: Annotated[str | None, typer.Option("--only", help="A pattern of names, such as 'symmetry/*'.")] = None,
    seed: Seed = 0,
    out: Out = Path("results"),
    workers: Workers = 2,
    claims: Claims = False,
    force: Force = False,
) -> None:
    """Run many experiments and write one report.

    All of them, or with --tour those that show the headline claims. The report is OUT/report.html.
    """
    from haarflow.runs import catalogue

    mode = _mode(tour, quick, full)
    entries = catalogue.select(only, tour=mode == "tour")
    from haarflow.runs import machine, report, terminal
    from haarflow.runs.config import configure

    machine.prepare()
    experiments = [configure(catalogue.load(entry.name), mode=mode) for entry in entries]
    sections: list[report.Section] = []
    missing = {experiment.name: "not finished yet." for experiment in experiments}

    def ended(outcome: Any) -> None:
        """Keep the report on disk up to date."""
        missing[outcome.name] = str(outcome.problem)
        if outcome.record:
            del missing[outcome.name]
            sections.append(outcome.section)
        report.write(out, sections, missing)

    outcomes = _sweep(experiments, seed, out, workers, force, ended)
    terminal.print_verdicts([outcome.record for outcome in outcomes if outcome.record], claims=claims)
    _tell([*(line for part in sections for line in part.complaints), *missing.values()])
    typer.echo(f"Report: {out / 'report.html'}")
    raise typer.Exit(_code(outcomes))


@app.command()
def sweep(
    config: Annotated[Path, typer.Argument(help="A TOML file: experiment, mode, seeds, [set] and [sweep].")],
    engine: Annotated[
        str, typer.Option("--engine", help="local: processes of this machine; dask: a cluster.")
    ] = "local",
    scheduler: Annotated[str | None, typer.Option("--scheduler", help="The address of a Dask scheduler.")] = None,
    out: Out = Path("results"),
    workers: Workers = 2,
    claims: Claims = False,
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Run every combination of the values in a file.

    The report, OUT/report.html, shows how the numbers go with what was swept.
    """
    from haarflow.errors import one_of

    one_of("--engine", engine, ("local", "dask"))
    if scheduler is not None and engine != "dask":
        raise Refusal(f"--scheduler is for the engine dask; got --engine {engine}. Write --engine dask.")
    from haarflow.runs import machine, report, sweeps, terminal, watchers
    from haarflow.runs.scheduler import schedule

    machine.prepare()
    jobs = sweeps.jobs(config, out, force=force)
    with watchers.watcher(len(jobs)) as watch:
        crew = _cluster(workers, scheduler, watch) if engine == "dask" else None
        outcomes = schedule(jobs, count=workers, watch=watch, crew=crew)
    if any(outcome.record for outcome in outcomes):
        report.report(out)
    if as_json:
        found = [outcome.record.summary() for outcome in outcomes if outcome.record]
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        terminal.print_sweep(outcomes, claims=claims)
        typer.echo(f"Report: {out / 'report.html'}")
    _tell([str(outcome.problem) for outcome in outcomes if outcome.problem])
    raise typer.Exit(_code(outcomes))


def _cluster(workers: int, scheduler: str | None, watch: Any) -> Any:
    from haarflow.runs.cluster import Cluster

    return Cluster(workers, scheduler, watch.moved)


@app.command("report")
def report_(folder: Annotated[Path, typer.Argument(help="A folder of records.")]) -> None:
    """Write FOLDER/report.html from the records in it."""
    from haarflow.runs import machine, report

    machine.prepare()
    path, complaints = report.report(folder)
    _tell(complaints)
    typer.echo(f"Report: {path}")


@app.command()
def show(record: Annotated[Path, typer.Argument(help="The folder of a record, or its record.json.")]) -> None:
    """Print a record: its claims, numbers and command."""
    from haarflow.runs import ledger, terminal

    terminal.print_record(ledger.read(record))


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="A folder of records.")],
    form: Annotated[str, typer.Option("--format", help="csv, json, or npz for the arrays.")] = "csv",
    out: Annotated[Path | None, typer.Option("--out", help="The file; without one, standard output.")] = None,
) -> None:
    """Write finished records as a table or as arrays.

    A row for each record: its settings, its numbers, whether its claims hold. In Python: haarflow.records(folder).
    """
    from haarflow.runs.exports import export as write

    found = write(folder, form, out)
    typer.echo(found if isinstance(found, str) else f"Written: {found}", nl=not isinstance(found, str))


def _tell(complaints: list[str]) -> None:
    for complaint in complaints:
        typer.echo(complaint, err=True)


def _code(outcomes: list[Any]) -> int:
    """The exit code of several outcomes."""
    problems = [outcome.problem for outcome in outcomes if outcome.problem]
    if problems:
        return BAD_INPUT if isinstance(problems[0], Refusal) else UNFINISHED
    return HOLDS if all(outcome.record.holds for outcome in outcomes) else FAILS


def _mode(tour: bool, quick: bool, full: bool) -> str:
    chosen = [mode for mode, wanted in (("tour", tour), ("quick", quick), ("full", full)) if wanted]
    if len(chosen) > 1:
        raise Refusal(f"A run has one size; got {' and '.join('--' + mode for mode in chosen)}. Give one of them.")
    return chosen[0] if chosen else "quick"


def _sweep(experiments: list[Any], seed: int, out: Path, workers: int, force: bool, after: Any = None) -> list[Any]:
    from haarflow.runs import scheduler, watchers

    jobs = [scheduler.job(experiment, seed, out, force=force) for experiment in experiments]
    with watchers.watcher(len(jobs)) as watch:
        options = {"after": after, "draw": True} if after else {}
        return scheduler.schedule(jobs, count=workers, watch=watch, **options)
