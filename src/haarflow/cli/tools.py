"""Commands for one's own code: laws, launch; and the lab."""

from pathlib import Path
from typing import Annotated

import typer

from haarflow.cli.options import FAILS, HOLDS, Json, app
from haarflow.errors import Refusal


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
