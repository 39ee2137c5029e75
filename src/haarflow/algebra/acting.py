"""Elements of a group as they move batches of vectors: by gather where they permute and flip signs, else by matrices.

An image of 28 × 28 pixels turned by a matrix takes 784 × 784 numbers; turned by gather it takes 784 whole ones. Sums
and products of such actions keep their factors (see combined.py): 1000 points that are rotated take one matrix 3 × 3.
"""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int, PRNGKeyArray

from haarflow.algebra.checks import affordable
from haarflow.algebra.tables import static
from haarflow.doors import Natural, door
from haarflow.errors import Refusal
from haarflow.values import numbers, refuse_unless_affordable, said

T = TypeVar("T")
Rows = Float[Array, "*b k"] | Float[np.ndarray, "*b k"]
Moved = Float[Array, "n *b k"] | Float[np.ndarray, "n *b k"]
Squares = Float[Array, "n k k"] | Float[np.ndarray, "n k k"]
Places = Int[Array, " m"] | Int[np.ndarray, " m"]


class Action(eqx.Module):
    """What n elements of a group do to R^k: a PyTree that compiled programs carry like any array.

    `rep.action()` makes one of all elements of a finite group, `rep.action(group.draw(key, n))` one of n random ones.
    Its arrays are NumPy's until a compiled program takes them. Then rows in NumPy are moved in NumPy's float64, and
    rows in JAX in their own precision.

        turns = image_rep("dihedral", 28, 28).action()
        turns.apply(pictures)             # (8, b, 784): every picture in its eight positions
        turns.draw(key, len(pictures)).apply_each(pictures)             # (b, 784): each in one of them, at random
    """

    instead: ClassVar[str] = "Write `rep.action()`, or `rep.action(group.draw(key, n))` for n random elements."

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The size k of the vectors that are moved."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """The number n of elements."""

    @property
    @abc.abstractmethod
    def permutes(self) -> bool:
        """Whether every element permutes the coordinates up to sign, so that `gathers` tells all."""

    @abc.abstractmethod
    def everywhere(self, z: Rows) -> Moved:
        """What `apply` gives, for rows of the right size."""

    @abc.abstractmethod
    def one_by_one(self, z: Moved) -> Moved:
        """What `apply_each` gives, for rows of the right sizes."""

    @abc.abstractmethod
    def chosen(self, places: Places) -> "Action":
        """What `pick` gives, for an array of places that exist."""

    @property
    @abc.abstractmethod
    def inverse(self) -> "Action":
        """The inverses of the elements, in the same order."""

    @abc.abstractmethod
    def matrices(self) -> Squares:
        """The elements as orthogonal matrices (n, k, k)."""

    @abc.abstractmethod
    def traces(self) -> Float[Array, " n"] | Float[np.ndarray, " n"]:
        """The trace of each element."""

    @abc.abstractmethod
    def gathers(self) -> "ByGather":
        """The same action as one gather of the coordinates, where it `permutes`."""

    def merged(self) -> "Action":
        """The same action with as few gathers as there can be: what moves many rows moves them once."""
        return self

    @classmethod
    @abc.abstractmethod
    def examples(cls) -> Sequence["Action"]:
        """Small lopsided members, on which the laws are tested."""

    def apply(self, z: Any) -> Moved:
        """Every row of a batch (*b, k) moved by every element: (n, *b, k)."""
        z = self._rows("apply", z)
        if all(isinstance(size, int) for size in z.shape):  # not symbols, as in `jax.export`
            refuse_unless_affordable(
                f"The orbits of {z.size // self.dim} vectors in R^{self.dim} under {len(self)} elements",
                float(len(self) * z.size * z.dtype.itemsize),
                instead="Write fewer elements, or augment(data, on_x, on_y), which draws one for each sample.",
            )
        return self.everywhere(z)

    def apply_each(self, z: Any) -> Moved:
        """Row i of a batch (n, *b, k) moved by element i: of the same shape."""
        z = self._rows("apply_each", z)
        if z.ndim < 2 or len(z) != len(self):
            raise Refusal(
                f"apply_each moves row i by element i of {len(self)}; got an array of shape {z.shape}. Write "
                f"{len(self)} rows, or `apply` to move every row by every element."
            )
        return self.one_by_one(z)

    def pick(self, places: Any) -> "Action":
        """The elements at one place, or at several (m,), as an Action of one or m elements."""
        found = places if isinstance(places, jax.Array) else np.asarray(places)
        whole = jnp.issubdtype(found.dtype, jnp.integer) and found.ndim <= 1
        known = np.zeros(0) if isinstance(found, Tracer) else np.asarray(found)
        if not whole or np.any((known < 0) | (known >= len(self))):
            raise Refusal(
                f"pick takes a place among {len(self)} elements, from 0, or a list of places; got {said(places)}. "
                "Write pick(0), or pick([0, 1])."
            )
        return self.chosen(found.reshape(-1))

    @door
    def draw(self, key: PRNGKeyArray | Array, n: Natural) -> "Action":
        """n of the elements, independent and equally likely; the same key picks the same places in every Action."""
        affordable(f"A table of {n} draws", f"an Action on R^{self.dim}", n, self.dim, instead="Draw fewer at once.")
        return self.chosen(jax.random.randint(key, (n,), 0, len(self)))

    def agrees(self, other: "Action", slack: float = 1e-9) -> bool:
        """Whether both are the same elements in the same order, in any form: seen on one vector in general position."""
        if (len(self), self.dim) != (len(other), other.dim):
            return False
        z = np.random.default_rng(20240531).standard_normal(self.dim)
        return bool(np.allclose(self.apply(z), other.apply(z), rtol=0, atol=slack * np.sqrt(self.dim)))

    def mean_back(self, z: Moved) -> Rows:
        """The mean over the elements g of g⁻¹ z_g, for values (n, *b, k): (*b, k)."""
        return self.inverse.one_by_one(z).mean(axis=0)

    def block(self, start: int, stop: int) -> "Action":
        """The action on the coordinates from start to stop, which the elements keep among themselves."""
        if self.permutes:
            return self.gathers().block(start, stop)
        return ByMatrices(self.matrices()[:, start:stop, start:stop])

    def __matmul__(self, other: "Action") -> "Action":
        """The products g h of the elements of two Actions, pair by pair: `other` moves first."""
        if not isinstance(other, Action) or (len(other), other.dim) != (len(self), self.dim):
            got = f"{len(other)} on R^{other.dim}" if isinstance(other, Action) else said(other)
            raise Refusal(
                f"A product of Actions is of {len(self)} elements on R^{self.dim} each; got {got}. Write `pick` to "
                "take as many of both."
            )
        if self.permutes and other.permutes:
            return self.gathers().after(other.gathers())
        return ByMatrices(self.matrices() @ other.matrices())

    def _rows(self, owner: str, z: Any) -> Rows:
        z = numbers(f"{owner}'s z", z, numpy=not isinstance(z, jax.Array) and is_plain(self))
        if z.shape[-1:] != (self.dim,):
            raise Refusal(
                f"An Action on R^{self.dim} moves rows of {self.dim} numbers; got an array of shape {z.shape}. Write z "
                f"with {self.dim} numbers in its last axis."
            )
        return z


class Still(Action):
    """n elements that move nothing."""

    n: int = static()
    k: int = static()

    @property
    def dim(self):
        return self.k

    def __len__(self):
        return self.n

    @property
    def permutes(self):
        return True

    def everywhere(self, z):
        return library(z).broadcast_to(z, (self.n, *z.shape))

    def one_by_one(self, z):
        return z

    def chosen(self, places):
        return Still(len(places), self.k)

    @property
    def inverse(self):
        return self

    def matrices(self):
        return np.tile(np.eye(self.k), (self.n, 1, 1))

    def traces(self):
        return np.full(self.n, float(self.k))

    def gathers(self):
        return ByGather(np.tile(np.arange(self.k, dtype=np.int32), (self.n, 1)))

    def block(self, start, stop):
        return Still(self.n, stop - start)

    @classmethod
    def examples(cls):
        return [cls(3, 2)]


class ByGather(Action):
    """Elements that permute the coordinates up to sign: (g z)_i = signs_i z_{index_i}."""

    index: Int[Array, "n k"] | Int[np.ndarray, "n k"]
    signs: Int[Array, "n k"] | Int[np.ndarray, "n k"] | None = None

    @property
    def dim(self):
        return self.index.shape[1]

    def __len__(self):
        return self.index.shape[0]

    @property
    def permutes(self):
        return True

    # The indices are right where they are made, so nothing looks again whether they lie within the rows.

    def everywhere(self, z):
        if is_plain((self, z)):
            found = z[..., self.index]
        else:
            found = jnp.asarray(z).at[..., jnp.asarray(self.index)].get(mode="promise_in_bounds")
        return self._signed(library(found).moveaxis(found, -2, 0))

    def one_by_one(self, z):
        index = _spread(self.index, z.ndim)
        if is_plain((self, z)):
            return self._signed(np.take_along_axis(z, np.asarray(index), axis=-1))
        return self._signed(jnp.take_along_axis(z, jnp.asarray(index), axis=-1, mode="promise_in_bounds"))

    def chosen(self, places):
        return ByGather(_taken(self.index, places), None if self.signs is None else _taken(self.signs, places))

    @property
    def inverse(self):
        back = library(self.index).argsort(self.index, axis=1).astype(np.int32)
        return ByGather(back, None if self.signs is None else _along(self.signs, back))

    def after(self, first: "ByGather") -> "ByGather":
        """The product of two gathers, element by element: the other one moves first."""
        signs = None if first.signs is None else _along(first.signs, self.index)
        if self.signs is not None:
            signs = self.signs if signs is None else self.signs * signs
        return ByGather(_along(first.index, self.index), signs)

    def matrices(self):
        found = library(self.index).eye(self.dim)[self.index]
        return found if self.signs is None else found * _as(found, self.signs)[:, :, None]

    def traces(self):
        still = self.index == library(self.index).arange(self.dim)[None]
        return (still if self.signs is None else still * self.signs).sum(axis=1) * 1.0

    def gathers(self):
        return self

    def codes(self) -> Int[Array, "n k"] | Int[np.ndarray, "n k"]:
        """Whole numbers that tell the elements apart."""
        return self.index if self.signs is None else self.index + self.dim * (self.signs < 0)

    def block(self, start, stop):
        return ByGather(
            self.index[:, start:stop] - np.int32(start), None if self.signs is None else self.signs[:, start:stop]
        )

    def _signed(self, z):
        return z if self.signs is None else z * _as(z, _spread(self.signs, z.ndim))

    @classmethod
    def examples(cls):
        index = np.array([[1, 2, 0], [0, 2, 1], [2, 0, 1], [0, 1, 2]], np.int32)
        return [cls(index), cls(index, np.array([[1, 1, -1], [-1, 1, 1], [1, 1, 1], [-1, 1, -1]], np.int8))]


class ByMatrices(Action):
    """Elements by their matrices (n, k, k)."""

    table: Squares

    @property
    def dim(self):
        return self.table.shape[1]

    def __len__(self):
        return self.table.shape[0]

    @property
    def permutes(self):
        return False

    def everywhere(self, z):
        if is_plain((self, z)):
            return np.matmul(
                z, self.table.swapaxes(1, 2).reshape(len(self), *[1] * max(0, z.ndim - 2), *[self.dim] * 2)
            )
        return jnp.einsum("gij,...j->g...i", _as(z, self.table), z)

    def one_by_one(self, z):
        return library((self, z)).einsum("gij,g...j->g...i", _as(z, self.table), z)

    def chosen(self, places):
        return ByMatrices(_taken(self.table, places))

    @property
    def inverse(self):
        return ByMatrices(self.table.swapaxes(1, 2))

    def mean_back(self, z):
        return library((self, z)).einsum("gji,g...j->...i", _as(z, self.table), z) / len(self)

    def matrices(self):
        return self.table

    def traces(self):
        return self.table.trace(axis1=1, axis2=2)

    def gathers(self):
        raise Refusal("An Action by matrices does more than permute coordinates. Write `matrices()`.")

    @classmethod
    def examples(cls):
        angles = np.array([0.3, 2.0, -1.1])
        turns = [[[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]] for a in angles]
        return [cls(np.array(turns))]


def as_action(elements: Any) -> Action:
    """Elements as an Action: matrices (n, k, k) of NumPy by gather where all of them permute up to sign."""
    if isinstance(elements, Action):
        return elements
    if not isinstance(elements, np.ndarray):
        return ByMatrices(jnp.asarray(elements))
    nonzero = elements != 0
    one_each = np.all(nonzero.sum(axis=2) == 1) and np.all(nonzero.sum(axis=1) == 1)
    if not one_each or not np.all(np.abs(elements[nonzero]) == 1.0):
        return ByMatrices(np.asarray(elements, np.float64))
    index = nonzero.argmax(axis=2).astype(np.int32)
    signs = np.take_along_axis(elements, index[:, :, None], axis=2)[:, :, 0].astype(np.int8)
    return ByGather(index, signs if np.any(signs < 0) else None)


def in_jax(tree: T) -> T:
    """The same Action or projector with JAX's arrays, for a module that compiled programs take."""
    return jax.tree.map(jnp.asarray, tree)


def is_plain(tree: Any) -> bool:
    """Whether every array in it is NumPy's."""
    return not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(tree))


def library(tree: Any) -> Any:
    """The library that computes with these arrays."""
    return np if is_plain(tree) else jnp


def _taken(array, places):
    return array[places] if is_plain((array, places)) else jnp.asarray(array)[places]


def _along(array, index):
    return library((array, index)).take_along_axis(array, index, axis=1)


def _as(z, array):
    """An array in the type of the rows that it meets."""
    return array.astype(z.dtype)


def _spread(array, ndim: int):
    """(n, k) with axes of size one between, to meet rows (n, *b, k)."""
    return array.reshape(array.shape[0], *[1] * (ndim - 2), array.shape[1])
