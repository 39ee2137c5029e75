"""The projector on a fixed space as it acts on rows: by means over orbits where a group permutes, else by a matrix."""

import abc
from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from haarflow.algebra import fixed_space
from haarflow.algebra.acting import library
from haarflow.algebra.cache import remembered

LARGE = 128
"""Above so many coordinates a projector of signed permutations goes by orbits. Milliseconds by matrix and by orbits for
300 rows (5000 rows) in float64 under quarter turns and flips, on two busy cores: 18 coordinates 0.05 and 0.08 (0.2 and
0.3), 66: 0.09 and 0.06 (4.1 and 4.0), 146: 0.4 and 0.2 (16 and 2), 786: 28 and 0.4 (490 and 120)."""

Rows = Float[Array, "*b k"] | Float[np.ndarray, "*b k"]
Whole = Int[Array, "..."] | Int[np.ndarray, "..."]


class Projection(eqx.Module):
    """An orthogonal projector P of R^k: a PyTree that compiled programs carry."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The size k of the vectors."""

    @abc.abstractmethod
    def apply(self, z: Rows) -> Rows:
        """P z for rows (*b, k)."""

    @abc.abstractmethod
    def rest(self, z: Rows) -> Rows:
        """z − P z for rows (*b, k)."""

    @classmethod
    @abc.abstractmethod
    def examples(cls) -> Sequence["Projection"]:
        """Small members, on which the laws are tested."""


class ByMatrix(Projection):
    """P as a symmetric matrix (k, k)."""

    matrix: Float[Array, "k k"] | Float[np.ndarray, "k k"]

    @property
    def dim(self):
        return len(self.matrix)

    def apply(self, z):
        return z @ self.matrix.astype(z.dtype)

    def rest(self, z):
        return z @ (library(self.matrix).eye(self.dim) - self.matrix).astype(z.dtype)

    @classmethod
    def examples(cls):
        return [cls(np.full((3, 3), 1 / 3))]


class ByOrbits(Projection):
    """P z is on each orbit the mean of z there, up to signs; zero where a sign leaves nothing but zero fixed.

    The orbits lie in tables (m, s), one for each size s: nothing is padded, and every coordinate is read twice.
    """

    tables: tuple[Whole, ...]
    home: Whole
    signs: Whole | None = None

    @property
    def dim(self):
        return len(self.home)

    def apply(self, z):
        xp = library((self.home, z))
        read = xp.asarray(self._signed(z))
        means = [read[..., xp.asarray(table)].mean(axis=-1) for table in self.tables]
        return self._signed(xp.concatenate([*means, xp.zeros_like(z[..., :1])], axis=-1)[..., xp.asarray(self.home)])

    def rest(self, z):
        return z - self.apply(z)

    def _signed(self, z):
        return z if self.signs is None else z * self.signs.astype(z.dtype).reshape(*[1] * (z.ndim - 1), -1)

    @classmethod
    def examples(cls):
        labels, signs = np.array([0, 1, 0, -1, 2, 1, 0]), np.array([1.0, 1, -1, 1, -1, 1, 1])
        return [by_orbits(labels, signs), by_orbits(labels, np.ones(7))]


@remembered
def projection(rep) -> Projection:
    """The projector on the vectors that the group fixes, in the form that is measured faster."""
    found = fixed_space.signed_generators(rep) if rep.dim > LARGE else None
    return ByMatrix(rep.fixed_projector()) if found is None else by_orbits(*fixed_space.orbits(*found))


def by_orbits(labels: Int[np.ndarray, " k"], signs: Float[np.ndarray, " k"]) -> ByOrbits:
    """The projector of coordinates whose orbits have these labels, −1 where only zero is fixed, with these signs."""
    count = int(labels.max(initial=-1)) + 1
    sizes = np.bincount(labels[labels >= 0], minlength=count)
    order = np.argsort(labels, kind="stable")[np.sum(labels < 0) :]
    starts = np.cumsum(sizes) - sizes
    kinds = np.unique(sizes)
    tables = [order[starts[sizes == size][:, None] + np.arange(size)[None]].astype(np.int32) for size in kinds]
    place = np.full(count + 1, count)  # the last place holds zero, for label −1
    place[np.concatenate([np.flatnonzero(sizes == size) for size in kinds] or [[]]).astype(int)] = np.arange(count)
    home = place[labels].astype(np.int32)
    return ByOrbits(tuple(tables), home, np.sign(signs).astype(np.int8) if np.any(signs < 0) else None)
