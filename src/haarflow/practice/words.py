"""Say your group in words: "flips of 8x8 images", "permute columns a, b, c", "rotate columns x, y, z".

A phrase is a motion and what it moves; several are joined by `and`. The grammar is small and strict, and a phrase that
does not fit is answered by the nearest one that does. A group of another kind is said by a TOML file of generators.
"""

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from haarflow.algebra.placing import placed
from haarflow.algebra.products import direct_product, lift
from haarflow.algebra.reps import Rep
from haarflow.doors import Count, door
from haarflow.errors import Refusal
from haarflow.learning.columns import place_of
from haarflow.practice.group_files import read_group
from haarflow.practice.phrases import Clause, Vectors, read_clauses
from haarflow.values import said


@door
def rep_from_words(text: str, *, columns: Sequence[str] | Count | None = None) -> Rep:
    """A representation said in words, or by a TOML file with generators; it moves the named columns, others stay.

    The words are those of `haarflow check --group`: "flips of 8x8 images", "quarter turns of 28x28 images", "dihedral
    of 8x8x3 images", "shifts of 24 columns", "permute columns a, b, c", "permute 5 blocks of 3 columns", "signs of
    columns x, y", "rotate columns x, y, z", and several of them joined by `and`. `columns` are the names of the data's
    columns, or how many there are; columns are said by name or by number, from 0, or as a range, `0 to 7`.

        rep_from_words("permute columns a, c", columns=["a", "b", "c"]).dim        # 3: b stays where it is
    """
    names = None if columns is None else _names(columns)
    if text.strip().lower().endswith(".toml"):
        rep, told = read_group(Path(text.strip()))
        return _joined([Clause(rep, told, text)], names)
    return _joined(read_clauses(text, names), names)


def _names(columns: Sequence[str] | int) -> list[str]:
    return [str(i) for i in range(columns)] if isinstance(columns, int) else [str(name) for name in columns]


def _joined(clauses: list[Clause], names: list[str] | None) -> Rep:
    """All clauses as one representation of the product of their groups, on all columns."""
    everything = names if names is not None else _mentioned(clauses)
    merged, told = _crossed(clauses)
    where = [None if one is None else [place_of(name, everything) for name in one] for one in told]
    taken = {place for one in where if one is not None for place in one}
    free = [place for place in range(len(everything)) if place not in taken]
    filled, counted = [], sum(rep.dim for rep, one in zip(merged, where, strict=True) if one is None)
    if None in where and counted != len(free) and (counted > len(free) or len(taken) == 0):
        raise Refusal(
            f"The words {said(' and '.join(clause.text for clause in clauses))} move {counted} columns; got data with "
            f"{len(free)}{' others' if taken else ''}. Name the columns that move, or give data of that size."
        )
    for one, rep in zip(where, merged, strict=True):
        here, free = (free[: rep.dim], free[rep.dim :]) if one is None else (one, free)
        filled += here
    _refuse_repeats(filled, everything)
    return placed(_side_by_side(merged), filled, len(everything))


def _mentioned(clauses: list[Clause]) -> list[str]:
    """The columns there are where nobody says so: numbers up to the largest, or names as they come."""
    reps, told = _crossed(clauses)
    names = list(dict.fromkeys(name for one in told if one is not None for name in one))
    counted = sum(rep.dim for rep, one in zip(reps, told, strict=True) if one is None)
    if all(name.isdigit() for name in names):
        return [str(i) for i in range(max(max(map(int, names), default=-1) + 1, len(names) + counted))]
    return names + [str(i) for i in range(len(names), len(names) + counted)]


def _across(a: Clause, b: Clause) -> bool:
    """Whether one permutes the blocks and the other moves each of the same blocks."""
    if not isinstance(a.motion, Vectors) or not isinstance(b.motion, Vectors) or a.columns != b.columns:
        return False
    same = (a.motion.blocks, a.motion.width) == (b.motion.blocks, b.motion.width)
    return same and a.motion.permuting != b.motion.permuting


def _crossed(clauses: list[Clause]) -> tuple[list[Rep], list[tuple[str, ...] | None]]:
    """What moves and where; neighbours that permute blocks and move each block are one product on the same columns."""
    found, i = [], 0
    while i < len(clauses):
        pair = i + 1 < len(clauses) and _across(clauses[i], clauses[i + 1])
        found.append((_product(clauses[i], clauses[i + 1]) if pair else clauses[i].rep, clauses[i].columns))
        i += 1 + pair
    return [rep for rep, _ in found], [columns for _, columns in found]


def _product(a: Clause, b: Clause) -> Rep:
    assert isinstance(a.motion, Vectors)
    assert isinstance(b.motion, Vectors)
    both = direct_product(a.motion.group, b.motion.group)
    left, right = lift(a.motion.factor(), both, 0), lift(b.motion.factor(), both, 1)
    return left * right if a.motion.permuting else right * left


def _side_by_side(reps: list[Rep]) -> Rep:
    def two(a: Rep, b: Rep) -> Rep:
        both = direct_product(a.group, b.group)
        return lift(a, both, 0) + lift(b, both, 1)

    return reduce(two, reps)


def _refuse_repeats(places: list[int], names: list[str]) -> None:
    twice = [names[place] for place in dict.fromkeys(places) if places.count(place) > 1]
    if twice:
        raise Refusal(
            f"A group in words moves each column once; got {twice[0]!r} twice. Write each column in one place, or a "
            "TOML file with the generators of a larger group."
        )
