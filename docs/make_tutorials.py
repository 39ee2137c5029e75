"""Make the pages of the tutorials from their scripts, with what they print and draw: `make tutorials`.

    python docs/make_tutorials.py            # all of them
    python docs/make_tutorials.py NAME       # docs/tutorials/NAME.py alone

A script is cells that begin with `# %%`; the comment behind it is prose, and what follows is code.
"""

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HOME = Path(__file__).parent / "tutorials"
NAMES = ("first_hour", "flip_or_not", "torch_invariant", "find_tied_weights", "sweep_in_pandas")


class Cell(NamedTuple):
    """Some prose, and the code below it."""

    prose: str
    code: str


def cells(script: str) -> tuple[str, str, list[Cell]]:
    """The title, the introduction and the cells of a script."""
    head, *rest = re.split(r"^# %% ", script, flags=re.M)
    title, _, introduction = head.strip().strip('"').partition("\n\n")
    return title.strip().rstrip("."), introduction.strip(), [_cell(one) for one in rest]


def _cell(text: str) -> Cell:
    lines = text.splitlines()
    end = next((i for i in range(1, len(lines)) if not lines[i].startswith("# ")), len(lines))
    prose = " ".join([lines[0], *(line[2:] for line in lines[1:end])])
    return Cell(prose, "\n".join(lines[end:]).strip())


def source(cell: Cell) -> str:
    """A cell on its page, before what it prints."""
    code = re.sub(r"  # noqa.*", "", cell.code)
    return f"{cell.prose}\n" + (f"\n```python\n{code}\n```\n" if code else "")


def head(name: str, title: str, introduction: str) -> str:
    """The top of a page."""
    return f"# {title}\n\nThe script is [{name}.py]({name}.py); this page is made from it.\n\n{introduction}\n"


def run(name: str) -> str:
    """The page of a script, which is run here cell by cell in an empty folder."""
    path = HOME / f"{name}.py"
    title, introduction, found = cells(path.read_text("utf-8"))
    parts, known = [head(name, title, introduction)], {"__name__": "__main__"}
    for cell in found:
        before, said = set(os.listdir()), io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(cell.code, path.name, "exec"), known)
        parts.append(source(cell))
        if said.getvalue().strip():
            parts.append(f"```\n{said.getvalue().rstrip()}\n```\n")
        for drawn in sorted(one for one in set(os.listdir()) - before if one.endswith(".png")):
            shutil.copy(drawn, HOME / drawn)
            parts.append(f"![{cell.prose.split(':')[0].rstrip('.')}]({drawn})\n")
    return "\n".join(parts)


def main(*names: str) -> None:
    """Write the pages."""
    for name in names or NAMES:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            page = run(name)
        (HOME / f"{name}.md").write_text(page, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
