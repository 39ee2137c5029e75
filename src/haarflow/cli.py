"""The command line: list, run, reproduce, sweep, report, show, launch."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from haarflow.errors import Refusal

HOLDS, FAILS, BAD_INPUT, UNFINISHED, INTERRUPTED = 0, 1, 2, 3, 130
STOPPED = "Stopped. Finished parts are kept: give the same command again and it resumes."
START = """\
haarflow: learning with symmetry, seen through the mean-field limit.

Where to start:
  haarflow list              every experiment and what it claims
  haarflow reproduce --tour  the headline claims in a few minutes, and a report in results/report.html
  haarflow run NAME          one experiment, and which of its claims hold
  haarflow --help            every command; `haarflow run --help` has the options of one

The documentation begins in docs/index.md; in Python, `import haarflow` and `dir(haarflow)`."""

app = typer.Typer(
    name="haarflow",
    invoke_without_command=True,
    add_completion=False,
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
Version = Annotated[bool, typer.Option("--version", help="Print the version.")]


@app.callback()
def start(version: Version = False) -> None:
    """Learning with symmetry, seen through the mean-field limit: run the claims and read the report."""
    if version:
        from haarflow import __version__

        typer.echo(f"haarflow {__version__}")
        raise typer.Exit(HOLDS)


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the experiments and what each one claims."""
    from haarflow.runs.catalogue import catalogue

    entries = list(catalogue().values())
    if as_json:
        keys = ("name", "group", "tour", "claim", "source")
        typer.echo(json.dumps([{key: getattr(entry, key) for key in keys} for entry in entries], ensure_ascii=False))
        return
    width = max((len(entry.name) for entry in entries), default=0)
    heading = None
    for entry in entries:
        if entry.group != heading:
            heading = entry.group
            typer.echo(heading)
        typer.echo(f"  {entry.name:{width}}  {entry.claim}")


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="An experiment, as `haarflow list` names it.")],
    quick: Quick = False,
    full: Full = False,
    tour: Tour = False,
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting, key=value; may be repeated.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="A TOML file of settings.")] = None,
    seed: Seed = 0,
    out: Out = Path("results"),
    workers: Workers = 2,
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Run one experiment, unless its record exists, and say which claims hold."""
    from haarflow.runs import catalogue

    mode = _mode(tour, quick, full)
    catalogue.find(name)
    from haarflow.runs import machine
    from haarflow.runs.config import configure

    machine.prepare()  # before the experiment's file makes its first array
    experiment = configure(catalogue.load(name), mode=mode, file=config, settings=settings or [])
    (outcome,) = _sweep([experiment], seed, out, workers, force)
    if outcome.record is None:
        raise outcome.problem
    if as_json:
        typer.echo(json.dumps(outcome.record.summary(), ensure_ascii=False))
    else:
        from haarflow.runs import words

        words.print_record(outcome.record)
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
    force: Force = False,
) -> None:
    """Run every experiment (with --tour, the headline claims) and write OUT/report.html."""
    from haarflow.runs import catalogue

    mode = _mode(tour, quick, full)
    entries = catalogue.select(only, tour=mode == "tour")
    from haarflow.runs import machine, report, words
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
    words.print_verdicts([outcome.record for outcome in outcomes if outcome.record])
    for complaint in [*(line for part in sections for line in part.complaints), *missing.values()]:
        typer.echo(complaint, err=True)
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
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Run every combination of the values in a file, and write OUT/report.html."""
    from haarflow.errors import one_of

    one_of("--engine", engine, ("local", "dask"))
    if scheduler is not None and engine != "dask":
        raise Refusal(f"--scheduler is for the engine dask; got --engine {engine}. Write --engine dask.")
    from haarflow.runs import machine, progress, report, sweeps, words
    from haarflow.runs.scheduler import schedule

    machine.prepare()
    jobs = sweeps.jobs(config, out, force=force)
    with progress.watcher(len(jobs)) as watch:
        crew = _cluster(workers, scheduler, watch) if engine == "dask" else None
        outcomes = schedule(jobs, count=workers, watch=watch, crew=crew)
    if any(outcome.record for outcome in outcomes):
        report.report(out)
    if as_json:
        found = [outcome.record.summary() for outcome in outcomes if outcome.record]
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        words.print_sweep(outcomes)
        typer.echo(f"Report: {out / 'report.html'}")
    for outcome in outcomes:
        if outcome.problem:
            typer.echo(str(outcome.problem), err=True)
    raise typer.Exit(_code(outcomes))


def _cluster(workers: int, scheduler: str | None, watch: Any) -> Any:
    from haarflow.runs.cluster import Cluster

    return Cluster(workers, scheduler, watch.moved)


@app.command("report")
def report_(folder: Annotated[Path, typer.Argument(help="A folder of records.")]) -> None:
    """Write DIR/report.html from the records in DIR."""
    from haarflow.runs import machine, report

    machine.prepare()
    path, complaints = report.report(folder)
    for complaint in complaints:
        typer.echo(complaint, err=True)
    typer.echo(f"Report: {path}")


@app.command()
def show(record: Annotated[Path, typer.Argument(help="The folder of a record, or its record.json.")]) -> None:
    """Print a record: claim, verdicts, numbers, command and versions."""
    from haarflow.runs import ledger, words

    words.print_record(ledger.read(record))


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def launch(
    script: Annotated[Path, typer.Argument(help="A Python script that calls flow(..., devices=jax.device_count()).")],
    arguments: Annotated[list[str] | None, typer.Argument(help="What the script finds in sys.argv.")] = None,
    processes: Annotated[int, typer.Option("--processes", min=1, help="Processes of this machine.")] = 2,
) -> None:
    """Run a script in several processes that JAX joins into one: for a flow too large for one of them."""
    from haarflow.runs.launch import launch as run_together

    raise typer.Exit(run_together(script, arguments or [], processes=processes))


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
    from haarflow.runs import progress, scheduler

    jobs = [scheduler.job(experiment, seed, out, force=force) for experiment in experiments]
    with progress.watcher(len(jobs)) as watch:
        options = {"after": after, "draw": True} if after else {}
        return scheduler.schedule(jobs, count=workers, watch=watch, **options)


def main() -> None:
    """Run the command line; bad input is answered by one sentence, never by a traceback."""
    sys.exit(answer(sys.argv[1:]))


def answer(arguments: list[str]) -> int:
    """The exit code of a command line."""
    try:
        code = _at_once(arguments) or app(arguments, prog_name="haarflow", standalone_mode=False)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        return code if type(code) is int else HOLDS
    except Refusal as refusal:
        return _complain(str(refusal), BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return _complain(STOPPED, INTERRUPTED)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return HOLDS
    except Exception as error:
        return _complain(*_unexpected(error))


def _at_once(arguments: list[str]) -> bool:
    """Answer nothing at all, or a plain `list`, without the option parser: loading it takes longer than the answer."""
    if not arguments:
        typer.echo(START)
    elif arguments in (["list"], ["list", "--json"]):
        list_(as_json=len(arguments) == 2)
    else:
        return False
    return True


def _unexpected(error: Exception) -> tuple[str, int]:
    from haarflow.runs.workers import Stopped

    if isinstance(error, Stopped):
        return str(error), UNFINISHED
    if hasattr(error, "format_message"):  # the option parser's own complaints
        words = str(error.format_message()).rstrip(".")  # pyright: ignore[reportAttributeAccessIssue]
        return f"{words}. See `haarflow --help`.", BAD_INPUT
    raise error


def _complain(sentence: str, code: int) -> int:
    typer.echo(sentence, err=True)
    return code
