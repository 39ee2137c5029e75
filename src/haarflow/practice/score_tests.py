"""Is the regression function equivariant, and what would building it in cost? From features and their averages.

`Table` holds what both answers need: for every row its features, and the same averaged over the group. A fit is a
ridge regression on one of them, from sums of products over folds, so that fits that leave out a fold cost nothing
more. Residuals and losses are those of rows that the fit has not seen.
"""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from haarflow.algebra.reps import Rep, TrivialRep
from haarflow.practice.landmarks import Elements, Landmarks, Rows, blocks

RIDGES = 10.0 ** np.arange(-8, 3.0)
"""Ridge parameters, as shares of the mean eigenvalue, among which cross-validation chooses."""

ROUNDING = 1e-20
"""Of the sum of squares of features: their root may be ten thousand times larger than they are."""

Tell = Callable[[float], None]
Design = Float[np.ndarray, "_ _ _"]


class Table(NamedTuple):
    """Features of rows, free and averaged; designs (n, c, k) where outputs move, (n, 1, k) where they stay."""

    free: Float[np.ndarray, "_ _"]
    averaged: Design
    still: bool

    def targets(self, y: Rows) -> Design:
        """Outputs as the averaged design has them: all columns at once, or one after the other."""
        return y[:, None, :] if self.still else y[:, :, None]


def tabulate(rows: Rows, moves: Elements, on_y: Rep, marks: Landmarks, tell: Tell) -> Table:
    """The features of all rows, and their averages over the elements."""
    still = isinstance(on_y, TrivialRep)
    n, k, c = len(rows), marks.root.shape[1], on_y.dim
    free = np.empty((n, k))
    averaged = np.empty((n, 1, k)) if still else np.empty((n, c, c * k))
    for block in blocks(n):
        here = rows[block]
        free[block] = marks.values(here) @ marks.root
        averaged[block] = _averaged(here, moves, marks, still, c)
        tell(block.stop / n)
    return Table(free, averaged, still)


def _averaged(rows: Rows, moves: Elements, marks: Landmarks, still: bool, c: int) -> Design:
    """The mean of φ(g x), or of ρ̂(g)⁻¹ ⊗ φ(g x) where outputs move: linear in the weights of an equivariant fit."""
    total = 0.0
    for moved, back in moves.each(rows):
        values = marks.values(np.asarray(moved, np.float64))
        total = total + (values[:, None] if still else _beside(back.swapaxes(-1, -2), values))
    mean = np.asarray(total) / moves.size
    if still:
        return mean @ marks.root
    return (mean.reshape(len(rows), c, c, -1) @ marks.root).reshape(len(rows), c, -1)


def _beside(matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
    return (matrix[..., None] * values[:, None, None]).reshape(len(values), matrix.shape[-1], -1)


class Moments(NamedTuple):
    """Sums of products over some rows: all that a ridge regression needs."""

    gram: Float[np.ndarray, "_ _"]
    cross: Float[np.ndarray, "_ _"]
    square: float
    rows: int

    def plus(self, other: "Moments", sign: int = 1) -> "Moments":
        """The sums over both, or over the rows that the other does not have."""
        return Moments(
            self.gram + sign * other.gram,
            self.cross + sign * other.cross,
            self.square + sign * other.square,
            self.rows + sign * other.rows,
        )


def moments(design: Design, targets: Design) -> Moments:
    """The sums over all given rows."""
    flat, wanted = design.reshape(-1, design.shape[2]), targets.reshape(-1, targets.shape[2])
    return Moments(flat.T @ flat, flat.T @ wanted, float(np.sum(wanted**2)), len(flat))


class Ridge(NamedTuple):
    """Ridge regression on some rows, for all ridge parameters at once."""

    scales: Float[np.ndarray, " k"]
    vectors: Float[np.ndarray, "_ _"]
    along: Float[np.ndarray, "_ _"]

    def weights(self, share: float) -> Float[np.ndarray, "_ _"]:
        """The weights at a ridge parameter, given as a share of the mean eigenvalue."""
        shrunk = self.scales + share * max(self.scales.mean(), 1e-300)
        return self.vectors @ (self.along / shrunk[:, None])


def ridge(found: Moments) -> Ridge:
    """The regression on rows with these sums of products."""
    scales, vectors = np.linalg.eigh(found.gram)
    return Ridge(np.maximum(scales, 0), vectors, vectors.T @ found.cross)


def cross_fitted(
    design: Design,
    y: Design,
    folds: Int[np.ndarray, " n"],
    *,
    ridges: Float[np.ndarray, " r"] = RIDGES,
    seen: bool = False,
) -> Design:
    """What fits that left out a row's fold predict for the row, in the shape of the targets.

    The ridge parameter of a fold is the one of `ridges` that does best on the other folds, each left out in its turn.
    With `seen`, the fault: the fits saw all rows.
    """
    parts = [moments(design[folds == fold], y[folds == fold]) for fold in range(int(folds.max()) + 1)]
    total = reduce(Moments.plus, parts)
    fits = [ridge(total if seen else total.plus(part, -1)) for part in parts]
    losses = np.array(
        [[_loss(part, fit.weights(share)) for share in ridges] for part, fit in zip(parts, fits, strict=True)]
    )
    found = np.empty_like(y)
    for fold, fit in enumerate(fits):
        others = np.delete(losses, fold, axis=0).sum(axis=0)
        found[folds == fold] = design[folds == fold] @ fit.weights(ridges[int(np.argmin(others))])
    return found


def _loss(part: Moments, weights: Float[np.ndarray, "_ _"]) -> float:
    """The sum of squared errors on rows with these sums of products."""
    return part.square - 2 * float(np.sum(weights * part.cross)) + float(np.sum(weights * (part.gram @ weights)))


def deal(n: int, folds: int, draw: np.random.Generator) -> Int[np.ndarray, " n"]:
    """The fold of every row, at random and of even sizes."""
    return draw.permutation(np.arange(n) % folds)


def score_test(table: Table, residuals: Rows, draw: np.random.Generator, *, signs: int, tell: Tell) -> float:
    """The p-value of equivariance: are the residuals of the equivariant fit explained by the rest of the features?

    The statistic is Σ_{i≠j} <r_i, k⊥(x_i, x_j) r_j> with k⊥ the part of the kernel that no equivariant function sees;
    random signs of the residuals say how large it is by chance. Where nothing is left of k⊥ but rounding, as of a group
    that moves nothing, it is 1.
    """
    n, c = residuals.shape
    k = table.free.shape[1]
    sums, squares, whole = np.zeros((signs + 1, c * k)), 0.0, 0.0
    for block in blocks(n, c):
        r, here = residuals[block], table.free[block]
        free = (r[:, :, None] * here[:, None, :]).reshape(len(r), -1)
        if table.still:
            seen = (r[:, :, None] * table.averaged[block]).reshape(len(r), -1)
        else:
            seen = np.einsum("na,nak->nk", r, table.averaged[block])
        rest = free - seen
        sums += _coins(signs, len(r), draw) @ rest
        squares += float(np.sum(rest**2))
        whole += float(np.sum(free**2))
        tell(block.stop / n)
    if squares <= ROUNDING * whole:
        return 1.0
    statistics = np.sum(sums**2, axis=1) - squares
    return float(np.mean(statistics >= statistics[0] - 1e-12 * abs(statistics[0])))


def _coins(signs: int, n: int, draw: np.random.Generator) -> Float[np.ndarray, "_ _"]:
    return np.concatenate([np.ones((1, n)), draw.choice((-1.0, 1.0), size=(signs, n))])


class Cost(NamedTuple):
    """What the equivariant fit loses against the free one, as a share of the variance, with its standard error."""

    estimate: float
    error: float


def cost(averaged: Rows, free: Rows, y: Rows, folds: Int[np.ndarray, " n"], draw: np.random.Generator) -> Cost:
    """The loss of the equivariant fit on one half of each fold, minus that of the free fit on the other half."""
    half = np.zeros(len(y), bool)
    for fold in range(int(folds.max()) + 1):
        mine = draw.permutation(np.flatnonzero(folds == fold))
        half[mine[: len(mine) // 2]] = True
    scale = float(np.mean(np.sum((y - y.mean(axis=0)) ** 2, axis=1)))
    built = np.sum((averaged - y)[half] ** 2, axis=1) / scale
    loose = np.sum((free - y)[~half] ** 2, axis=1) / scale
    error = np.sqrt(built.var(ddof=1) / len(built) + loose.var(ddof=1) / len(loose))
    return Cost(float(built.mean() - loose.mean()), float(error))
