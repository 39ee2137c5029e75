"""Finite sets of points and matrices: frozen so that they can be hashed, matched, closed under products."""

import dataclasses
from collections.abc import Iterable

import equinox as eqx
import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from haarflow.algebra.checks import TOLERANCE, largest


class Constant(eqx.Module):
    """A module without array leaves: hashable, comparable, a constant of every compiled program."""

    def __eq__(self, other):
        return type(self) is type(other) and _values(self) == _values(other)

    def __hash__(self):
        return hash((type(self), _values(self)))

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(map(repr, _values(self)))})"


class Frozen:
    """A read-only array that is hashed and compared by its content."""

    def __init__(self, array):
        self.array = readonly(np.array(array))
        self._hash = hash((self.array.shape, self.array.dtype.str, self.array.tobytes()))

    def __eq__(self, other):
        if not isinstance(other, Frozen):
            return NotImplemented
        return self._hash == other._hash and np.array_equal(self.array, other.array)

    def __hash__(self):
        return self._hash

    def __identity__(self):
        return self.array

    def __repr__(self):
        if self.array.size > 32:
            return f"<{' x '.join(map(str, self.array.shape))} numbers>"
        return np.array2string(self.array, separator=", ", precision=4, suppress_small=True).replace("\n", "")


def static(**options):
    """A field that is a constant of every compiled program."""
    return eqx.field(static=True, **options)


def readonly(array: np.ndarray) -> np.ndarray:
    """The array itself, closed for writing, so that a cache can hand it out."""
    array.flags.writeable = False
    return array


class Places:
    """A set of points in which others are found: sorted along one direction in general position."""

    def __init__(self, points: Float[np.ndarray, "n *shape"]):
        self.given = points
        self.points = points.reshape(len(points), -1)
        self.direction = _direction(self.points.shape[1])
        prints = self.points @ self.direction
        self.order = np.argsort(prints, kind="stable")
        self.prints = prints[self.order]

    def find(self, queries: Float[np.ndarray, "q *shape"], tol: float = TOLERANCE) -> Int[np.ndarray, " q"]:
        """Which of the points each query is, within the tolerance; −1 for a query that is none of them."""
        queries = queries.reshape(len(queries), -1)
        asked, width = queries @ self.direction, tol * np.abs(self.direction).sum() + 1e-12
        first, last = (np.searchsorted(self.prints, asked + side * width) for side in (-1, 1))
        found = np.full(len(queries), -1)
        for step in range(int(np.max(last - first, initial=0))):
            todo = np.flatnonzero((found < 0) & (first + step < last))
            if not len(todo):
                break
            candidate = self.order[first[todo] + step]
            same = np.max(np.abs(self.points[candidate] - queries[todo]), axis=1, initial=0.0) < tol
            found[todo[same]] = candidate[same]
        return found


def match(
    points: Float[np.ndarray, "n *shape"], queries: Float[np.ndarray, "q *shape"], tol: float = TOLERANCE
) -> Int[np.ndarray, " q"]:
    """Which of the points each query is, within the tolerance; −1 for a query that is none of them."""
    return Places(points).find(queries, tol)


def distinct(points: Float[np.ndarray, "n *shape"]) -> Int[np.ndarray, " m"]:
    """The positions of one copy of every different point, in order."""
    flat = points.reshape(len(points), -1)
    order = np.argsort(flat @ _direction(flat.shape[1]), kind="stable")
    steps = np.max(np.abs(np.diff(flat[order], axis=0)), axis=1, initial=0.0)
    return np.sort(order[np.concatenate([[True], steps > TOLERANCE])])


def closure(generators: Float[np.ndarray, "m d d"], limit: int) -> Float[np.ndarray, "order d d"] | None:
    """All products of the generators, identity first; None when there are more than the limit."""
    letters = np.concatenate([generators, np.swapaxes(generators, 1, 2)])
    levels, count = [np.zeros((0, *letters.shape[1:])), np.eye(letters.shape[-1])[None]], 1
    while len(levels[-1]) and len(letters):
        words = (levels[-1][:, None] @ letters[None]).reshape(-1, *letters.shape[1:])
        words = words[distinct(words)]
        # a letter and its inverse are both there, so a word is at most one level away from where it came
        levels.append(words[match(np.concatenate(levels[-2:]), words) < 0])
        count += len(levels[-1])
        if count > limit:
            return None
    return np.concatenate(levels)


def compositions(factors: Iterable[Int[np.ndarray, "_ n"]], n: int) -> Int[np.ndarray, "order n"]:
    """Every product u1∘u2∘… of one permutation from each factor."""
    tables = np.arange(n)[None]
    for factor in factors:
        tables = tables[:, factor].reshape(-1, n)
    return tables


def permutation_matrices(tables: Int[np.ndarray, "*m n"]) -> Float[np.ndarray, "*m n n"]:
    """The matrices that send e_i to e_{p(i)}."""
    return np.swapaxes(np.eye(tables.shape[-1])[tables], -1, -2).copy()


def signed_permutation(
    matrix: Float[np.ndarray, "k k"],
) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]] | None:
    """The images p and signs s of a matrix that sends e_i to s_i e_{p(i)}; None for any other matrix."""
    columns, index = np.nonzero(matrix.T)
    if len(index) != len(matrix) or np.any(columns != np.arange(len(index))):
        return None
    signs = matrix[index, columns]
    one_each = np.array_equal(np.sort(index), columns) and np.all(np.abs(signs) == 1.0)
    return (index, signs) if one_each else None


def permuted(matrix: Float[np.ndarray, "k k"], near: float) -> Int[np.ndarray, " k"] | None:
    """The images p of a matrix that sends e_i to e_{p(i)}, up to rounding; None for any other matrix."""
    whole = np.rint(matrix)
    found = signed_permutation(whole) if largest(matrix - whole) < near else None
    return found[0] if found is not None and np.all(found[1] > 0) else None


def blocks(*matrices: Float[np.ndarray, "_ _"]) -> Float[np.ndarray, "k k"]:
    """The block-diagonal matrix."""
    return np.asarray(scipy.linalg.block_diag(*matrices))


def _values(module: eqx.Module) -> tuple:
    return tuple(getattr(module, field.name) for field in dataclasses.fields(module))


def _direction(size: int) -> Float[np.ndarray, " size"]:
    """A fixed direction in general position: different points have different inner products with it."""
    return np.random.default_rng(20240531).standard_normal(size)
