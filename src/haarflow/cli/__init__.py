"""The command line: experiments and their records; check, discover and decide for people with data; the lab."""

import os
import sys

import typer

from haarflow.cli.data_commands import check as check  # these two join the application by being imported
from haarflow.cli.experiments import list_
from haarflow.cli.options import BAD_INPUT, HOLDS, INTERRUPTED, STOPPED, UNFINISHED, app
from haarflow.cli.tools import laws as laws
from haarflow.errors import Refusal

COMPLETION = "_HAARFLOW_COMPLETE"  # set by a shell that asks how a command line goes on
START = """\
haarflow: learning with symmetry, seen through the mean-field limit.

Where to start:
  haarflow list              every experiment and what it claims
  haarflow reproduce --tour  the headline claims in a minute or two, and a report in results/report.html
  haarflow run NAME          one experiment, which of its claims hold, and its report
  haarflow settings NAME     what can be changed in an experiment, and what it costs
  haarflow check DATA --group "flips of 8x8 images"      whether your data have a symmetry
  haarflow discover DATA     which weights your data tie, and the symmetry behind it
  haarflow decide DATA --group "flips of 8x8 images"     augment, average or build in? A fair comparison
  haarflow laws FILE         whether the groups, units, schemes, … of a file of your own keep the laws
  haarflow lab               four schemes side by side, live in a browser
  haarflow --help            every command; `haarflow run --help` has the options of one

The documentation begins in docs/index.md; in Python, `import haarflow` and `dir(haarflow)`.
To complete commands and names with the Tab key, once: haarflow --install-completion."""


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
        return f"{words}{'' if words.endswith('?') else '.'} See `haarflow --help`.", BAD_INPUT
    raise error


def _complain(sentence: str, code: int) -> int:
    typer.echo(sentence, err=True)
    return code
