"""A small library of groups that tables and images often have, said in words, and those that tied weights show."""

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np

from haarflow.algebra.generated import Matrices
from haarflow.algebra.reps import Rep, natural_rep, trivial_rep
from haarflow.algebra.tables import blocks
from haarflow.algebra.user_reps import represent
from haarflow.practice.parameter_sharing import SignedPermutation
from haarflow.practice.words import rep_from_words

PAIRS = 12
"""The most columns of which every pair is tried."""

PLANES = 4
"""The most columns of which every plane is turned."""


class Candidate(NamedTuple):
    """A symmetry to ask about: its name, and how it moves inputs and outputs."""

    name: str
    on_x: Rep
    on_y: Rep


def library(d: int, c: int, columns: list[str]) -> list[Candidate]:
    """Swaps, signs, shifts and turns of d columns, and of images where d is a square; outputs stay, or move alike."""
    found = [_said(words, columns, c) for words in _words(d)]
    if c == d:
        alike = [words for words in _words(d) if "images" not in words]
        found += [_alike(words, columns) for words in alike]
    return found


def _words(d: int) -> list[str]:
    numbers = ", ".join(map(str, range(d)))
    said = [f"permute columns {i}, {j}" for i, j in combinations(range(d), 2)] if d <= PAIRS else []
    said += [f"signs of column {i}" for i in range(d)] if d <= PAIRS else []
    planes = combinations(range(d), 2) if 2 <= d <= PLANES else []
    for i, j in planes:
        said += [f"{turn} of columns {i}, {j}" for turn in ("third turns", "quarter turns")] + [
            f"rotate columns {i}, {j}"
        ]
    if 2 < d <= 64:
        said += [f"permute columns {numbers}", f"shifts of columns {numbers}"]
    if d == 3:
        said += ["rotate 3 columns"]
    side = math.isqrt(d)
    if side * side == d and side > 2:
        kinds = ("mirror", "flips", "half turns", "quarter turns", "dihedral", "shifts")
        said += [f"{kind} of {side}x{side} images" for kind in kinds]
    return said


def _said(words: str, columns: list[str], c: int) -> Candidate:
    on_x = rep_from_words(words, columns=len(columns))
    return Candidate(_with_names(words, columns), on_x, trivial_rep(on_x.group, c))


def _alike(words: str, columns: list[str]) -> Candidate:
    on_x = rep_from_words(words, columns=len(columns))
    return Candidate(f"{_with_names(words, columns)}, outputs alike", on_x, on_x)


def _with_names(words: str, columns: list[str]) -> str:
    """The words with the names of the columns in place of their numbers."""
    head, mark, numbers = words.partition("column")
    if not mark or not any(part.strip(" s,").isdigit() for part in numbers.split(",")):
        return words
    plural, _, listed = numbers.partition(" ")
    chosen = [columns[int(number)] for number in listed.split(",")]
    return f"{head}column{plural} {', '.join(chosen) if len(chosen) <= PAIRS else f'{chosen[0]} to {chosen[-1]}'}"


def tied(found: list[SignedPermutation], d: int, c: int) -> Candidate | None:
    """The group of the signed permutations that keep a pattern of tied weights; None where it is the identity."""
    pairs = [(inputs, outputs) for outputs, inputs in (one.matrices() for one in found[1:])]
    if not pairs:
        return None
    if all(np.array_equal(outputs, np.eye(c)) for _, outputs in pairs):
        on_x = natural_rep(Matrices([inputs for inputs, _ in pairs]))
        return Candidate("the pattern of tied weights", on_x, trivial_rep(on_x.group, c))
    group = Matrices([blocks(inputs, outputs) for inputs, outputs in pairs])
    on_x = represent(group, lambda g: g[:d, :d], dim=d)
    return Candidate("the pattern of tied weights", on_x, represent(group, lambda g: g[d:, d:], dim=c))
