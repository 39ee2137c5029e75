"""The grammar of groups in words: the motions, what they move, and a reader that goes from left to right."""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from haarflow.algebra import groups, lie_groups
from haarflow.algebra.base import Group
from haarflow.algebra.reps import Rep, natural_rep, trivial_rep
from haarflow.algebra.user_reps import image_rep
from haarflow.errors import Refusal
from haarflow.learning.columns import spread
from haarflow.values import said

OF_ORDER: dict[str, Callable[[int], Group]] = {
    "shifts": groups.Cyclic,
    "permute": groups.Symmetric,
    "even permutations": groups.Alternating,
    "signed permutations": groups.Hyperoctahedral,
    "signs": groups.Signs,
    "keep": groups.Trivial,
}
"""Motions of n coordinates, or of n blocks of coordinates that stay together."""

OF_VECTORS: dict[str, Callable[[int], Group]] = {
    "rotate": lie_groups.SpecialOrthogonal,
    "rotate or reflect": lie_groups.Orthogonal,
    "icosahedral": lambda n: groups.Icosahedral(),
}
"""Motions of a vector of n columns, or of several such vectors alike."""

TURNS = {"half turns": 2, "third turns": 3, "quarter turns": 4, "sixth turns": 6}

OF_IMAGES = {
    "flips": "flips",
    "mirror": "mirror",
    "quarter turns": "rotations",
    "dihedral": "dihedral",
    "shifts": "translations",
}

FORMS = (
    "flips of 8x8 images",
    "mirror of 8x8 images",
    "half turns of 8x8 images",
    "quarter turns of 28x28 images",
    "dihedral of 8x8x3 images",
    "shifts of 8x8 images",
    "shifts of 24 columns",
    "shifts of columns a, b, c",
    "permute columns a, b, c",
    "permute 5 columns",
    "permute 5 blocks of 3 columns",
    "even permutations of columns a, b, c",
    "signed permutations of columns a, b",
    "signs of columns x, y",
    "keep columns a, b",
    "rotate columns x, y, z",
    "rotate 5 blocks of 3 columns",
    "rotate or reflect columns x, y, z",
    "icosahedral of columns x, y, z",
    "quarter turns of columns x, y",
    "turns by 1/5 of columns x, y",
    "dihedral 5 of columns x, y",
)
"""One example of every form, shown to who writes another."""

MOTIONS = sorted({*OF_ORDER, *OF_VECTORS, *TURNS, *OF_IMAGES, "turns by", "dihedral"}, key=lambda m: -len(m))
OPENINGS = {motion.split()[0] for motion in MOTIONS}


class Vectors(NamedTuple):
    """Rows of columns as m vectors of n coordinates, moved alike, or as n coordinates of m columns each."""

    group: Group
    blocks: int
    width: int
    permuting: bool

    def rep(self) -> Rep:
        """The blocks as a product of a factor that moves and one that stays."""
        moving = self.factor()
        still = self.width if self.permuting else self.blocks
        if still == 1:
            return moving
        stays = trivial_rep(moving.group, still)
        return moving * stays if self.permuting else stays * moving

    def factor(self) -> Rep:
        return natural_rep(self.group)


@dataclass(frozen=True)
class Clause:
    """One motion: what it does, and to which columns; None where it takes the next ones that are free."""

    motion: Vectors | Rep
    columns: tuple[str, ...] | None
    text: str

    @property
    def rep(self) -> Rep:
        return self.motion.rep() if isinstance(self.motion, Vectors) else self.motion


class Reader:
    """The words of a phrase, read from left to right; a word that does not fit ends in the one refusal."""

    def __init__(self, text: str, names: list[str] | None):
        self.text, self.names = text, names
        self.words = re.findall(r"\"[^\"]*\"|'[^']*'|,|[^\s,]+", text)
        self.at = 0

    def here(self) -> str:
        return self.words[self.at].lower() if self.at < len(self.words) else ""

    def takes(self, *words: str) -> bool:
        """Whether the next words are these, which are then read."""
        found = [word.lower() for word in self.words[self.at : self.at + len(words)]]
        self.at += len(words) * (found == list(words))
        return found == list(words)

    def pattern(self, pattern: str) -> tuple[int, ...] | None:
        """The numbers in the next word, where it has this form; it is then read."""
        found = re.fullmatch(pattern, self.here())
        self.at += found is not None
        return tuple(int(number) for number in found.groups() if number) if found else None

    def refusal(self) -> Refusal:
        near = difflib.get_close_matches(self.text.lower(), FORMS, n=1, cutoff=0.0)[0]
        stop = f" at {self.words[self.at]!r}" if self.at < len(self.words) else ""
        return Refusal(
            f"A group in words is a motion and what it moves; got {said(self.text)}, which does not fit{stop}. "
            f'The nearest form is "{near}".'
        )


def read_clauses(text: str, names: list[str] | None) -> list[Clause]:
    reader = Reader(text, names)
    found = [_clause(reader)]
    while reader.takes("and"):
        found.append(_clause(reader))
    if reader.at < len(reader.words):
        raise reader.refusal()
    return found


def _clause(reader: Reader) -> Clause:
    first = reader.at
    motion = next((motion for motion in MOTIONS if reader.takes(*motion.split())), None)
    if motion is None:
        raise reader.refusal()
    parts = _parts(reader, motion)
    reader.takes("of")
    moved, columns = _moved(reader, motion, parts)
    return Clause(moved, columns, " ".join(reader.words[first : reader.at]))


def _parts(reader: Reader, motion: str) -> int | None:
    """Into how many parts a turn is divided, where the motion says it."""
    if motion == "turns by":
        found = reader.pattern(r"1/(\d+)")
    elif motion == "dihedral":
        found = reader.pattern(r"(\d+)")
    else:
        return TURNS.get(motion)
    if found is None and motion == "turns by":
        raise reader.refusal()
    return found[0] if found else None


def _moved(reader: Reader, motion: str, parts: int | None) -> tuple[Vectors | Rep, tuple[str, ...] | None]:
    size = reader.pattern(r"(\d+)[x×](\d+)(?:[x×](\d+))?")
    if size is not None:
        return _image(reader, motion, parts, size)
    count = reader.pattern(r"(\d+)")
    blocks = count is not None and (reader.takes("blocks", "of") or reader.takes("sets", "of"))
    width = reader.pattern(r"(\d+)") if blocks else None
    if not (reader.takes("columns") or reader.takes("column")) or (blocks and width is None):
        raise reader.refusal()
    columns = _columns(reader)
    if count is None and columns is None:
        raise reader.refusal()
    many = count[0] if count is not None else len(columns or ())
    shape = (many, width[0]) if width is not None else None
    vectors = _vectors(reader, motion, parts, many, shape)
    if columns is not None and len(columns) != vectors.rep().dim:
        raise Refusal(
            f"The words {said(' '.join(reader.words))} move {vectors.rep().dim} columns; got {len(columns)} names. "
            "Write a name for each."
        )
    return vectors, columns


def _image(reader: Reader, motion: str, parts: int | None, size: tuple[int, ...]):
    known = motion in OF_IMAGES and parts in (None, 4)
    if not (reader.takes("images") or reader.takes("image")) or not (known or motion == "half turns"):
        raise reader.refusal()
    if 0 in size:
        raise Refusal(f"An image has one pixel at least; got {said(reader.text)}. Write 8x8, for example.")
    name: Group | str = OF_IMAGES[motion] if known else groups.PlanarRotations(2)
    columns = _columns(reader) if reader.takes("at", "columns") or reader.takes("in", "columns") else None
    return image_rep(name, *size), columns


def _vectors(reader: Reader, motion: str, parts: int | None, many: int, shape: tuple[int, int] | None) -> Vectors:
    if many == 0 or (shape is not None and 0 in shape):
        raise Refusal(f"A group in words moves one column at least; got {said(reader.text)}. Write 1 or more.")
    if motion in OF_ORDER:
        count, width = shape or (many, 1)
        return Vectors(OF_ORDER[motion](count), count, width, True)
    count, width = shape or (1, many)
    if motion in OF_VECTORS:
        needs = 3 if motion == "icosahedral" else width
        group = OF_VECTORS[motion](width)
    else:
        needs, group = 2, _planar(reader, motion, parts)
    if needs != width:
        raise Refusal(
            f"The motion {motion!r} is of {needs} columns; got {width} in {said(reader.text)}. Write {needs} columns, "
            f"or several blocks of {needs} columns."
        )
    return Vectors(group, count, width, False)


def _planar(reader: Reader, motion: str, parts: int | None) -> Group:
    if parts is None or (motion != "dihedral" and motion not in TURNS and motion != "turns by"):
        raise reader.refusal()
    return groups.Dihedral(parts) if motion == "dihedral" else groups.PlanarRotations(parts)


def _columns(reader: Reader) -> tuple[str, ...] | None:
    """The names up to the end of the clause; an `and` before a motion begins the next one."""
    names: list[list[str]] = [[]]
    while reader.at < len(reader.words):
        word = reader.words[reader.at]
        if word.lower() == "and":
            following = reader.words[reader.at + 1 : reader.at + 2]
            if not following or following[0].lower() in OPENINGS:
                break
            names.append([])
        elif word == ",":
            names.append([])
        else:
            names[-1].append(word)
        reader.at += 1
    if names == [[]]:
        return None
    if [] in names:
        raise Refusal(f"A list of columns has a name between its commas; got {said(reader.text)}. Write a, b, c.")
    return spread([" ".join(words) for words in names], reader.names)
