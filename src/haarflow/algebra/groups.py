"""What acts: compact groups of orthogonal matrices, with exactly Haar draws."""

import abc
import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt
from scipy.linalg import block_diag, expm

from haarflow.algebra.tables import (
    Constant,
    closure,
    fits,
    match,
    permutation_matrices,
    readonly,
    static,
    whole,
)
from haarflow.algebra.torus import torus
from haarflow.errors import Refusal

Key = PRNGKeyArray | UInt[Array, "2"]
Matrix = Float[Array | np.ndarray, "d d"]
Classes = tuple[Float[np.ndarray, "q d d"], Float[np.ndarray, " q"]]


class Group(Constant):
    """A compact group of orthogonal matrices d × d; `generators()` and `lie_algebra()` together generate it."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The size d of the natural matrices."""

    @abc.abstractmethod
    def haar(self, key: Key, n: int) -> Float[Array, "n d d"]:
        """n independent draws, exactly Haar."""

    @abc.abstractmethod
    def generators(self) -> Float[np.ndarray, "m d d"]:
        """Finitely many elements that generate the group together with the exponentials of its Lie algebra."""

    def lie_algebra(self) -> Float[np.ndarray, "l d d"]:
        """A basis of the Lie algebra, skew matrices; empty for finite groups."""
        return np.zeros((0, self.dim, self.dim))

    @abc.abstractmethod
    def classes(self, degree: int) -> Classes:
        """Elements and weights that integrate every class function of weights up to the degree exactly."""

    @classmethod
    @abc.abstractmethod
    def examples(cls) -> list["Group"]:
        """Small lopsided members, on which the laws are tested."""

    def probes(self) -> Float[np.ndarray, "m d d"]:
        """A few elements in float64 on which representations are checked: generators, flows, and their words."""
        lie = self.lie_algebra()
        flows = [
            expm(np.tensordot(np.cos(1.0 + c + np.arange(len(lie))), lie, 1))
            for c in range(2 * bool(len(lie)))
        ]
        letters = [*self.generators()[:4], *flows]
        words = [a @ b for a, b in zip(letters, [*letters[1:], *letters[:1]], strict=True)]
        return np.stack([np.eye(self.dim), *letters, *words])

    def __mul__(self, other: "Group") -> "Group":
        return product(self, other)


class Finite(Group):
    """A finite group: its elements can be listed, identity first, while the list fits in memory."""

    @property
    @abc.abstractmethod
    def order(self) -> int:
        """The number of elements."""

    def listed(self) -> Float[np.ndarray, "order d d"]:
        """The elements, identity first, made afresh; `elements()` remembers them."""
        found = closure(self.generators(), self.order)
        if found is None or len(found) != self.order:
            raise Refusal(
                f"{self} has {self.order} elements by its formula; its generators make another number."
            )
        return found

    def elements(self) -> Float[np.ndarray, "order d d"]:
        """All elements in float64, identity first."""
        return _elements(self)

    def index(self, g: Matrix) -> Int[Array, ""] | int:
        """The position of g among the elements; under jit, of the element nearest to g."""
        if isinstance(g, jax.Array):
            gaps = jnp.asarray(self.elements(), g.dtype) - g[None]
            return jnp.argmin(jnp.sum(gaps**2, axis=(1, 2)))
        found = int(match(self.elements(), np.asarray(g, np.float64)[None], tol=1e-6)[0])
        if found < 0:
            raise Refusal(f"{self} acts through its own elements; got a matrix that is none of them:\n{g}")
        return found

    def haar(self, key, n):
        return jnp.asarray(self.elements())[jax.random.randint(key, (n,), 0, self.order)]

    def classes(self, degree):
        return self.elements(), np.full(self.order, 1.0 / self.order)


@lru_cache(maxsize=32)
def _elements(group: Finite) -> Float[np.ndarray, "order d d"]:
    fits(f"The list of elements of {group}", group.order, group.dim, group.dim)
    return readonly(group.listed())


class Trivial(Finite):
    """The identity of R^n alone."""

    n: int = static(converter=whole)

    dim = property(lambda self: self.n)
    order = property(lambda self: 1)

    def generators(self):
        return np.zeros((0, self.n, self.n))

    @classmethod
    def examples(cls):
        return [cls(1), cls(3)]


class Cyclic(Finite):
    """C_n, shifting the n coordinates of R^n."""

    n: int = static(converter=whole)

    dim = property(lambda self: self.n)
    order = property(lambda self: self.n)

    def generators(self):
        return np.roll(np.eye(self.n), 1, axis=0)[None]

    def listed(self):
        return np.stack([np.roll(np.eye(self.n), s, axis=0) for s in range(self.n)])

    @classmethod
    def examples(cls):
        return [cls(1), cls(3), cls(4)]


class Rotations(Finite):
    """C_n, turning the plane by multiples of 2π/n."""

    n: int = static(converter=whole)

    dim = property(lambda self: 2)
    order = property(lambda self: self.n)

    def generators(self):
        return _turns(np.array([1.0]), self.n)

    def listed(self):
        return _turns(np.arange(self.n), self.n)

    @classmethod
    def examples(cls):
        return [cls(2), cls(4), cls(5)]


class Dihedral(Finite):
    """D_n, the 2n rotations by 2π/n and reflections of the plane; generated by a rotation and diag(1, −1)."""

    n: int = static(converter=whole)

    dim = property(lambda self: 2)
    order = property(lambda self: 2 * self.n)

    def generators(self):
        return np.concatenate([_turns(np.array([1.0]), self.n), np.diag([1.0, -1.0])[None]])

    def listed(self):
        turns = _turns(np.arange(self.n), self.n)
        return np.concatenate([turns, turns @ np.diag([1.0, -1.0])])

    @classmethod
    def examples(cls):
        return [cls(1), cls(3), cls(4)]


class Symmetric(Finite):
    """S_n, permuting the n coordinates of R^n; generated by the swap (0 1) and the shift."""

    n: int = static(converter=whole)

    dim = property(lambda self: self.n)
    order = property(lambda self: math.factorial(self.n))

    def generators(self):
        return permutation_matrices(_swap_and_shift(self.n))

    def haar(self, key, n):
        return jax.vmap(lambda k: jax.random.permutation(k, jnp.eye(self.n)))(jax.random.split(key, n))

    def classes(self, degree):
        """One element for each cycle type, weighted by the share of its class."""
        from sympy.utilities.iterables import partitions

        kinds = [dict(kind) for kind in partitions(self.n)]
        fits(f"The list of classes of {self}", len(kinds), self.n, self.n)
        shifts = [
            [np.roll(np.eye(s), 1, axis=0) for s, c in kind.items() for _ in range(c)] for kind in kinds
        ]
        sizes = [math.prod(s**c * math.factorial(c) for s, c in kind.items()) for kind in kinds]
        return np.stack([block_diag(*blocks) for blocks in shifts]), np.array([1 / size for size in sizes])

    @classmethod
    def examples(cls):
        return [cls(1), cls(2), cls(3), cls(4)]


class Alternating(Finite):
    """A_n, the even permutations of the n coordinates of R^n; generated by (0 1 2) and a longest odd cycle."""

    n: int = static(converter=whole)

    dim = property(lambda self: self.n)
    order = property(lambda self: max(1, math.factorial(self.n) // 2))

    def generators(self):
        if self.n < 3:
            return np.zeros((0, self.n, self.n))
        first = self.n % 2 == 0
        long = [*range(first), *np.roll(np.arange(first, self.n), -1)]
        return permutation_matrices(np.array([[1, 2, 0, *range(3, self.n)], long])[: 1 + (self.n > 3)])

    def haar(self, key, n):
        if self.n < 3:
            return jnp.broadcast_to(jnp.eye(self.n), (n, self.n, self.n))
        draws = Symmetric(self.n).haar(key, n)
        swapped = draws[:, jnp.array([1, 0, *range(2, self.n)])]
        return jnp.where(jnp.linalg.det(draws)[:, None, None] > 0, draws, swapped)

    @classmethod
    def examples(cls):
        return [cls(2), cls(3), cls(4)]


class Signs(Finite):
    """The 2^n changes of sign of the n coordinates of R^n."""

    n: int = static(converter=whole)

    dim = property(lambda self: self.n)
    order = property(lambda self: 2**self.n)

    def generators(self):
        return np.eye(self.n)[None] - 2 * np.eye(self.n)[:, :, None] * np.eye(self.n)[:, None, :]

    def haar(self, key, n):
        return jax.vmap(jnp.diag)(jax.random.rademacher(key, (n, self.n), dtype=jnp.eye(1).dtype))

    @classmethod
    def examples(cls):
        return [cls(1), cls(3)]


class Hyperoctahedral(Finite):
    """B_n, the signed permutations of the n coordinates of R^n; generated by a swap, the shift and one sign."""

    n: int = static(converter=whole)

    dim = property(lambda self: self.n)
    order = property(lambda self: 2**self.n * math.factorial(self.n))

    def generators(self):
        return np.concatenate([Symmetric(self.n).generators(), Signs(self.n).generators()[:1]])

    def haar(self, key, n):
        signs, places = jax.random.split(key)
        return Signs(self.n).haar(signs, n) @ Symmetric(self.n).haar(places, n)

    @classmethod
    def examples(cls):
        return [cls(1), cls(2), cls(3)]


class Orthogonal(Group):
    """O(n), all orthogonal matrices of R^n."""

    n: int = static(converter=whole)

    dim = property(lambda self: self.n)

    def haar(self, key, n):
        q, r = jnp.linalg.qr(jax.random.normal(key, (n, self.n, self.n)))
        signs = jnp.where(jnp.diagonal(r, axis1=1, axis2=2) < 0, -1.0, 1.0)
        return q * signs[:, None, :].astype(q.dtype)

    def generators(self):
        return Signs(self.n).generators()[:1]

    def lie_algebra(self):
        return SpecialOrthogonal(self.n).lie_algebra()

    def classes(self, degree):
        parts = [torus(self.n, degree, sign) for sign in (1, -1)]
        return np.concatenate([e for e, _ in parts]), np.concatenate([w / 2 for _, w in parts])

    def grid(self, n: int) -> Float[np.ndarray, "m 2 2"]:
        """The n equispaced rotations of the plane and their reflections."""
        _in_the_plane(self)
        return Dihedral(n).elements()

    @classmethod
    def examples(cls):
        return [cls(1), cls(2), cls(3)]


class SpecialOrthogonal(Group):
    """SO(n), the rotations of R^n."""

    n: int = static(converter=whole)

    dim = property(lambda self: self.n)

    def haar(self, key, n):
        """Haar on O(n), then the first column times the determinant: this commutes with left rotation."""
        draws = Orthogonal(self.n).haar(key, n)
        signs = jnp.where(jnp.linalg.det(draws) < 0, -1.0, 1.0).astype(draws.dtype)
        return draws.at[:, :, 0].multiply(signs[:, None])

    def generators(self):
        return np.zeros((0, self.n, self.n))

    def lie_algebra(self):
        rows, columns = np.triu_indices(self.n, 1)
        basis = np.zeros((len(rows), self.n, self.n))
        basis[np.arange(len(rows)), columns, rows] = 1.0
        return basis - np.swapaxes(basis, 1, 2)

    def classes(self, degree):
        return torus(self.n, degree, 1)

    def grid(self, n: int) -> Float[np.ndarray, "n 2 2"]:
        """The n equispaced rotations of the plane: exact averages once n exceeds the largest weight."""
        _in_the_plane(self)
        return Rotations(n).elements()

    @classmethod
    def examples(cls):
        return [cls(2), cls(3), cls(4)]


class Pair(Group):
    """The direct product of two groups: block-diagonal matrices on the sum of the two spaces."""

    a: Group = static()
    b: Group = static()

    dim = property(lambda self: self.a.dim + self.b.dim)

    def haar(self, key, n):
        left, right = jax.random.split(key)
        pairs = self.a.haar(left, n), self.b.haar(right, n)
        return jax.vmap(jax.scipy.linalg.block_diag)(*pairs)

    def generators(self):
        return self._blocks(self.a.generators(), self.b.generators(), np.eye)

    def lie_algebra(self):
        return self._blocks(self.a.lie_algebra(), self.b.lie_algebra(), lambda d: np.zeros((d, d)))

    def classes(self, degree):
        (left, u), (right, v) = self.a.classes(degree), self.b.classes(degree)
        return np.stack([block_diag(g, h) for g in left for h in right]), np.outer(u, v).ravel()

    def part(self, g: Matrix, side: int) -> Float[Array | np.ndarray, "_ _"]:
        """The factor of g in the first (0) or the second (1) group."""
        return g[self.a.dim :, self.a.dim :] if side else g[: self.a.dim, : self.a.dim]

    def _blocks(self, left, right, rest):
        rows = [block_diag(g, rest(self.b.dim)) for g in left] + [
            block_diag(rest(self.a.dim), h) for h in right
        ]
        return np.stack(rows) if rows else np.zeros((0, self.dim, self.dim))


class Product(Pair, Finite):
    """The direct product of two finite groups, block-diagonal; `a * b` makes the right product of any two."""

    order = property(lambda self: self.a.order * self.b.order)

    def __check_init__(self):
        if not (isinstance(self.a, Finite) and isinstance(self.b, Finite)):
            raise Refusal(f"Product is of finite groups; got {self.a} and {self.b}. Write `product(a, b)`.")

    def listed(self):
        return np.stack([block_diag(g, h) for g in self.a.elements() for h in self.b.elements()])

    @classmethod
    def examples(cls):
        return [cls(Cyclic(2), Symmetric(3)), cls(Signs(1), Rotations(3))]


class InfiniteProduct(Pair):
    """The direct product of two groups of which one at least is infinite."""

    @classmethod
    def examples(cls):
        return [cls(Symmetric(2), SpecialOrthogonal(3))]


def product(a: Group, b: Group) -> Group:
    """The direct product, block-diagonal on the sum of the two spaces."""
    finite = isinstance(a, Finite) and isinstance(b, Finite)
    return Product(a, b) if finite else InfiniteProduct(a, b)


def _swap_and_shift(n: int) -> Int[np.ndarray, "m n"]:
    swap, shift = [1, 0, *range(2, n)], [*range(1, n), 0]
    return np.array([swap, shift])[: min(n - 1, 2)] if n > 1 else np.zeros((0, 1), int)


def _turns(steps: Float[np.ndarray, " m"] | Int[np.ndarray, " m"], n: int) -> Float[np.ndarray, "m 2 2"]:
    """Rotations by 2π steps/n, exact where the entries are 0, ±1/2 or ±1."""
    angles = 2 * np.pi * steps / n
    c, s = (
        np.where(np.abs(2 * v - np.round(2 * v)) < 1e-14, np.round(2 * v) / 2, v)
        for v in (np.cos(angles), np.sin(angles))
    )
    return np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2) + 0.0


def _in_the_plane(group: Group) -> None:
    if group.dim != 2:
        raise Refusal(
            f"A grid of equispaced rotations is for the plane; got {group}. Draw `haar(key, n)` instead."
        )
