"""The kinds of groups: compact, and finite."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.core import Tracer
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt

from haarflow import doors, values
from haarflow.algebra.acting import Action, as_action, is_plain
from haarflow.algebra.cache import remembered
from haarflow.algebra.checks import affordable, fits, off_orthogonal
from haarflow.algebra.tables import Constant, Places, closure, readonly
from haarflow.errors import Refusal

Key = PRNGKeyArray | UInt[Array, "2"]
Matrix = Float[Array, "_ _"] | Float[np.ndarray, "_ _"]
Classes = tuple[Float[np.ndarray, "q d d"], Float[np.ndarray, " q"]]

NEAR = 1e-6
"""A float64 matrix is an element when no entry is off by more than this; a float32 matrix, by a hundred times this."""


class Group(Constant):
    """A compact group of orthogonal matrices d × d, made by its generators and its Lie algebra together."""

    instead: ClassVar[str] = "Write for instance `Cyclic(4)`, `Symmetric(3)` or `SpecialOrthogonal(2)`."

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The size d of the natural matrices."""

    @abc.abstractmethod
    def draws(self, key: PRNGKeyArray, n: int) -> Float[Array, "n d d"] | Action:
        """n independent elements, exactly Haar, as matrices or as an Action on R^d.

        `draw` and `haar` call it, with a key and a number that are in order.
        """

    @abc.abstractmethod
    def generators(self) -> Float[np.ndarray, "m d d"]:
        """Finitely many elements that make the group, with the exponentials of its Lie algebra."""

    @classmethod
    @abc.abstractmethod
    def examples(cls) -> Sequence["Group"]:
        """Small lopsided members, on which the laws are tested."""

    def __check_init__(self):
        affordable("A matrix", self, self.dim, self.dim, instead="Write a group of a smaller space.")

    @doors.door
    def draw(self, key: Key, n: doors.Natural) -> Action:
        """n independent elements, exactly Haar, as an Action on R^d: `rep.action(elements)` makes them act on R^k.

        A group that permutes draws permutations, d whole numbers each: 1000 points need no matrix 1000 × 1000.
        """
        size = self.dim if isinstance(self, Finite) else self.dim**2
        affordable(f"A table of {n} draws", self, n, size, instead="Draw fewer at once.")
        return as_action(self.draws(key, n)).merged()

    @doors.door
    def haar(self, key: Key, n: doors.Natural) -> Float[Array, "n d d"]:
        """The elements that `draw` draws, as matrices (n, d, d); the key may be a whole number, as a seed."""
        wanted = "Draw fewer at once, or write `group.draw(key, n)`, which keeps permutations as such."
        affordable(f"A table of {n} draws", self, n, self.dim, self.dim, instead=wanted)
        return jnp.asarray(as_action(self.draws(key, n)).matrices())

    def classes(self, degree: int) -> Classes:
        """Elements and weights that integrate every class function of weights up to the degree exactly.

        A group may do without, as long as nobody asks for `character_dimension`.
        """
        raise Refusal(f"{self} does not say what its classes are. Write `rep.fixed_basis().shape[1]` for a dimension.")

    def count_classes(self, degree: int) -> int | None:
        """How many elements `classes` lists: what it costs, before the work; None where there is no list."""
        return None

    def lie_algebra(self) -> Float[np.ndarray, "l d d"]:
        """A basis of the Lie algebra, skew matrices; empty for finite groups."""
        return np.zeros((0, self.dim, self.dim))

    def holds(self, g: Float[np.ndarray, "d d"], near: float) -> bool:
        """Whether a matrix of the right size is an element, up to about `near` in each entry."""
        return off_orthogonal(g[None]) <= 2 * near * self.dim

    def contains(self, moves: Action) -> bool:
        """Whether all of these, in NumPy and on R^d, are elements."""
        near = 1e2 * NEAR  # draws in single precision are welcome
        return all(self.holds(np.asarray(moves.chosen(np.array([i])).matrices()[0]), near) for i in range(len(moves)))

    def probes(self) -> Float[np.ndarray, "m d d"]:
        """A few elements on which representations are checked: generators, flows, and words in them."""
        lie = self.lie_algebra()
        speeds = np.cos(1.0 + np.arange(2 * len(lie))).reshape(-1, len(lie)) if len(lie) else []
        flows = [np.asarray(scipy.linalg.expm(np.tensordot(speed, lie, 1))) for speed in speeds]
        letters = [*self.generators()[:4], *flows]
        words = [a @ b for a, b in zip(letters, letters[1:] + letters[:1], strict=True)]
        return np.stack([np.eye(self.dim), *letters, *words])

    def __mul__(self, other: "Group") -> "Group":
        from haarflow.algebra.products import direct_product

        return direct_product(self, other)

    def __rmul__(self, other: "Group") -> "Group":
        from haarflow.algebra.products import direct_product

        return direct_product(other, self)


class Finite(Group):
    """A finite group: its elements can be listed, identity first, while the list fits in memory."""

    @property
    @abc.abstractmethod
    def order(self) -> int:
        """The number of elements."""

    def listed(self) -> Float[np.ndarray, "order d d"] | Action:
        """The elements, identity first, made afresh, as matrices or as an Action on R^d; `moves()` remembers them."""
        fits(f"The list of elements of {self}", self.order, self.dim, self.dim)
        found = closure(self.generators(), self.order)
        if found is None or len(found) != self.order:
            raise Refusal(f"{self} says it has {self.order} elements; its generators make another number.")
        return found

    def elements(self) -> Float[np.ndarray, "order d d"]:
        """All elements in float64, identity first."""
        return _elements(self).given

    def moves(self) -> Action:
        """All elements as an Action on R^d, in the order of `elements()`; groups that permute need no matrices."""
        return _moves(self)

    def index(self, g: Any) -> Int[Array, ""] | int:
        """The position of g among the elements; for a JAX array, that of the nearest element."""
        g = element(self, g)
        found = self.places(as_action(g[None]))[0]
        return found if isinstance(found, jax.Array) else int(found)

    def places(self, moves: Action) -> Int[Array, " n"] | Int[np.ndarray, " n"]:
        """The positions of elements among all; of traced matrices, those of the nearest elements."""
        mine = self.moves()
        if moves is mine:
            return np.arange(self.order)
        if mine.permutes and moves.permutes:
            asked = moves.gathers().codes()
            if is_plain(moves):
                return _codes(self).find(np.asarray(asked, np.float64))
            gaps = asked[:, None] != jnp.asarray(mine.gathers().codes())[None]
            return jnp.argmin(jnp.sum(gaps, axis=2), axis=1)
        if is_plain(moves):
            return _nearest(_elements(self), np.asarray(moves.matrices()))
        asked = jnp.asarray(moves.matrices())
        gaps = jnp.asarray(self.elements(), asked.dtype)[None] - asked[:, None]
        return jnp.argmin(jnp.sum(gaps**2, axis=(2, 3)), axis=1)

    def draws(self, key: PRNGKeyArray, n: int) -> Float[Array, "n d d"] | Action:
        return self.moves().chosen(jax.random.randint(key, (n,), 0, self.order))

    def holds(self, g: Float[np.ndarray, "d d"], near: float) -> bool:
        return bool(_elements(self).find(g[None], near)[0] >= 0)

    def classes(self, degree: int) -> Classes:
        return self.elements(), np.full(self.order, 1.0 / self.order)

    def count_classes(self, degree: int) -> int | None:
        return self.order


def a_group(owner: str, thing) -> Group:
    """The thing itself, where it is a group."""
    if not isinstance(thing, Group):
        raise Refusal(f"{owner} takes a group; got {values.said(thing)}. {Group.instead}")
    return thing


def finite(owner: str, group, instead: str) -> Finite:
    """The group itself, where its elements can be listed."""
    if not isinstance(a_group(owner, group), Finite):
        raise Refusal(f"{owner} is for finite groups; got {group}. {instead}")
    return group


def element(group: Group, g: Any) -> Matrix:
    """g as a floating-point matrix, refused where it is no element of the group; of a traced g the size is checked."""
    near = NEAR if getattr(g, "dtype", np.float64) in (np.float64, np.int64) else 1e2 * NEAR
    if not isinstance(g, np.ndarray | jax.Array) or not jnp.issubdtype(g.dtype, jnp.floating):
        g = values.numbers(f"An element of {group}", g, numpy=not isinstance(g, jax.Array))
    if g.shape != (group.dim, group.dim):
        raise Refusal(
            f"An element of {group} is one matrix {group.dim} × {group.dim}; got an array of shape {g.shape}. Take it "
            "from `group.generators()` or `group.haar(key, n)`."
        )
    if isinstance(g, Tracer):
        return g
    known = np.asarray(g, np.float64)
    if not group.holds(known, near):
        raise Refusal(
            f"{group} acts through its own elements; got a matrix that is none of them. Take one from "
            "`group.generators()` or `group.haar(key, n)`."
        )
    return g if isinstance(g, jax.Array) else known


@remembered
def _moves(group: Finite) -> Action:
    fits(f"The list of elements of {group}", group.order, group.dim)
    return as_action(group.listed()).merged()


@remembered
def _elements(group: Finite) -> Places:
    fits(f"The list of elements of {group}", group.order, group.dim, group.dim)
    return Places(readonly(np.array(group.moves().matrices())))


@remembered
def _codes(group: Finite) -> Places:
    return Places(np.asarray(group.moves().gathers().codes(), np.float64))


def _nearest(places: Places, matrices: Float[np.ndarray, "n d d"]) -> Int[np.ndarray, " n"]:
    """Where matrices are found, by the narrowest tolerance that finds each: some come from single precision."""
    found = places.find(matrices)
    for near in (NEAR, 1e2 * NEAR):
        found = np.where(found < 0, places.find(matrices, near), found) if np.any(found < 0) else found
    return found
