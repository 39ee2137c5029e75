"""Couplings that are cheap to find: each one bounds the transport distance from above.

A coupling of the samples x (weights a) and y (weights b) is three arrays: sources i, targets j, and the mass
that i sends to j. Any coupling is honest; a good one is close to the distance itself.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from haarflow.measures.samples import ROUNDING, Pair, even
from haarflow.measures.transport import plan, squared_gaps, staircase

NEAREST_DIMENSION = 8
NEAREST_PAIRS = 25_000_000


class Coupling(NamedTuple):
    """Who sends how much to whom."""

    i: Int[np.ndarray, " k"]
    j: Int[np.ndarray, " k"]
    mass: Float[np.ndarray, " k"]

    def costs(self, x, y) -> Float[np.ndarray, " k"]:
        """|x_i − y_j|² of each pair."""
        return np.sum((x[self.i] - y[self.j]) ** 2, axis=1)

    def length(self, given: Pair) -> float:
        """The root of the mean square distance travelled: at least W2, also where rounding left a margin short."""
        square = float(self.mass @ self.costs(given.x, given.y))
        return float(np.sqrt(square if given.even else square + self.short(given) * given.reach))

    def short(self, given: Pair) -> float:
        """The mass by which the margins differ from the weights, beyond the rounding of each weight."""
        sides = (self.i, given.a), (self.j, given.b)
        gaps = (np.abs(np.bincount(i, self.mass, len(w)) - w) - 64 * ROUNDING * w for i, w in sides)
        return float(sum(np.maximum(gap, 0.0).sum() for gap in gaps))


def sorted_along(u: Float[np.ndarray, " p"], x, a, y, b) -> Coupling:
    """The coupling that is optimal after projecting both samples on the direction u."""
    rank_x, rank_y = np.argsort(x @ u, kind="stable"), np.argsort(y @ u, kind="stable")
    i, j, mass = staircase(a[rank_x], b[rank_y])
    return Coupling(rank_x[i], rank_y[j], mass)


def close_pairs(given: Pair) -> Coupling:
    """The shorter of two couplings that find who belongs to whom in clouds that lie close together."""
    x, a, y, b, _ = given
    found = [greedy(np.eye(x.shape[1])[0], x, a, y, b)]
    if len(a) == len(b) and np.array_equal(a, b):
        found.append(Coupling(np.arange(len(a)), np.arange(len(b)), a))
    return min(found, key=lambda coupling: coupling.length(given))


def searchable(given: Pair) -> bool:
    """Whether nearest neighbours are quickly found: few dimensions, or few pairs."""
    return given.x.shape[1] <= NEAREST_DIMENSION or len(given.a) * len(given.b) <= NEAREST_PAIRS


def nearest(x, y) -> tuple[Float[np.ndarray, " m"], Int[np.ndarray, " m"]]:
    """For each y the distance to the nearest x, and its index."""
    from scipy.spatial import KDTree

    gaps, index = KDTree(x).query(y)
    return np.asarray(gaps, float), np.asarray(index)


def greedy(u, x, a, y, b, *, rounds: int = 3) -> Coupling:
    """Each target served by its nearest source that still has mass, closest first; the rest sorted."""
    parcel = 1 / len(y) if even(a) and even(b) and len(y) % len(x) == 0 else None
    left_a, left_b = (a.copy(), b.copy()) if parcel is None else (np.round(a / parcel), np.ones(len(y)))
    parts = []
    for _ in range(rounds):
        sources, targets = np.flatnonzero(left_a), np.flatnonzero(left_b)
        if len(sources) == 0 or len(targets) == 0:
            break
        gaps, near = nearest(x[sources], y[targets])
        part = _serve(sources[near], targets, gaps, left_a, left_b)
        left_a, left_b = _minus(left_a, part.i, part.mass), _minus(left_b, part.j, part.mass)
        parts.append(part)
    if left_a.any() and left_b.any():
        parts.append(_rest(u, x, left_a, y, left_b, whole=parcel is not None))
    i, j, mass = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Coupling(i, j, mass if parcel is None else mass * parcel)


def refined(frame: Float[np.ndarray, "p p"], x, y, start: Coupling, *, block: int = 64) -> Coupling:
    """Neighbouring pairs, block by block, coupled optimally among themselves: never worse than the start.

    Blocks are the leaves of a tree over the pairs' midpoints, cut along the axes of `frame`.
    """
    from scipy.spatial import KDTree

    middle = (x[start.i] + y[start.j]) @ frame
    order = KDTree(middle, leafsize=block).indices
    equal = even(start.mass)
    costs = start.costs(x, y)
    parts = []
    for at in range(0, len(order), block):
        part = Coupling(*(column[order[at : at + block]] for column in start))
        idle = not costs[order[at : at + block]].any()
        parts.append(part if idle else _permuted(x, y, part) if equal else _replanned(x, y, part))
    return Coupling(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _permuted(x, y, part: Coupling) -> Coupling:
    from scipy.optimize import linear_sum_assignment

    return part._replace(j=part.j[linear_sum_assignment(squared_gaps(x[part.i], y[part.j]))[1]])


def _replanned(x, y, part: Coupling) -> Coupling:
    i, at_i = np.unique(part.i, return_inverse=True)
    j, at_j = np.unique(part.j, return_inverse=True)
    best = plan(np.bincount(at_i, part.mass), np.bincount(at_j, part.mass), squared_gaps(x[i], y[j]))
    rows, columns = np.nonzero(best)
    return Coupling(i[rows], j[columns], best[rows, columns])


def _serve(i, j, gaps, left_a, left_b) -> Coupling:
    order = np.lexsort((gaps, i))
    i, j = i[order], j[order]
    demand = left_b[j]
    before = np.cumsum(demand) - demand
    first = np.flatnonzero(np.diff(i, prepend=-1))
    before -= np.repeat(before[first], np.diff(first, append=len(i)))
    mass = np.clip(left_a[i] - before, 0.0, demand)
    return Coupling(i[mass > 0], j[mass > 0], mass[mass > 0])


def _minus(left, index, mass):
    rest = left - np.bincount(index, mass, minlength=len(left))
    return np.where(rest > 8 * ROUNDING * left, rest, 0.0)


def _rest(u, x, left_a, y, left_b, *, whole: bool) -> Coupling:
    sources, targets = np.flatnonzero(left_a), np.flatnonzero(left_b)
    sources, targets = sources[np.argsort(x[sources] @ u)], targets[np.argsort(y[targets] @ u)]
    if whole:
        return Coupling(np.repeat(sources, left_a[sources].astype(int)), targets, left_b[targets])
    total = left_a.sum()
    i, j, mass = staircase(left_a[sources] / total, left_b[targets] / left_b.sum())
    return Coupling(sources[i], targets[j], mass * total)
