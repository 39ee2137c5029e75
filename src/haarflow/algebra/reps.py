"""How a group acts on R^k: orthogonal representations, their algebra, and the vectors they fix."""

import abc
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Int

from haarflow.algebra import fixed
from haarflow.algebra.checks import fits, largest, refuse_broken, refuse_infinite, refuse_skewed, whole
from haarflow.algebra.groups import Cyclic, Dihedral, Hyperoctahedral, SpecialOrthogonal, Symmetric
from haarflow.algebra.kinds import Finite, Group, Matrix
from haarflow.algebra.tables import Constant, blocks, readonly, signed_permutation, static
from haarflow.errors import Refusal

Vectors = Float[Array, "*b k"] | Float[np.ndarray, "*b k"]
Signed = tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]


class Rep(Constant):
    """An orthogonal representation on R^k; a NumPy element gives NumPy float64, a JAX element gives JAX."""

    group: Group = static()

    proven: ClassVar[bool] = False
    """True where products are kept by construction; every other representation is checked when made."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The size k of the matrices."""

    @abc.abstractmethod
    def __call__(self, g: Matrix) -> Matrix:
        """The matrix rho(g), (k, k), of one element g, (d, d)."""

    @classmethod
    @abc.abstractmethod
    def examples(cls) -> Sequence["Rep"]:
        """Small lopsided members, on which the laws are tested."""

    def __check_init__(self):
        if not self.proven:
            check(self)

    def derivative(self, a: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "k k"]:
        """The representation of the Lie algebra: the derivative of rho(exp(t a)) at t = 0."""
        step = 1e-3
        near = self(np.asarray(scipy.linalg.expm(step * a)))
        log = np.real(np.asarray(scipy.linalg.logm(near))) / step
        return (log - log.T) / 2

    def signed(self, g: Float[np.ndarray, "d d"]) -> Signed | None:
        """Images p and signs s when rho(g) sends e_i to s_i e_{p(i)}; None otherwise."""
        return signed_permutation(np.asarray(self(g)))

    def permutation(self, g: Float[np.ndarray, "d d"]) -> Int[np.ndarray, " k"]:
        """The images p of a rho(g) that sends e_i to e_{p(i)}."""
        found = self.signed(g)
        if found is None or np.any(found[1] < 0):
            raise Refusal(f"{self} does not permute the coordinates here. Write `rep(g)` for the matrix.")
        return found[0]

    def character(self, g: Float[np.ndarray, "d d"]) -> float:
        """The trace of rho(g)."""
        return float(np.trace(np.asarray(self(g))))

    def apply(self, g: Matrix, z: Vectors) -> Vectors:
        """rho(g) z, for one vector or a batch of rows."""
        return z @ self(g).T

    def listed(self) -> Float[np.ndarray, "order k k"]:
        """rho at every element, made afresh; `matrices()` remembers them."""
        assert isinstance(self.group, Finite)
        return np.stack([np.asarray(self(g)) for g in self.group.elements()])

    def matrices(self) -> Float[np.ndarray, "order k k"]:
        """rho at every element of a finite group, in the order of `group.elements()`."""
        return _matrices(self)

    def orbits(self) -> Signed:
        """The orbit of each coordinate, −1 where only zero is fixed, and its sign: the tied parameters."""
        found = _signed_generators(self)
        if found is None:
            raise Refusal(f"{self} does more than permute and flip coordinates. Write `fixed_basis()` instead.")
        return fixed.orbits(*found)

    def fixed_basis(self) -> Float[np.ndarray, "k m"]:
        """An orthonormal basis, in columns, of the vectors that the group fixes."""
        return _fixed_basis(self)

    def fixed_projector(self) -> Float[np.ndarray, "k k"]:
        """The orthogonal projector on the vectors that the group fixes: the Haar average of rho."""
        return _fixed_projector(self)

    def project(self, z: Vectors) -> Vectors:
        """P z for one vector or a batch of rows, without forming the projector."""
        basis = self.fixed_basis()
        return (z @ basis) @ basis.T

    @property
    def dual(self) -> "Rep":
        """The dual, rho(g)^{-T}: for orthogonal matrices, the representation itself."""
        return self

    def hom(self, other: "Rep") -> "Rep":
        """Matrices z (dim other × dim self), row-major, moved as z -> other(g) z self(g)^{-1}."""
        return a_rep("hom", other) * self.dual

    def __add__(self, other: "Rep") -> "Rep":
        return Sum(one_group("A sum", self, other), self, other)

    def __mul__(self, other: "Rep | int") -> "Rep":
        if not isinstance(other, Rep):
            return self.__rmul__(other)
        return Tensor(one_group("A product", self, other), self, other)

    def __rmul__(self, times: int) -> "Rep":
        return self if whole(times) == 1 else Fixed(self.group, times) * self

    def __pow__(self, power: int) -> "Rep":
        return self if whole(power) == 1 else self * self ** (power - 1)


class Fixed(Rep):
    """The trivial representation on R^k: nothing moves."""

    k: int = static(converter=whole, default=1)

    proven: ClassVar[bool] = True

    @property
    def dim(self):
        return self.k

    def __call__(self, g: Matrix) -> Matrix:
        return jnp.eye(self.k, dtype=g.dtype) if isinstance(g, jax.Array) else np.eye(self.k)

    def derivative(self, a):
        return np.zeros((self.k, self.k))

    def signed(self, g):
        return np.arange(self.k), np.ones(self.k)

    def character(self, g):
        return float(self.k)

    def apply(self, g: Matrix, z: Vectors) -> Vectors:
        return z

    def __repr__(self):
        return f"trivial({self.group}, {self.k})"

    @classmethod
    def examples(cls):
        return [cls(Symmetric(3), 2), cls(SpecialOrthogonal(2), 1)]


class Natural(Rep):
    """The representation by the group's own matrices."""

    proven: ClassVar[bool] = True

    @property
    def dim(self):
        return self.group.dim

    def __call__(self, g: Matrix) -> Matrix:
        return g if isinstance(g, jax.Array) else np.asarray(g, np.float64)

    def derivative(self, a):
        return np.array(a, np.float64)

    def __repr__(self):
        return f"natural({self.group})"

    @classmethod
    def examples(cls):
        return [cls(Cyclic(3)), cls(Dihedral(3)), cls(Hyperoctahedral(2)), cls(SpecialOrthogonal(3))]


class Sum(Rep):
    """Two representations side by side: block-diagonal matrices."""

    a: Rep = static()
    b: Rep = static()

    proven: ClassVar[bool] = True

    @property
    def dim(self):
        return self.a.dim + self.b.dim

    def __call__(self, g: Matrix) -> Matrix:
        if isinstance(g, jax.Array):
            return jax.scipy.linalg.block_diag(self.a(g), self.b(g))
        return blocks(np.asarray(self.a(g)), np.asarray(self.b(g)))

    def derivative(self, a):
        return blocks(self.a.derivative(a), self.b.derivative(a))

    def signed(self, g):
        a, b = self.a.signed(g), self.b.signed(g)
        if a is None or b is None:
            return None
        return np.concatenate([a[0], self.a.dim + b[0]]), np.concatenate([a[1], b[1]])

    def character(self, g):
        return self.a.character(g) + self.b.character(g)

    def apply(self, g: Matrix, z: Vectors) -> Vectors:
        parts = self.a.apply(g, z[..., : self.a.dim]), self.b.apply(g, z[..., self.a.dim :])
        numpy = all(isinstance(part, np.ndarray) for part in parts)
        return (np if numpy else jnp).concatenate(parts, axis=-1)

    def __repr__(self):
        return f"({self.a} + {self.b})"

    @classmethod
    def examples(cls):
        s, d = natural(Symmetric(3)), natural(Dihedral(4))
        return [
            s + trivial(s.group, 2),
            d + d**2,
            natural(SpecialOrthogonal(2)) + trivial(SpecialOrthogonal(2)),
        ]


class Tensor(Rep):
    """The product of two representations: Kronecker products, on row-major matrices (dim a × dim b)."""

    a: Rep = static()
    b: Rep = static()

    proven: ClassVar[bool] = True

    @property
    def dim(self):
        return self.a.dim * self.b.dim

    def __call__(self, g: Matrix) -> Matrix:
        a, b = self.a(g), self.b(g)
        return (a[:, None, :, None] * b[None, :, None, :]).reshape(self.dim, self.dim)

    def derivative(self, a):
        left, right = self.a.derivative(a), self.b.derivative(a)
        return np.kron(left, np.eye(self.b.dim)) + np.kron(np.eye(self.a.dim), right)

    def signed(self, g):
        a, b = self.a.signed(g), self.b.signed(g)
        if a is None or b is None:
            return None
        return (a[0][:, None] * self.b.dim + b[0][None]).ravel(), (a[1][:, None] * b[1][None]).ravel()

    def character(self, g):
        return self.a.character(g) * self.b.character(g)

    def apply(self, g: Matrix, z: Vectors) -> Vectors:
        """a(g) Z b(g)^T, on the matrix Z of each row."""
        turned = self.b.apply(g, z.reshape(*z.shape[:-1], self.a.dim, self.b.dim))
        return self.a.apply(g, turned.swapaxes(-1, -2)).swapaxes(-1, -2).reshape(z.shape)

    def __repr__(self):
        return f"{self.a} * {self.b}"

    @classmethod
    def examples(cls):
        s, o = natural(Symmetric(3)), natural(SpecialOrthogonal(3))
        return [s.hom(s + trivial(s.group)), 2 * natural(Dihedral(3)), o**2, natural(Hyperoctahedral(2)) ** 2]


def trivial(group: Group, k: int = 1) -> Rep:
    """The representation on R^k that moves nothing."""
    return Fixed(group, k)


def natural(group: Group) -> Rep:
    """The representation of a group by its own matrices."""
    return Natural(group)


def character_dimension(rep: Rep) -> int:
    """The dimension of the fixed space by the character formula: the Haar average of the trace."""
    weight = max((np.linalg.norm(rep.derivative(a), np.inf) for a in rep.group.lie_algebra()), default=0.0)
    elements, shares = rep.group.classes(math.ceil(weight - 1e-6))
    mean = math.fsum(share * rep.character(g) for g, share in zip(elements, shares, strict=True))
    if abs(mean - round(mean)) > 1e-6:
        raise Refusal(f"The mean character of a representation is a whole number; got {mean:.8f} for {rep}.")
    return round(mean)


def check(rep: Rep) -> None:
    """Refuse matrices that are not orthogonal or do not keep products, at a few elements and their words."""
    probes = rep.group.probes()
    images = [np.asarray(rep(g)) for g in probes]
    shapes = {image.shape for image in images}
    if shapes != {(rep.dim, rep.dim)}:
        raise Refusal(f"A representation on R^{rep.dim} gives matrices {rep.dim} × {rep.dim}; got {shapes}.")
    refuse_skewed(np.stack(images))
    pairs = list(zip(probes, images, strict=True))
    refuse_broken(rep.group, max(largest(np.asarray(rep(g @ h)) - a @ b) for g, a in pairs for h, b in pairs))


def a_rep(owner: str, thing) -> Rep:
    """The thing itself, where it is a representation."""
    if not isinstance(thing, Rep):
        got = f"the group {thing}" if isinstance(thing, Group) else f"a {type(thing).__name__}"
        raise Refusal(
            f"{owner} takes a representation of a group; got {got}. Write for instance `natural(group)`, "
            "`trivial(group, k)` or `represent(group, ...)`."
        )
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


def _signed_generators(rep: Rep) -> tuple[np.ndarray, np.ndarray] | None:
    """The signed permutations of the generators; None when there is anything else to the group."""
    found = [rep.signed(g) for g in rep.group.generators()]
    if len(rep.group.lie_algebra()) or any(move is None for move in found):
        return None
    moves = [move for move in found if move is not None] or [(np.arange(rep.dim), np.ones(rep.dim))]
    return np.stack([images for images, _ in moves]), np.stack([signs for _, signs in moves])


@lru_cache(maxsize=32)
def _matrices(rep: Rep) -> Float[np.ndarray, "order k k"]:
    refuse_infinite("The list of matrices", rep.group)
    assert isinstance(rep.group, Finite)
    fits(f"The list of matrices of {rep}", rep.group.order, rep.dim, rep.dim)
    return readonly(rep.listed())


@lru_cache(maxsize=64)
def _fixed_basis(rep: Rep) -> Float[np.ndarray, "k m"]:
    found = _signed_generators(rep)
    if found is not None:
        return readonly(fixed.orbit_basis(*fixed.orbits(*found)))
    fits(f"A matrix of {rep}", rep.dim, rep.dim)
    moves = (np.asarray(rep(g)) - np.eye(rep.dim) for g in rep.group.generators())
    turns = (rep.derivative(a) for a in _generic_first(rep.group.lie_algebra()))
    return readonly(fixed.null_basis(chain(turns, moves), rep.dim))


def _generic_first(lie: Float[np.ndarray, "l d d"]) -> Iterator[Float[np.ndarray, "d d"]]:
    """The basis after one element in general position, which leaves few vectors for the others to test."""
    if len(lie) > 1:
        yield np.tensordot(np.cos(1.0 + np.arange(len(lie))), lie, 1)
    yield from lie


@lru_cache(maxsize=32)
def _fixed_projector(rep: Rep) -> Float[np.ndarray, "k k"]:
    fits(f"The projector of {rep}", rep.dim, rep.dim)
    basis = rep.fixed_basis()
    return readonly(basis @ basis.T)
