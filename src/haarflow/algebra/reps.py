"""How a group acts on R^k: orthogonal representations, their algebra, and the vectors they fix."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Int

from haarflow.algebra import checks, fixed, proofs
from haarflow.algebra.cache import remembered
from haarflow.algebra.checks import affordable, fits, largest
from haarflow.algebra.groups import Cyclic, Dihedral, Hyperoctahedral, SpecialOrthogonal, Symmetric
from haarflow.algebra.kinds import NEAR, Finite, Group, Matrix, a_group, element, finite
from haarflow.algebra.tables import Constant, blocks, readonly, signed_permutation, static
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

    instead: ClassVar[str] = "Write for instance `natural(group)`, `trivial(group, k)` or `represent(group, ...)`."

    proven: ClassVar[bool] = False
    """True where products are kept by construction; every other representation is checked when made."""

    __array_ufunc__: ClassVar[None] = None
    """An array times a representation is no array of representations: it asks `__rmul__`, which refuses it."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The size k of the matrices."""

    @abc.abstractmethod
    def matrix(self, g: Matrix) -> Matrix:
        """rho(g), (k, k), of a g that is an element for certain; `rep(g)` looks whether it is one."""

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
        """rho(g) z, for one vector or a batch of rows."""
        return self.moved(element(self.group, g), self._rows("apply", z))

    @door
    def signed(self, g: Any) -> Signed | None:
        """Images p and signs s when rho(g) sends e_i to s_i e_{p(i)}; None otherwise."""
        return self.images(np.asarray(element(self.group, g)))

    def permutation(self, g: Any) -> Int[np.ndarray, " k"]:
        """The images p of a rho(g) that sends e_i to e_{p(i)}."""
        found = self.signed(g)
        if found is None or np.any(found[1] < 0):
            raise Refusal(f"{self} does not permute the coordinates here. Write `rep(g)` for the matrix.")
        return found[0]

    @door
    def character(self, g: Any) -> float:
        """The trace of rho(g)."""
        return self.trace(np.asarray(element(self.group, g)))

    def derivative(self, a: Any) -> Float[np.ndarray, "k k"]:
        """The representation of the Lie algebra: the derivative of rho(exp(t a)) at t = 0."""
        return self.turning(_tangent(self.group, a))

    def moved(self, g: Matrix, z: Vectors) -> Vectors:
        """What `apply` gives, for an element and rows of the right size."""
        return z @ self.matrix(g).T

    def images(self, g: Float[np.ndarray, "d d"]) -> Signed | None:
        """What `signed` gives, for an element."""
        return signed_permutation(np.asarray(self.matrix(g)))

    def trace(self, g: Float[np.ndarray, "d d"]) -> float:
        """What `character` gives, for an element."""
        return float(np.trace(np.asarray(self.matrix(g))))

    def turning(self, a: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "k k"]:
        """What `derivative` gives, for an element of the Lie algebra."""
        step = 1e-3
        near = self.matrix(np.asarray(scipy.linalg.expm(step * a)))
        log = np.real(np.asarray(scipy.linalg.logm(near))) / step
        return (log - log.T) / 2

    def sized(self, image: Matrix) -> Matrix:
        """The image itself, where it is a matrix k × k."""
        if np.shape(image) != (self.dim, self.dim):
            raise Refusal(
                f"A representation on R^{self.dim} gives matrices {self.dim} × {self.dim}; got the shape "
                f"{np.shape(image)}. Write the size of rho(g) as `dim=`."
            )
        return image

    def listed(self) -> Float[np.ndarray, "order k k"]:
        """rho at every element, made afresh; `matrices()` remembers them."""
        assert isinstance(self.group, Finite)
        return np.stack([np.asarray(self.sized(self.matrix(g))) for g in self.group.elements()])

    def matrices(self) -> Float[np.ndarray, "order k k"]:
        """rho at every element of a finite group, in the order of `group.elements()`."""
        return _matrices(self)

    def orbits(self) -> Signed:
        """The orbit of each coordinate, −1 where only zero is fixed, and its sign: the tied parameters."""
        found = fixed.signed_generators(self)
        if found is None:
            raise Refusal(f"{self} does more than permute and flip coordinates. Write `fixed_basis()` instead.")
        return fixed.orbits(*found)

    def fixed_basis(self) -> Float[np.ndarray, "k m"]:
        """An orthonormal basis, in columns, of the vectors that the group fixes."""
        return fixed.basis(self)

    def fixed_projector(self) -> Float[np.ndarray, "k k"]:
        """The orthogonal projector on the vectors that the group fixes: the Haar average of rho."""
        return fixed.projector(self)

    def project(self, z: Any) -> Vectors:
        """P z for one vector or a batch of rows, without forming the projector."""
        z, basis = self._rows("project", z), self.fixed_basis()
        return (z @ basis) @ basis.T

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
        return self if copies == 1 else Fixed(self.group, copies) * self

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


class Fixed(Rep):
    """The trivial representation on R^k: nothing moves."""

    k: int = static(converter=checks.whole, default=1)

    proven: ClassVar[bool] = True

    @property
    def dim(self):
        return self.k

    def matrix(self, g: Matrix) -> Matrix:
        return jnp.eye(self.k, dtype=g.dtype) if isinstance(g, jax.Array) else np.eye(self.k)

    def turning(self, a):
        return np.zeros((self.k, self.k))

    def images(self, g):
        return np.arange(self.k), np.ones(self.k)

    def trace(self, g):
        return float(self.k)

    def moved(self, g: Matrix, z: Vectors) -> Vectors:
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

    def matrix(self, g: Matrix) -> Matrix:
        return g if isinstance(g, jax.Array) else np.asarray(g, np.float64)

    def turning(self, a):
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

    @property
    def sampled(self):
        return self.a.sampled or self.b.sampled

    def matrix(self, g: Matrix) -> Matrix:
        if isinstance(g, jax.Array):
            return jax.scipy.linalg.block_diag(self.a.matrix(g), self.b.matrix(g))
        return blocks(np.asarray(self.a.matrix(g)), np.asarray(self.b.matrix(g)))

    def turning(self, a):
        return blocks(self.a.turning(a), self.b.turning(a))

    def images(self, g):
        a, b = self.a.images(g), self.b.images(g)
        if a is None or b is None:
            return None
        return np.concatenate([a[0], self.a.dim + b[0]]), np.concatenate([a[1], b[1]])

    def trace(self, g):
        return self.a.trace(g) + self.b.trace(g)

    def moved(self, g: Matrix, z: Vectors) -> Vectors:
        parts = self.a.moved(g, z[..., : self.a.dim]), self.b.moved(g, z[..., self.a.dim :])
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

    @property
    def sampled(self):
        return self.a.sampled or self.b.sampled

    def matrix(self, g: Matrix) -> Matrix:
        a, b = self.a.matrix(g), self.b.matrix(g)
        return (a[:, None, :, None] * b[None, :, None, :]).reshape(self.dim, self.dim)

    def turning(self, a):
        left, right = self.a.turning(a), self.b.turning(a)
        return np.kron(left, np.eye(self.b.dim)) + np.kron(np.eye(self.a.dim), right)

    def images(self, g):
        a, b = self.a.images(g), self.b.images(g)
        if a is None or b is None:
            return None
        return (a[0][:, None] * self.b.dim + b[0][None]).ravel(), (a[1][:, None] * b[1][None]).ravel()

    def trace(self, g):
        return self.a.trace(g) * self.b.trace(g)

    def moved(self, g: Matrix, z: Vectors) -> Vectors:
        """a(g) Z b(g)^T, on the matrix Z of each row."""
        turned = self.b.moved(g, z.reshape(*z.shape[:-1], self.a.dim, self.b.dim))
        return self.a.moved(g, turned.swapaxes(-1, -2)).swapaxes(-1, -2).reshape(z.shape)

    def __repr__(self):
        return f"{self.a} * {self.b}"

    @classmethod
    def examples(cls):
        s, o = natural(Symmetric(3)), natural(SpecialOrthogonal(3))
        return [s.hom(s + trivial(s.group)), 2 * natural(Dihedral(3)), o**2, natural(Hyperoctahedral(2)) ** 2]


@door
def trivial(group: Group, k: Count = 1) -> Rep:
    """The representation on R^k that moves nothing."""
    return Fixed(group, k)


@door
def natural(group: Group) -> Rep:
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
def _matrices(rep: Rep) -> Float[np.ndarray, "order k k"]:
    group = finite("The list of matrices", rep.group, "Draw `group.haar(key, n)`, and write `rep(g)` for each.")
    fits(f"The list of matrices of {rep}", group.order, rep.dim, rep.dim)
    return readonly(rep.listed())


def _tangent(group: Group, a) -> Float[np.ndarray, "d d"]:
    """The matrix a, where it belongs to the group's Lie algebra."""
    a, lie = numbers("derivative's a", a, numpy=True), group.lie_algebra()
    flat = lie.reshape(len(lie), group.dim**2)
    if a.shape == (group.dim, group.dim):
        near = flat.T @ np.linalg.solve(flat @ flat.T, flat @ a.ravel())
        if largest(near - a.ravel()) <= NEAR * max(1.0, largest(a)):
            return a
    raise Refusal(
        f"The derivative of a representation of {group} is taken along its Lie algebra; got "
        f"{said(a)}. Write a combination of `group.lie_algebra()`, which holds {len(lie)} matrices."
    )
