"""Commands for people with data: check, discover, decide."""

from pathlib import Path
from typing import Annotated, Any

import typer

from haarflow.cli.options import Json, Out, Seed, app

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
    place = questions.picture_place(out)
    options = {"kind": kind, "subgroups": subgroups, "tolerance": tolerance, "folds": folds}
    found = questions.check(data, group, target=target, moves=moves, seed=seed, **options)
    _say(found, [found, *([found.lattice] if found.lattice else [])], place, as_json, f"Made with {found.method}.")


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
    place = questions.picture_place(out)
    found = questions.discover(data, target=target, seed=seed, tolerance=tolerance, ties=ties)
    tied = any(word != "0" for row in found.pattern for word in row)
    shown = [found, questions.Pictured(found.draw_sharing)] if tied else [found]
    chosen = ", ".join(f"{name} {value}" for name, value in found.settings.items())
    _say(found, shown, place, as_json, *([f"Chosen for the search: {chosen}."] if chosen else []))


def _say(found: Any, pictures: list[Any], place: Path, as_json: bool, *more: str) -> None:
    """Print an answer, as text or JSON, and write its picture and its JSON."""
    from haarflow.files import write_whole
    from haarflow.runs import questions

    questions.picture(pictures, place)
    text = questions.as_json(found, picture=str(place))
    write_whole(place.with_suffix(".json"), text.encode())
    if as_json:
        typer.echo(text)
        return
    for answer in (one for one in pictures if hasattr(one, "table")):
        typer.echo("\n".join(["", *questions.lines(answer)]))
    typer.echo("\n".join(["", str(found), *more, f"Picture: {place}"]))


@app.command("decide")
def decide_(
    data: Annotated[Path, typer.Argument(help="A .csv, .parquet, .npz or idx file.")],
    group: Annotated[str, typer.Option("--group", help="The symmetry, such as 'flips of 8x8 images'.")],
    target: Annotated[str | None, typer.Option("--target", help="The column of the labels; else the last one.")] = None,
    model: Annotated[
        str, typer.Option("--model", help="forest, linear, kernel, mean-field, or module:Class.")
    ] = "forest",
    budget: Annotated[str, typer.Option("--budget", help="equal-rows or equal-seconds.")] = "equal-rows",
    penalty: Annotated[
        str, typer.Option("--penalty", help="auto: each candidate chooses its own; given: as it is; or a setting.")
    ] = "auto",
    labels: Annotated[str, typer.Option("--labels", help="classes, numbers, or auto.")] = "auto",
    rows: Annotated[int | None, typer.Option("--rows", min=4, help="Draw so many rows, if there are more.")] = None,
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
    options = {"estimator": model, "budget": budget, "penalty": penalty, "labels": labels}
    options |= {"folds": folds, "repeats": repeats, "seed": seed}
    answer, page = decide_file(data, group, target, out, rows=rows, **options)
    if as_json:
        typer.echo(answer.to_json())
        return
    terminal.print_answer(answer, brief(answer))
    typer.echo(f"Report: {page}")
