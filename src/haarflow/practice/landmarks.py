"""Gaussian features of rows and their averages over a group: what the tests of a symmetry compute with.

The features of a row are its kernel values at landmarks, made orthonormal (Nyström's kernel). Landmarks are rows of
the data moved by fresh elements of the group, and the kernel is exp(−|x − y|² / m²) with their median distance m: both
depend on the orbits of the rows alone, which keeps the exact tests exact.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from haarflow.algebra.acting import Action, as_action
from haarflow.algebra.base import Finite, Group
from haarflow.algebra.lie_groups import Orthogonal, SpecialOrthogonal
from haarflow.algebra.reps import Rep

WHOLE = 128
"""The largest group that is averaged over element by element; of a larger one, rows have draws of their own."""

DRAWS = 64
BLOCK = 4096
"""Rows that are moved and measured at once: tables of a few dozen megabytes."""

MOST = 512
"""The most landmarks: with fewer rows than this the kernel is exact on the rows up to rounding."""

WORK = 6e8
"""The most kernel values that one pass computes, about ten seconds of one core; beyond it there are fewer landmarks."""

Rows = Float[np.ndarray, "_ _"]


class Elements(NamedTuple):
    """Elements of a group as they move inputs and outputs; `exact` where they are all of it.

    Of a large group every row gets draws of its own: averages are then those of the orbit, with noise. The same few
    elements for all rows would make averages that remember where in its orbit a row is.
    """

    on_x: Action | Rep
    on_y: Action | Rep
    size: int
    exact: bool
    draw: np.random.Generator | None = None

    def each(self, rows: Rows) -> Iterator[tuple[Rows, np.ndarray]]:
        """The rows moved by one element, or each by one of its own, and its matrix on outputs, (c, c) or (n, c, c)."""
        for i in range(self.size):
            if isinstance(self.on_x, Rep) and isinstance(self.on_y, Rep):
                assert self.draw is not None
                moves = drawn(self.on_x.group, len(rows), self.draw)
                yield (
                    np.asarray(self.on_x.acting(moves).one_by_one(rows)),
                    np.asarray(self.on_y.acting(moves).matrices()),
                )
            elif isinstance(self.on_x, Action) and isinstance(self.on_y, Action):
                here = np.array([i])
                yield (
                    np.asarray(self.on_x.chosen(here).everywhere(rows)[0]),
                    np.asarray(self.on_y.chosen(here).matrices())[0],
                )


def elements(on_x: Rep, on_y: Rep, draw: np.random.Generator, n: int) -> Elements:
    """All elements of a small group, equispaced turns of the plane, or Haar draws for each of n rows."""
    group = on_x.group
    if isinstance(group, Finite) and group.order <= WHOLE:
        return Elements(on_x.action(), on_y.action(), group.order, True)
    if isinstance(group, Orthogonal | SpecialOrthogonal) and group.dim == 2:
        moves = as_action(group.grid(DRAWS // 2))
        return Elements(on_x.acting(moves).merged(), on_y.acting(moves).merged(), len(moves), False)
    return Elements(on_x, on_y, DRAWS if n <= 20_000 else DRAWS // 4, False, draw)


def drawn(group: Group, n: int, draw: np.random.Generator) -> Action:
    """n Haar elements as an Action on R^d, in NumPy."""
    if isinstance(group, Finite) and group.order <= WHOLE:
        return group.moves().chosen(draw.integers(group.order, size=n))
    key = jax.random.key(int(draw.integers(2**31)))
    return jax.tree.map(np.asarray, group.draw(key, n))


def moved_each(rep: Rep, rows: Rows, draw: np.random.Generator) -> Rows:
    """Every row moved by an element of its own."""
    return np.asarray(rep.acting(drawn(rep.group, len(rows), draw)).one_by_one(rows), np.float64)


@dataclass(frozen=True)
class Joined:
    """The rows of two tables side by side, joined where some are asked for: no third table is held."""

    left: Rows
    right: Rows

    def __len__(self) -> int:
        return len(self.left)

    def __getitem__(self, some: Any) -> Rows:
        return np.concatenate([self.left[some], self.right[some]], axis=1)


class Landmarks(NamedTuple):
    """Points, the width of the kernel, and the root that makes the values at the points orthonormal features."""

    points: Rows
    width: float
    root: Float[np.ndarray, "_ _"]

    def values(self, rows: Rows) -> Float[np.ndarray, "_ _"]:
        """Kernel values at the landmarks; `@ root` makes features of them."""
        return gaussian(rows, self.points, self.width)


def landmarks(
    rows: Rows | Joined, rep: Rep, draw: np.random.Generator, *, count: int, width: float | None = None
) -> Landmarks:
    """Rows of the data, each moved by an element of its own, and the width of the kernel, unless given."""
    chosen = draw.permutation(len(rows))[:count]
    points = moved_each(rep, rows[chosen], draw)
    width = median_distance(points) / math.sqrt(2) if width is None else width
    scales, vectors = np.linalg.eigh(gaussian(points, points, width))
    kept = scales > 1e-8 * scales[-1]
    return Landmarks(points, width, vectors[:, kept] / np.sqrt(scales[kept]))


def how_many(n: int, moved: int, outputs: int = 1) -> int:
    """How many landmarks n rows in so many positions can pay for, with so many weights for each."""
    return int(min(n, MOST / outputs, max(64 / outputs, WORK / (n * moved * outputs))))


def gaussian(a: Rows, b: Rows, width: float) -> Float[np.ndarray, "_ _"]:
    """exp(−|a − b|² / 2 width²) for all pairs."""
    a, b = a / width, b / width
    squares = a @ b.T
    squares *= 2
    squares -= np.sum(a**2, axis=1)[:, None]
    squares -= np.sum(b**2, axis=1)[None, :]
    np.minimum(squares, 0, out=squares)
    squares /= 2
    return np.exp(squares, out=squares)


def median_distance(points: Rows) -> float:
    """The median distance of different points; 1 where all are the same."""
    from scipy.spatial.distance import pdist

    distances = pdist(points[:500])
    positive = distances[distances > 0]
    return float(np.median(positive)) if len(positive) else 1.0


def scaled(rows: Rows, rep: Rep) -> Rows:
    """Rows whose columns are comparable, without breaking the symmetry.

    Columns that the group mixes share one scale, and the origin is the mean of the orbits: lengths and angles that the
    group keeps are kept. Columns of one unit, whose ranges differ by less than a factor of ten, share one scale, too.
    """
    found = rows - np.asarray(rep.project(rows.mean(axis=0)))
    size = max(float(found.max()), -float(found.min()))
    np.ldexp(found, -int(np.frexp(size)[1]), out=found)  # exact; of numbers near 1e200 the squares are none
    parts = mixed(rep)
    members = (parts == np.arange(int(parts.max()) + 1)[:, None]).astype(float)
    members /= members.sum(axis=1)[:, None]
    largest, total = np.zeros(len(members)), np.zeros(len(members))
    for block in blocks(len(found)):  # of a table of many columns no second one is made
        squares = found[block] ** 2 @ members.T
        largest, total = np.maximum(largest, squares.max(axis=0)), total + squares.sum(axis=0)
    ranges, spread = np.sqrt(largest), np.sqrt(total / len(found))
    moving = ranges[ranges > 0]
    if not len(moving):
        return found
    one_unit = np.quantile(moving, 0.1) * 10 >= np.quantile(moving, 0.9)
    alike = np.full(len(members), np.sqrt(np.mean(spread[parts] ** 2)))
    found /= (alike if one_unit else np.where(spread > 0, spread, 1.0))[parts]
    return found


def mixed(rep: Rep) -> Int[np.ndarray, " d"]:
    """The columns that the group mixes with each other, by the number of their part."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    moves = rep.acting(as_action(rep.group.probes()))
    if moves.permutes:
        index = np.asarray(moves.gathers().index)
        pairs = np.tile(np.arange(rep.dim), len(index)), index.ravel()
    else:
        pairs = np.nonzero(np.abs(np.asarray(moves.matrices())).max(axis=0) > 1e-9)
    graph = coo_matrix((np.ones(len(pairs[0])), pairs), shape=(rep.dim, rep.dim))
    return connected_components(graph, directed=False)[1]


def blocks(n: int, times: int = 1):
    """The rows, a block after the other; smaller blocks where a row's table is so many times as large."""
    size = max(1, BLOCK // times)
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))
