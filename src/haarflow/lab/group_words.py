"""Groups by names, generators or words: how a group of the lab moves its inputs.

`Dihedral(4)`, `Cyclic(2) x Signs(1)`, `Permutations (0 1 2), (0 1)`, `Matrices [[0,-1],[1,0]]`, and what begins with a
small letter is said in words, as for `haarflow check`: "shifts of 4 columns", "flips of 2x2 images".

Nothing that a user writes is evaluated: the words are matched against a list, and the numbers are read as JSON.
"""

import json
import re
from typing import Any, NamedTuple

from haarflow.errors import Refusal, one_of

SIZED = ("Alternating", "Cyclic", "Dihedral", "Hyperoctahedral", "PlanarRotations", "Signs", "Symmetric", "Trivial")
LARGEST = 64  # letters of a number, points of a permutation, rows of a matrix: more is no lesson
_RULE = (
    "A group in the lab is written as Dihedral(4), Cyclic(2) x Signs(1), Permutations (0 1 2), (0 1) or "
    "Matrices [[0,-1],[1,0]]"
)


class Words(NamedTuple):
    """How a group moves inputs, and the Python that makes it: a group in R^d itself, or a representation of one."""

    thing: Any
    source: str
    said: bool = False

    @property
    def rep(self) -> Any:
        """The representation on inputs."""
        import haarflow as hf

        return self.thing if self.said else hf.natural_rep(self.thing)

    @property
    def group(self) -> Any:
        """The group."""
        return self.thing.group if self.said else self.thing

    @property
    def rep_source(self) -> str:
        """The Python that makes the representation."""
        return self.source if self.said else f"hf.natural_rep({self.source})"


def group_of(text: str) -> Words:
    """What some words name; the group is a finite one."""
    found = _phrase(text.strip()) if text.strip()[:1].islower() else _named(text)
    if not hasattr(found.group, "order"):
        raise Refusal(f"A group in the lab is finite; got {text[:60]!r}. Write PlanarRotations(16), or Icosahedral.")
    return found


def _phrase(text: str) -> Words:
    """A group said in words; a file is never read."""
    if text.lower().endswith(".toml"):
        raise Refusal("A group in the lab is written out; got the name of a file. Write its generators.")
    import haarflow as hf

    return Words(hf.rep_from_words(text), f"hf.rep_from_words({text!r})", said=True)


def _named(text: str) -> Words:
    parts = [_factor(part.strip()) for part in re.split(r"\s+x\s+", text.strip())]
    if len(parts) == 1:
        return parts[0]
    import haarflow as hf

    group = hf.direct_product(*(part.thing for part in parts))
    return Words(group, f"hf.direct_product({', '.join(part.source for part in parts)})")


def _factor(text: str) -> Words:
    kind, rest = re.match(r"(\w*)\s*(.*)", text, re.DOTALL).groups()  # pyright: ignore[reportOptionalMemberAccess]
    if kind == "Permutations":
        return _made("Permutations", _permutations(rest))
    if kind == "Matrices":
        return _made("Matrices", _matrices(rest))
    if kind == "Icosahedral" and rest in ("", "()"):
        return _made("Icosahedral")
    one_of("A group's name", kind, (*SIZED, "Icosahedral", "Matrices", "Permutations"))
    size = re.fullmatch(r"\((\d{1,3})\)", rest)
    if size is None or not 1 <= int(size[1]) <= LARGEST:
        raise Refusal(f"{_RULE}; got {text[:60]!r}. Write {kind}(3), for example.")
    return _made(kind, int(size[1]))


def _made(kind: str, *arguments: Any) -> Words:
    import haarflow as hf

    return Words(getattr(hf, kind)(*arguments), f"hf.{kind}({', '.join(map(repr, arguments))})")


def _permutations(text: str) -> list[tuple[int, ...]]:
    """Permutations by their cycles, separated by commas: `(0 1 2)(3 4), (0 1)`."""
    generators = [re.findall(r"\(([\d\s]*)\)", part) for part in text.split(",")]
    if not re.fullmatch(r"[\d\s(),]+", text) or not all(generators) or re.search(r"\d{4}", text):
        raise Refusal(f"{_RULE}; got {text[:60]!r}. Write Permutations (0 1 2), (0 1), for example.")
    cycles = [[[int(point) for point in cycle.split()] for cycle in one] for one in generators]
    points = 1 + max((point for one in cycles for cycle in one for point in cycle), default=0)
    if points > LARGEST or any(_repeats(one) for one in cycles):
        raise Refusal(f"A permutation has each of 0 … {LARGEST - 1} in one cycle at most; got {text[:60]!r}.")
    return [_permutation(one, points) for one in cycles]


def _repeats(cycles: list[list[int]]) -> bool:
    points = [point for cycle in cycles for point in cycle]
    return len(set(points)) < len(points)


def _permutation(cycles: list[list[int]], points: int) -> tuple[int, ...]:
    image = list(range(points))
    for cycle in cycles:
        for here, there in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            image[here] = there
    return tuple(image)


def _matrices(text: str) -> list[list[list[float]]]:
    """Matrices row by row, as JSON, separated by semicolons or commas."""
    try:
        found = json.loads(f"[{text.replace(';', ',')}]")
        ok = found and all(_square(matrix) for matrix in found)
    except (ValueError, RecursionError):
        ok, found = False, []
    if not ok:
        raise Refusal(f"{_RULE}; got {text[:60]!r}. Write Matrices [[0,-1],[1,0]], for example.")
    return [[[float(entry) for entry in row] for row in matrix] for matrix in found]


def _square(matrix: Any) -> bool:
    rows = isinstance(matrix, list) and 1 <= len(matrix) <= LARGEST
    return rows and all(
        isinstance(row, list)
        and len(row) == len(matrix)
        and all(isinstance(entry, int | float) and not isinstance(entry, bool) for entry in row)
        for row in matrix
    )
