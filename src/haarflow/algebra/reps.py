"""How a group acts on R^k: orthogonal representations, their algebra, and the vectors they fix."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Int

from haarflow.algebra import checks, fixed_space, proofs
from haarflow.algebra.acting import Action, Still, as_action
from haarflow.algebra.base import Finite, Group, Matrix, a_group, element, finite
from haarflow.algebra.cache import remembered
from haarflow.algebra.checks import affordable, fits
from haarflow.algebra.combined import beside, kron
from haarflow.algebra.given_elements import given_elements, given_tangent
from haarflow.algebra.groups import Cyclic, Dihedral, Hyperoctahedral, Symmetric
from haarflow.algebra.lie_groups import Orthogonal, SpecialOrthogonal
from haarflow.algebra.projection import Projection, projection
from haarflow.algebra.tables import Constant, blocks, readonly, static
from haarflow.doors import Count, door
from haarflow.errors import Refusal
from haarflow.values import numbers, said, whole

Vectors = Float[Array, "*b k"] | Float[np.ndarray, "*b k"]
POWERS = 64
"""The highest power of a representation."""

Signed = tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]


class Rep(Constant):
    """An orthogonal representation on R^k; a NumPy element gives NumPy float64, a JAX element gives JAX."""

    group: Group = static()

    instead: ClassVar[str] = (
        "Write for instance `natural_rep(group)`, `trivial_rep(group, k)` or `represent(group, ...)`."
    )

    proven: ClassVar[bool] = False
    """True where products are kept by construction; every other representation is checked when made."""

    __array_ufunc__: ClassVar[None] = None
    """An array times a representation is no array of representations: it asks `__rmul__`, which refuses it."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The size k of the matrices."""

    @abc.abstractmethod
    def acting(self, moves: Action) -> Action:
        """What elements do to R^k, given what they do to R^d; `action` looks whether they are elements."""

    @classmethod
    @abc.abstractmethod
    def examples(cls) -> Sequence["Rep"]:
        """Small lopsided members, on which the laws are tested."""

    def __check_init__(self):
        a_group("A representation", self.group)
        if not self.proven:
            proofs.check(self)

    @property
    def sampled(self) -> bool:
        """True where products were checked by sampling alone, not proven on every element."""
        return not self.proven and not proofs.on_all(self)

    def __call__(self, g: Any) -> Matrix:
        """The matrix rho(g), (k, k), of one element g, (d, d)."""
        affordable("A matrix", self, self.dim, self.dim, instead="Write `rep.apply(g, rows)`.")
        return self.matrix(element(self.group, g))

    def apply(self, g: Any, z: Any) -> Vectors:
        """rho(g) z, for one vector or a batch of rows: by gather where rho(g) permutes and flips signs."""
        return self.acting(as_action(element(self.group, g)[None])).everywhere(self._rows("apply", z))[0]

    def action(self, elements: Any = None) -> Action:
        """What all elements of a finite group do to R^k, in their order; or those given, as (m, d, d) or by `draw`.

        rep.action().apply(xs)                                 # (order, b, k): every row and all its images
        rep.action(group.draw(key, len(xs))).apply_each(xs)    # (b, k): each row moved by an element of its own
        """
        return _whole(self) if elements is None else self.acting(given_elements(self.group, elements)).merged()

    @door
    def signed(self, g: Any) -> Signed | None:
        """Images p and signs s when rho(g) sends e_i to s_i e_{p(i)}; None otherwise."""
        found = self.acting(as_action(np.asarray(element(self.group, g))[None])).inverse
        if not found.permutes:
            return None
        gather = found.gathers()  # of the inverse, whose coordinate i is taken from where g sends it
        signs = np.ones(self.dim) if gather.signs is None else np.asarray(gather.signs[0], float)
        return np.asarray(gather.index[0], np.int64), signs

    def permutation(self, g: Any) -> Int[np.ndarray, " k"]:
        """The images p of a rho(g) that sends e_i to e_{p(i)}."""
        found = self.signed(g)
        if found is None or np.any(found[1] < 0):
            raise Refusal(f"{self} does not permute the coordinates here. Write `rep(g)` for the matrix.")
        return found[0]

    @door
    def character(self, g: Any) -> float:
        """The trace of rho(g)."""
        return float(self.acting(as_action(np.asarray(element(self.group, g))[None])).traces()[0])

    def derivative(self, a: Any) -> Float[np.ndarray, "k k"]:
        """The representation of the Lie algebra: the derivative of rho(exp(t a)) at t = 0."""
        return self.turning(given_tangent(self.group, a))

    def matrix(self, g: Matrix) -> Matrix:
        """rho(g), (k, k), of a g that is an element for certain; `rep(g)` looks whether it is one."""
        found = self.acting(as_action(g[None])).matrices()[0]
        return jnp.asarray(found, g.dtype) if isinstance(g, jax.Array) else found

    def turning(self, a: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "k k"]:
        """What `derivative` gives, for an element of the Lie algebra."""
        step = 1e-3
        near = self.matrix(np.asarray(scipy.linalg.expm(step * a)))
        log = np.real(np.asarray(scipy.linalg.logm(near))) / step
        return (log - log.T) / 2

    def matrices(self) -> Float[np.ndarray, "order k k"]:
        """rho at every element of a finite group, (order, k, k), in the order of `group.elements()`."""
        return _matrices(self)

    def orbits(self) -> Signed:
        """The orbit of each coordinate, −1 where only zero is fixed, and its sign: the tied parameters."""
        found = fixed_space.signed_generators(self)
        if found is None:
            raise Refusal(f"{self} does more than permute and flip coordinates. Write `fixed_basis()` instead.")
        return fixed_space.orbits(*found)

    def fixed_basis(self) -> Float[np.ndarray, "k m"]:
        """An orthonormal basis, in columns, of the vectors that the group fixes."""
        return fixed_space.basis(self)

    def fixed_projector(self) -> Float[np.ndarray, "k k"]:
        """The orthogonal projector on the vectors that the group fixes: the Haar average of rho."""
        return fixed_space.projector(self)

    def projection(self) -> Projection:
        """That projector as it acts on rows: by means over orbits where it is large and the group permutes."""
        return projection(self)

    def project(self, z: Any) -> Vectors:
        """P z for one vector or a batch of rows."""
        return self.projection().apply(self._rows("project", z))

    @property
    def dual(self) -> "Rep":
        """The dual, rho(g)^{-T}: for orthogonal matrices, the representation itself."""
        return self

    def hom(self, other: "Rep") -> "Rep":
        """Matrices z (dim other × dim self), row-major, moved as z -> other(g) z self(g)^{-1}."""
        one_group("hom", self, other)
        return other * self.dual

    def __add__(self, other: "Rep") -> "Rep":
        return Sum(one_group("A sum", self, other), self, other)

    def __radd__(self, other: "Rep") -> "Rep":
        return Sum(one_group("A sum", other, self), other, self)

    def __mul__(self, other: "Rep | int") -> "Rep":
        if isinstance(other, Rep):
            return Tensor(one_group("A product", self, other), self, other)
        return self.__rmul__(other)

    def __rmul__(self, times: int) -> "Rep":
        copies = whole("The number of copies of a representation", times, least=1)
        return self if copies == 1 else TrivialRep(self.group, copies) * self

    def __pow__(self, power: int) -> "Rep":
        power = whole("The power of a representation", power, least=1)
        if power > POWERS:
            raise Refusal(f"The power of a representation is at most {POWERS}; got {power}. Write a smaller one.")
        return self if power == 1 else self * self ** (power - 1)

    def _rows(self, owner: str, z) -> Vectors:
        z = numbers(f"{owner}'s z", z, numpy=not isinstance(z, jax.Array))
        if z.shape[-1:] != (self.dim,):
            raise Refusal(
                f"{self} moves rows of {self.dim} numbers; got an array of shape {z.shape}. "
                f"Write z with {self.dim} numbers in its last axis."
            )
        return z


class TrivialRep(Rep):
    """The trivial representation on R^k: nothing moves."""

    k: int = static(converter=checks.whole, default=1)

    proven: ClassVar[bool] = True

    @property
    def dim(self):
        return self.k

    def acting(self, moves):
        return Still(len(moves), self.k)

    def turning(self, a):
        return np.zeros((self.k, self.k))

    def __repr__(self):
        return f"trivial_rep({self.group}, {self.k})"

    @classmethod
    def examples(cls):
        return [cls(Symmetric(3), 2), cls(SpecialOrthogonal(2), 1)]


class Natural(Rep):
    """The representation by the group's own matrices."""

    proven: ClassVar[bool] = True

    @property
    def dim(self):
        return self.group.dim

    def acting(self, moves):
        return moves

    def turning(self, a):
        return np.array(a, np.float64)

    def __repr__(self):
        return f"natural_rep({self.group})"

    @classmethod
    def examples(cls):
        return [cls(Cyclic(3)), cls(Dihedral(3)), cls(Hyperoctahedral(2)), cls(SpecialOrthogonal(3))]


class OfOne(Rep):
    """A representation made of another one, of the same size; its products are kept where those of the other are."""

    inner: Rep = static()

    proven: ClassVar[bool] = True

    @property
    def dim(self):
        return self.inner.dim

    @property
    def sampled(self):
        return self.inner.sampled


class OfTwo(Rep):
    """A representation made of two others of the same group; its products are kept where theirs are."""

    a: Rep = static()
    b: Rep = static()

    proven: ClassVar[bool] = True

    @property
    def sampled(self):
        return self.a.sampled or self.b.sampled


class Sum(OfTwo):
    """Two representations side by side: block-diagonal matrices."""

    @property
    def dim(self):
        return self.a.dim + self.b.dim

    def acting(self, moves):
        return beside(self.a.acting(moves), self.b.acting(moves))

    def turning(self, a):
        return blocks(self.a.turning(a), self.b.turning(a))

    def __repr__(self):
        return f"({self.a} + {self.b})"

    @classmethod
    def examples(cls):
        s, d = natural_rep(Symmetric(3)), natural_rep(Dihedral(4))
        return [
            s + trivial_rep(s.group, 2),
            d + d**2,
            natural_rep(SpecialOrthogonal(2)) + trivial_rep(SpecialOrthogonal(2)),
        ]


class Tensor(OfTwo):
    """The product of two representations: Kronecker products, on row-major matrices (dim a × dim b)."""

    @property
    def dim(self):
        return self.a.dim * self.b.dim

    def acting(self, moves):
        return kron(self.a.acting(moves), self.b.acting(moves))

    def turning(self, a):
        left, right = self.a.turning(a), self.b.turning(a)
        return np.kron(left, np.eye(self.b.dim)) + np.kron(np.eye(self.a.dim), right)

    def __repr__(self):
        return f"{self.a} * {self.b}"

    @classmethod
    def examples(cls):
        s, o = natural_rep(Symmetric(3)), natural_rep(SpecialOrthogonal(3))
        return [
            s.hom(s + trivial_rep(s.group)),
            2 * natural_rep(Dihedral(3)),
            o**2,
            natural_rep(Hyperoctahedral(2)) ** 2,
        ]


@door
def trivial_rep(group: Group, k: Count = 1) -> Rep:
    """The representation on R^k that moves nothing."""
    return TrivialRep(group, k)


@door
def natural_rep(group: Group) -> Rep:
    """The representation of a group by its own matrices."""
    return Natural(group)


def a_rep(owner: str, thing) -> Rep:
    """The thing itself, where it is a representation."""
    if not isinstance(thing, Rep):
        got = f"the group {thing}" if isinstance(thing, Group) else said(thing)
        raise Refusal(f"{owner} takes a representation of a group; got {got}. {Rep.instead}")
    return thing


def one_group(owner: str, *reps) -> Group:
    """The group that all these representations belong to: refused where they belong to different ones."""
    groups = [a_rep(owner, rep).group for rep in reps]
    for group in groups[1:]:
        if group != groups[0]:
            raise Refusal(
                f"{owner} takes representations of one group; got {groups[0]} and {group}. Write both over the "
                "same group, or `lift(rep, a * b, side)` to see both over the direct product."
            )
    return groups[0]


@remembered
def _whole(rep: Rep) -> Action:
    group = rep.group
    if not isinstance(group, Finite):
        plane = isinstance(group, Orthogonal | SpecialOrthogonal) and group.dim == 2
        raise Refusal(
            f"An orbit is a finite sum over the group; got the infinite {group}. "
            + (
                f"Write `elements={group}.grid(32)`: the averages over n equispaced rotations are exact once n exceeds "
                "the largest weight."
                if plane
                else "Write `elements=group.haar(key, 64)` to average over 64 draws."
            )
        )
    fits(
        f"The orbit of a vector in R^{rep.dim} under all elements of {group}",
        group.order,
        rep.dim,
        instead="Write `elements=group.draw(key, 64)` to average over 64 draws, or `augment(data, on_x, on_y)`, which "
        "draws an element for each sample.",
    )
    return rep.acting(group.moves()).merged()


@remembered
def _matrices(rep: Rep) -> Float[np.ndarray, "order k k"]:
    group = finite("The list of matrices", rep.group, "Draw `group.haar(key, n)`, and write `rep(g)` for each.")
    fits(f"The list of matrices of {rep}", group.order, rep.dim, rep.dim)
    return readonly(np.array(rep.acting(group.moves()).matrices()))
