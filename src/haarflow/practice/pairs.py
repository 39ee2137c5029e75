"""Inputs and outputs with a symmetry to ask about: converted, matched in size, or refused in one sentence."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from haarflow.algebra.reps import Rep, TrivialRep, trivial_rep
from haarflow.errors import Refusal
from haarflow.practice.words import rep_from_words
from haarflow.values import absent, numbers, said

FEW = 20
"""Whole numbers with at most so many different values are classes, unless it is said that they are numbers."""


class Pairs(NamedTuple):
    """Inputs (n, d) and their columns, outputs (n, c) as numbers or indicators of classes; how a group moves both."""

    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, "n c"]
    on_x: Rep
    on_y: Rep
    group: str
    classes: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def still(self) -> bool:
        """Whether the outputs stay."""
        return isinstance(self.on_y, TrivialRep)


def paired(owner: str, x: Any, y: Any, on_x: Rep | str, on_y: Rep | None, *, target: str, folds: int) -> Pairs:
    """The pairs, or the sentence about what is wrong with them."""
    names = [str(name) for name in getattr(x, "columns", ())]
    rows = numbers(f"{owner}'s x", x, numpy=True)
    rows = rows[:, None] if rows.ndim == 1 else rows.reshape(len(rows), -1) if rows.ndim > 2 else rows
    if rows.ndim != 2 or 0 in rows.shape:
        raise Refusal(f"{owner}'s x has one row for each pair; got the shape {rows.shape}. Write a table (n, d).")
    outputs, classes = targets(owner, y, len(rows), target)
    if len(rows) < 4 * folds:
        raise Refusal(
            f"{owner} deals {folds} folds of four rows at least; got {len(rows)} rows. Give more rows, or fewer folds."
        )
    words = on_x if isinstance(on_x, str) else str(on_x.group)
    moves = rep_from_words(on_x, columns=names or rows.shape[1]) if isinstance(on_x, str) else on_x
    if moves.dim != rows.shape[1]:
        raise Refusal(
            f"{owner}'s group moves as many columns as x has, {rows.shape[1]}; got {words} on {moves.dim}. Name the "
            "columns that move, or give a representation on all of them."
        )
    back = trivial_rep(moves.group, outputs.shape[1]) if on_y is None else on_y
    if back.group != moves.group or back.dim != outputs.shape[1]:
        raise Refusal(
            f"{owner}'s on_y is a representation of the group of on_x on {outputs.shape[1]} outputs; got {said(on_y)}. "
            "Write trivial_rep(on_x.group, outputs) where outputs stay."
        )
    columns = tuple(names or map(str, range(rows.shape[1])))
    return Pairs(rows, outputs, moves, back, words, classes, columns)


def targets(owner: str, y: Any, n: int, target: str) -> tuple[Float[np.ndarray, "n c"], tuple[str, ...]]:
    """Outputs as numbers (n, c), or as indicators of classes with their names."""
    try:
        given = np.asarray(getattr(y, "values", y))
    except ValueError:
        given = np.zeros(())
    if given.ndim == 0 or len(given) != n:
        raise Refusal(f"{owner}'s y has a row for each of the {n} rows of x; got {said(y)}. Give as many.")
    flat = given.reshape(n, -1)
    if target == "numbers" or (target == "auto" and not _are_classes(flat)):
        found = numbers(f"{owner}'s y", flat, numpy=True)
        if not np.any(np.ptp(found, axis=0) > 0):
            raise Refusal(f"{owner}'s y differs from row to row; got the same in all of them. Give labels that vary.")
        return found, ()
    if flat.shape[1] != 1:
        raise Refusal(f"{owner}'s classes are one column; got {flat.shape[1]}. Write target='numbers' for several.")
    missing = [i for i, label in enumerate(flat[:, 0]) if absent(label)]
    if missing:
        raise Refusal(f"{owner}'s y has a class in every row; got none in row {missing[0]}. Remove or fill that row.")
    labels = flat[:, 0].astype(int) if flat.dtype.kind == "f" and np.all(flat % 1 == 0) else flat[:, 0]
    names, places = np.unique(labels.astype(str), return_inverse=True)
    if len(names) < 2:
        raise Refusal(
            f"{owner}'s y has two classes at least; got {str(names[0])!r} in every row. Give labels that vary."
        )
    if len(names) > n // 2:
        raise Refusal(
            f"{owner}'s y has a few classes; got {len(names)} in {n} rows. Write target='numbers' where "
            "they are numbers."
        )
    return np.eye(len(names))[places], tuple(str(name) for name in names)


def _are_classes(flat: np.ndarray) -> bool:
    """Words and truth values, and whole numbers of few different values."""
    if flat.dtype.kind in "USb":
        return True
    if flat.dtype == object and flat.shape[1] == 1:
        known = [one for one in flat[:, 0] if not absent(one)]
        return bool(known) and all(isinstance(one, str) for one in known)
    if flat.shape[1] != 1 or flat.dtype.kind not in "iuf" or not np.isfinite(flat).all():
        return False
    return bool(np.all(flat % 1 == 0)) and len(np.unique(flat)) <= FEW
