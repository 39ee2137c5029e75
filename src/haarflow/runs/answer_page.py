"""An answer about a user's own data as files: answer.json with all numbers, and report.html, which needs nothing else.

They lie in OUT/<question>/<digest>/, where the digest is that of what was asked; what a run keeps on its way lies
beside them, so that the same command goes on where it was stopped.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from haarflow.errors import Refusal
from haarflow.practice.answers import Answer, short
from haarflow.runs import ledger, style
from haarflow.runs.panels import Panel
from haarflow.runs.pictures import Picture, picture

REPORT, NUMBERS = "report.html", "answer.json"


@dataclass(frozen=True)
class Drawn:
    """One picture of an answer: a title, a caption, and what draws it into an axis of matplotlib."""

    title: str
    caption: str
    draw: Callable[[Any], Any]
    size: tuple[float, float] = (8.4, 3.4)

    def panel(self) -> Panel:
        """As the report draws it."""
        return Panel(self.title, self.caption, lambda figure: self.draw(figure.subplots()), self.size)


def home_of(out: Path, question: str, asked: Mapping[str, Any], data: Path) -> Path:
    """The folder of an answer, named by what was asked and by the bytes of the data."""
    content = ledger.sha256(data.read_bytes()) if data.is_file() else str(data)
    return out / question / ledger.sha256(ledger.canonical({**asked, "data": content}))[:16]


@contextmanager
def begun(home: Path) -> Iterator[None]:
    """The folder is made, and is gone again where the question was refused before anything was kept in it."""
    made = [one for one in (home, *home.parents) if not one.exists()]
    ledger.folder(home)
    try:
        yield
    except Refusal:
        with suppress(OSError):  # a folder that holds something stays, and so do those around it
            for one in made:
                one.rmdir()
        raise


def publish(
    home: Path,
    answer: Answer,
    title: str,
    drawn: Sequence[Drawn],
    notes: Sequence[str],
    asked: Mapping[str, Any],
    *,
    columns: Mapping[str, list] | None = None,
) -> Path:
    """Write the numbers and the page of an answer, with its table or these columns; returns the page's path."""
    ledger.write(home / NUMBERS, (answer.to_json() + "\n").encode())
    pictures = [picture(one.panel(), f"{home.name}-{order}") for order, one in enumerate(drawn)]
    ledger.write(home / REPORT, page(answer, title, pictures, notes, asked, columns or answer.table()).encode())
    return home / REPORT


def page(
    answer: Answer,
    title: str,
    pictures: Sequence[Picture],
    notes: Sequence[str],
    asked: Mapping[str, Any],
    columns: Mapping[str, list],
) -> str:
    """The whole page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("haarflow.runs", "templates"), autoescape=True, undefined=StrictUndefined
    )
    macros: Any = environment.get_template("answer.html").module
    css, script = ((files("haarflow.runs") / "assets" / f"report.{kind}").read_text("utf-8") for kind in ("css", "js"))
    css = css.replace("LIGHT", style.variables(dark=False)).replace("DARK", style.variables(dark=True))
    rows = [[short(cell) for cell in row] for row in zip(*columns.values(), strict=True)]
    facts = {name: str(value) for name, value in asked.items()}
    return str(macros.page(title, str(answer), pictures, list(columns), rows, notes, facts, css, script)).strip() + "\n"
