"""The command line: experiments and their records; check, discover and decide for people with data; the lab."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from haarflow.errors import Refusal

HOLDS, FAILS, BAD_INPUT, UNFINISHED, INTERRUPTED = 0, 1, 2, 3, 130
STOPPED = "Stopped. Finished parts are kept: give the same command again and it resumes."
COMPLETION = "_HAARFLOW_COMPLETE"  # set by a shell that asks how a command line goes on
START = """\
haarflow: learning with symmetry, seen through the mean-field limit.

Where to start:
  haarflow list              every experiment and what it claims
  haarflow reproduce --tour  the headline claims in a few minutes, and a report in results/report.html
  haarflow run NAME          one experiment, which of its claims hold, and its report
  haarflow settings NAME     what can be changed in an experiment, and what it costs
  haarflow check DATA --group "flips of 8x8 images"      whether your data have a symmetry
  haarflow discover DATA     which weights your data tie, and the symmetry behind it
  haarflow decide DATA       augment, average or build in? A fair comparison on your data and your model
  haarflow laws FILE         whether the groups, units, schemes, … of a file of your own keep the laws
  haarflow lab               four schemes side by side, live in a browser
  haarflow --help            every command; `haarflow run --help` has the options of one

The documentation begins in docs/index.md; in Python, `import haarflow` and `dir(haarflow)`.
To complete commands and names with the Tab key, once: haarflow --install-completion."""

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
    from haarflow.runs import machine, progress, report, sweeps, terminal
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
def laws(
    files: Annotated[list[Path] | None, typer.Argument(help="Python files of your own; they are imported.")] = None,
    as_json: Json = False,
) -> None:
    """Check what files of yours add to the library.

    Every group, unit, loss, scheme, functional, field, payoff, … that they define is measured on its `examples()`: a
    line for each, and the laws that it breaks. Without a file, the laws are listed.
    """
    from haarflow.runs import machine, outside

    machine.prepare()
    if not files:
        typer.echo("\n".join(outside.law_lines()))
        return
    found = outside.checked(files)
    if as_json:
        typer.echo(outside.as_json(found))
    else:
        outside.print_findings(found)
    raise typer.Exit(HOLDS if all(one.holds for laws in found.values() for one in laws) else FAILS)


@app.command("decide")
def decide_(
    data: Annotated[Path, typer.Argument(help="A .csv, .parquet, .npz or idx file.")],
    group: Annotated[str, typer.Option("--group", help="The symmetry, such as 'flips of 8x8 images'.")],
    target: Annotated[str | None, typer.Option("--target", help="The column of the labels; else the last one.")] = None,
    model: Annotated[
        str, typer.Option("--model", help="forest, linear, kernel, mean-field, or module:Class.")
    ] = "forest",
    budget: Annotated[str, typer.Option("--budget", help="equal-rows or equal-seconds.")] = "equal-rows",
    labels: Annotated[str, typer.Option("--labels", help="classes, numbers, or auto.")] = "auto",
    folds: Annotated[int, typer.Option("--folds", min=2, help="Folds of the cross-validation.")] = 5,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="How often it is repeated.")] = 4,
    seed: Seed = 0,
    out: Out = Path("results"),
    as_json: Json = False,
) -> None:
    """Decide whether to augment, average or build in.

    All ways to use a symmetry on one model, by cross-validation on the same splits, with intervals and what each
    costs. The report is OUT/decide/DIGEST/report.html. A run that is stopped goes on if the command is given again.
    """
    from haarflow.runs import machine, terminal
    from haarflow.runs.decide_file import brief, decide_file

    machine.prepare()
    options = {"estimator": model, "budget": budget, "labels": labels, "folds": folds, "repeats": repeats, "seed": seed}
    answer, page = decide_file(data, group, target, out, **options)
    if as_json:
        typer.echo(answer.to_json())
        return
    terminal.print_answer(answer, brief(answer))
    typer.echo(f"Report: {page}")


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


DataFile = Annotated[Path, typer.Argument(help=".csv, .parquet, .npz, .npy, idx files, or a folder of images.")]
Target = Annotated[str | None, typer.Option("--target", help="The column to predict, by name or number; the last.")]
Picture = Annotated[Path, typer.Option("--out", help="The picture; the answer as JSON is written beside it.")]


@app.command()
def check(
    data: DataFile,
    group: Annotated[str, typer.Option("--group", help='In words: "flips of 8x8 images"; or a .toml file.')],
    target: Target = None,
    moves: Annotated[str | None, typer.Option("--outputs", help="How the group moves the outputs, in words.")] = None,
    subgroups: Annotated[bool, typer.Option("--subgroups", help="Test every subgroup, too.")] = False,
    tolerance: Annotated[float, typer.Option("--tolerance", help="The cost, as a share of the variance.")] = 0.01,
    folds: Annotated[int, typer.Option("--folds", help="Parts that are left out in turn.")] = 5,
    kind: Annotated[str, typer.Option("--kind", help="The target: numbers, classes, or auto.")] = "auto",
    seed: Seed = 0,
    out: Picture = Path("check.png"),
    as_json: Json = False,
) -> None:
    """Ask whether data have a symmetry.

    Exact tests of the law of the inputs and of all, a score test of the function, and what building it in costs.
    """
    from haarflow.errors import one_of
    from haarflow.runs import machine, questions

    machine.prepare()
    one_of("--kind", kind, ("auto", "numbers", "classes"))
    options = {"kind": kind, "subgroups": subgroups, "tolerance": tolerance, "folds": folds}
    found = questions.check(data, group, target=target, moves=moves, seed=seed, **options)
    _say(found, [found, *([found.lattice] if found.lattice else [])], out, as_json, f"Made with {found.method}.")


@app.command()
def discover(
    data: DataFile,
    target: Target = None,
    tolerance: Annotated[float, typer.Option("--tolerance", help="The cost, as a share of the variance.")] = 0.01,
    ties: Annotated[bool, typer.Option("--ties/--no-ties", help="Search for tied weights, too.")] = True,
    seed: Seed = 0,
    out: Picture = Path("discover.png"),
    as_json: Json = False,
) -> None:
    """Ask which symmetry data have.

    Half of the rows propose, by tied weights and a small library of groups; the other half confirm or refute.
    """
    from haarflow.runs import machine, questions

    machine.prepare()
    found = questions.discover(data, target=target, seed=seed, tolerance=tolerance, ties=ties)
    shown = [found, questions.Pictured(found.draw_sharing)] if found.pattern else [found]
    chosen = ", ".join(f"{name} {value}" for name, value in found.settings.items())
    _say(found, shown, out, as_json, *([f"Chosen for the search: {chosen}."] if chosen else []))


def _say(found: Any, pictures: list[Any], out: Path, as_json: bool, *more: str) -> None:
    """Print an answer, as text or JSON, and write its picture and its JSON."""
    from haarflow.files import write_whole
    from haarflow.runs import questions

    place = questions.picture(pictures, out)
    text = questions.as_json(found, picture=str(place))
    write_whole(place.with_suffix(".json"), text.encode())
    if as_json:
        typer.echo(text)
        return
    for answer in (one for one in pictures if hasattr(one, "table")):
        typer.echo("\n".join(["", *questions.lines(answer)]))
    typer.echo("\n".join(["", str(found), *more, f"Picture: {place}"]))


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def launch(
    script: Annotated[Path, typer.Argument(help="A Python script that calls flow(..., devices=jax.device_count()).")],
    arguments: Annotated[list[str] | None, typer.Argument(help="What the script finds in sys.argv.")] = None,
    processes: Annotated[int, typer.Option("--processes", min=1, help="Processes of this machine.")] = 2,
) -> None:
    """Run a script in processes that JAX joins into one.

    For a flow that is too large for one process.
    """
    from haarflow.runs.launch import launch as run_together

    raise typer.Exit(run_together(script, arguments or [], processes=processes))


@app.command()
def lab(
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="The port of the page.")] = 8765,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open nothing.")] = False,
    host: Annotated[str, typer.Option("--host", help="Another address than this machine's own.")] = "127.0.0.1",
    password: Annotated[
        str | None, typer.Option("--password", envvar="HAARFLOW_LAB_PASSWORD", help="For another host.")
    ] = None,
    results: Annotated[Path, typer.Option("--results", help="The folder of records to browse.")] = Path("results"),
    settings: Annotated[list[str] | None, typer.Option("--set", help="With --out: a setting, key=value.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="With --out: a TOML file of settings.")] = None,
    data: Annotated[Path | None, typer.Option("--data", help="With --out: the file that was uploaded.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="No page: the run's curves and clouds into an .npz.")
    ] = None,
) -> None:
    """Watch four schemes side by side in a browser.

    With --out, the run that a state of the page speaks of is made without a page: the same numbers, to the bit.
    """
    if out is None and (settings or config or data):
        raise Refusal("--set, --config and --data are for a run without a page; got no --out. Write --out run.npz.")
    if out is not None:
        from haarflow.lab.headless import run_to_file

        typer.echo(run_to_file(out, config, settings or [], data))
        return
    from haarflow.lab.serve import serve

    serve(host=host, port=port, browser=not no_browser, password=password, results=results)


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
    if COMPLETION in os.environ:
        return False
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
