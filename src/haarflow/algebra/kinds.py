"""The kinds of groups: compact, and finite."""

import abc
from collections.abc import Sequence
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt

from haarflow.algebra.checks import fits
from haarflow.algebra.tables import Constant, closure, match, readonly
from haarflow.errors import Refusal

Key = PRNGKeyArray | UInt[Array, "2"]
Matrix = Float[Array, "_ _"] | Float[np.ndarray, "_ _"]
Classes = tuple[Float[np.ndarray, "q d d"], Float[np.ndarray, " q"]]


class Group(Constant):
    """A compact group of orthogonal matrices d × d, made by its generators and its Lie algebra together."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The size d of the natural matrices."""

    @abc.abstractmethod
    def haar(self, key: Key, n: int) -> Float[Array, "n d d"]:
        """n independent draws, exactly Haar."""

    @abc.abstractmethod
    def generators(self) -> Float[np.ndarray, "m d d"]:
        """Finitely many elements that make the group, with the exponentials of its Lie algebra."""

    def lie_algebra(self) -> Float[np.ndarray, "l d d"]:
        """A basis of the Lie algebra, skew matrices; empty for finite groups."""
        return np.zeros((0, self.dim, self.dim))

    @abc.abstractmethod
    def classes(self, degree: int) -> Classes:
        """Elements and weights that integrate every class function of weights up to the degree exactly."""

    @classmethod
    @abc.abstractmethod
    def examples(cls) -> Sequence["Group"]:
        """Small lopsided members, on which the laws are tested."""

    def probes(self) -> Float[np.ndarray, "m d d"]:
        """A few elements on which representations are checked: generators, flows, and words in them."""
        lie = self.lie_algebra()
        speeds = np.cos(1.0 + np.arange(2 * len(lie))).reshape(-1, len(lie)) if len(lie) else []
        flows = [np.asarray(scipy.linalg.expm(np.tensordot(speed, lie, 1))) for speed in speeds]
        letters = [*self.generators()[:4], *flows]
        words = [a @ b for a, b in zip(letters, letters[1:] + letters[:1], strict=True)]
        return np.stack([np.eye(self.dim), *letters, *words])

    def __mul__(self, other: "Group") -> "Group":
        from haarflow.algebra.products import product

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
            raise Refusal(f"{self} says it has {self.order} elements; its generators make another number.")
        return found

    def elements(self) -> Float[np.ndarray, "order d d"]:
        """All elements in float64, identity first."""
        return _elements(self)

    def index(self, g: Matrix) -> Int[Array, ""] | int:
        """The position of g among the elements; for a JAX array, that of the nearest element."""
        if isinstance(g, jax.Array):
            gaps = jnp.asarray(self.elements(), g.dtype) - g[None]
            return jnp.argmin(jnp.sum(gaps**2, axis=(1, 2)))
        found = int(match(self.elements(), np.asarray(g, np.float64)[None], tol=1e-6)[0])
        if found < 0:
            raise Refusal(f"{self} acts through its own elements; got a matrix that is none of them:\n{g}")
        return found

    def haar(self, key: Key, n: int) -> Float[Array, "n d d"]:
        return jnp.asarray(self.elements())[jax.random.randint(key, (n,), 0, self.order)]

    def classes(self, degree: int) -> Classes:
        return self.elements(), np.full(self.order, 1.0 / self.order)


@lru_cache(maxsize=32)
def _elements(group: Finite) -> Float[np.ndarray, "order d d"]:
    fits(f"The list of elements of {group}", group.order, group.dim, group.dim)
    return readonly(group.listed())
