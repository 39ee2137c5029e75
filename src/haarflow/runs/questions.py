"""Questions of people with a file: the data read, the answer printed, its picture and its JSON written."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax

from haarflow.errors import Refusal
from haarflow.files import place_of
from haarflow.learning.readers import read_pairs
from haarflow.learning.table_files import Frame
from haarflow.practice.answers import Answer, short
from haarflow.practice.symmetry_check import SymmetryCheck, check_symmetry
from haarflow.practice.symmetry_search import SymmetrySearch, search_symmetry
from haarflow.practice.words import rep_from_words


def check(
    data: Path,
    group: str,
    *,
    target: str | None,
    moves: str | None,
    kind: Literal["auto", "numbers", "classes"],
    seed: int,
    **options: Any,
) -> SymmetryCheck:
    """The answer of `haarflow check`: data from a file, the group in words."""
    x, y, columns = read_pairs(data, target=target)
    on_x = rep_from_words(group, columns=columns)
    on_y = None if moves is None else rep_from_words(moves)
    if on_y is not None and on_y.group != on_x.group:
        raise Refusal(
            f"The group moves inputs and outputs by the same elements; got {on_x.group} and {on_y.group}. Write words "
            "of the same group for both."
        )
    rows = Frame(columns, list(x.T))  # with the names, by which subgroups are called
    found = check_symmetry(rows, y, on_x, on_y, key=jax.random.key(seed), target=kind, **options)
    return _named(found, group)


class Pictured(NamedTuple):
    """Something with a picture."""

    draw: Callable[[Any], Any]


def discover(data: Path, *, target: str | None, seed: int, **options: Any) -> SymmetrySearch:
    """The answer of `haarflow discover`: data from a file."""
    x, y, columns = read_pairs(data, target=target)
    return search_symmetry(Frame(columns, list(x.T)), y, key=jax.random.key(seed), **options)


def _named(found: SymmetryCheck, group: str) -> SymmetryCheck:
    """The answer with the group as it was said."""
    from dataclasses import replace

    lattice = None if found.lattice is None else replace(found.lattice, group=group)
    return replace(found, group=group, lattice=lattice)


def lines(answer: Answer) -> list[str]:
    """The table of an answer, as lines of text with columns of one width."""
    columns = answer.table()
    rows = [list(columns), *([short(cell) for cell in row] for row in zip(*columns.values(), strict=True))]
    rows = [["" if cell in ("nan", "None") else cell for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def picture_place(out: Path) -> Path:
    """Where a picture can be written, and the JSON beside it: said before the work, not after it."""
    place = place_of("A picture is written to", out, "Write --out picture.png.")
    if place.suffix.lower() != ".png":
        raise Refusal(f"A picture is written as .png, the answer as .json beside it; got {out}. Write picture.png.")
    return place


def picture(answers: Sequence[Answer | Pictured], place: Path) -> None:
    """The pictures of answers side by side, in a .png file."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(answers), figsize=(6.4 * len(answers), 3.6), layout="constrained", squeeze=False)
    for axis, answer in zip(axes[0], answers, strict=True):
        answer.draw(axis)
    figure.savefig(place, dpi=130, format="png")
    plt.close(figure)


def as_json(answer: Answer, **more: Any) -> str:
    """All that an answer knows, and what else there is to say, as one JSON value."""
    return json.dumps(json.loads(answer.to_json()) | more, ensure_ascii=False)
