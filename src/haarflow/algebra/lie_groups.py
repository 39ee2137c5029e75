"""O(n) and SO(n): infinite groups, with a Lie algebra, exact integrals over their tori, and grids of the plane."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from haarflow.algebra.base import Group
from haarflow.algebra.checks import affordable, whole
from haarflow.algebra.groups import Dihedral, PlanarRotations, first_sign
from haarflow.algebra.tables import static
from haarflow.algebra.torus import torus, torus_size
from haarflow.errors import Refusal


class Orthogonal(Group):
    """O(n), all orthogonal matrices of R^n."""

    n: int = static(converter=whole)

    @property
    def dim(self):
        return self.n

    def draws(self, key, n):
        q, r = jnp.linalg.qr(jax.random.normal(key, (n, self.n, self.n)))
        signs = jnp.where(jnp.diagonal(r, axis1=1, axis2=2) < 0, -1.0, 1.0)
        return q * signs[:, None, :].astype(q.dtype)

    def generators(self):
        return first_sign(self.n)

    def lie_algebra(self):
        return SpecialOrthogonal(self.n).lie_algebra()

    def classes(self, degree):
        parts = [torus(self.n, degree, sign) for sign in (1, -1)]
        return np.concatenate([e for e, _ in parts]), np.concatenate([w / 2 for _, w in parts])

    def count_classes(self, degree):
        return sum(torus_size(self.n, degree, sign) for sign in (1, -1))

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

    @property
    def dim(self):
        return self.n

    def draws(self, key, n):
        """Haar on O(n), then the first column times the determinant: this commutes with left rotation."""
        draws = Orthogonal(self.n).draws(key, n)
        signs = jnp.where(jnp.linalg.det(draws) < 0, -1.0, 1.0).astype(draws.dtype)
        return draws.at[:, :, 0].multiply(signs[:, None])

    def generators(self):
        return np.zeros((0, self.n, self.n))

    def lie_algebra(self):
        affordable("The Lie algebra", self, *[self.n] * 4, instead="Write a group of a smaller space.")
        rows, columns = np.triu_indices(self.n, 1)
        basis = np.zeros((len(rows), self.n, self.n))
        basis[np.arange(len(rows)), columns, rows] = 1.0
        return basis - np.swapaxes(basis, 1, 2)

    def classes(self, degree):
        return torus(self.n, degree, 1)

    def count_classes(self, degree):
        return torus_size(self.n, degree, 1)

    def holds(self, g, near):
        return super().holds(g, near) and np.linalg.det(g) > 0

    def grid(self, n: int) -> Float[np.ndarray, "n 2 2"]:
        """The n equispaced rotations of the plane: exact averages once n exceeds the largest weight."""
        _in_the_plane(self)
        return PlanarRotations(n).elements()

    @classmethod
    def examples(cls):
        return [cls(2), cls(3), cls(4)]


def _in_the_plane(group: Group) -> None:
    if group.dim != 2:
        raise Refusal(f"A grid of equispaced rotations is for the plane; got {group}. Draw `haar(key, n)` instead.")
