"""Dense layers that commute with a group: a basis of the equivariant maps from `algebra`, and what may follow it.

A layer from R^a to R^b is a matrix in the fixed space of `on_in.hom(on_out)`, written in an orthonormal basis, so that
the length of the parameters is that of the matrix (isometric coordinates). Copies of one representation share a basis:
64 coordinates that are 16 copies of four take a basis of matrices 4 × 4. Hidden layers are copies of a representation
that permutes, where any function applied coordinate by coordinate commutes with the group, or of any other one, whose
vectors are scaled by functions of their lengths. Under the trivial group everything here is a plain dense network.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.algebra.base import Finite
from haarflow.algebra.fixed_space import signed_generators
from haarflow.algebra.reps import Rep, Tensor, TrivialRep, one_group, trivial_rep
from haarflow.algebra.reps import Sum as Beside
from haarflow.algebra.tables import static
from haarflow.algebra.user_reps import regular_rep
from haarflow.errors import Refusal

REGULAR = 64
"""The largest group of which hidden layers are copies of the regular representation, unless another one is given."""

Pieces = tuple[tuple[int, Rep], ...]


def pieces(rep: Rep) -> Pieces:
    """A representation as ((copies, representation), ...), one beside the other: as it was put together."""
    if isinstance(rep, Beside):
        return pieces(rep.a) + pieces(rep.b)
    if isinstance(rep, TrivialRep):
        return ((rep.k, trivial_rep(rep.group)),)
    if isinstance(rep, Tensor) and isinstance(rep.a, TrivialRep) and len(pieces(rep.b)) == 1:
        ((copies, one),) = pieces(rep.b)
        return ((rep.a.k * copies, one),)
    return ((1, rep),)


def basis_of_maps(a: Rep, b: Rep) -> Float[np.ndarray, "k m"]:
    """An orthonormal basis of the equivariant matrices (dim b × dim a), each flattened into a column."""
    return a.hom(b).fixed_basis()


class EquivariantLinear(eqx.Module):
    """`x -> W x + c` with `W rho_in(g) = rho_out(g) W` and c fixed, for any values of its parameters.

    `weights` holds the coordinates of W, an array (copies out, copies in, m) for every pair of pieces that have
    equivariant maps between them; `offsets` those of c. The parameters are drawn so that each output has a mean square
    of `gain` times that of the inputs.
    """

    weights: tuple[Float[Array, "o i m"], ...]
    offsets: tuple[Float[Array, "o m"], ...]
    on_in: Rep = static()
    on_out: Rep = static()

    def __init__(self, key: PRNGKeyArray, on_in: Rep, on_out: Rep, *, gain: float = 1.0, dtype: Any = jnp.float32):
        one_group("An equivariant layer", on_in, on_out)
        self.on_in, self.on_out, weights = on_in, on_out, []
        for out, one in pieces(on_out):
            found = [(copies, basis_of_maps(other, one).shape[1]) for copies, other in pieces(on_in)]
            size = np.sqrt(gain * one.dim / max(1, sum(copies * m for copies, m in found)))
            for copies, m in found:
                key, use = jax.random.split(key)
                weights.append(jnp.asarray(size * jax.random.normal(use, (out, copies, m), dtype), dtype))
        self.weights = tuple(weights)
        self.offsets = tuple(jnp.zeros((out, one.fixed_basis().shape[1]), dtype) for out, one in pieces(on_out))

    def matrix(self) -> Float[Array, "b a"]:
        """W, (dim out, dim in)."""
        given, rows = iter(self.weights), []
        for out, one in pieces(self.on_out):
            row = []
            for copies, other in pieces(self.on_in):
                weight = next(given)
                basis = jnp.asarray(basis_of_maps(other, one), weight.dtype).reshape(one.dim, other.dim, -1)
                block = jnp.einsum("bam,oim->obia", basis, weight)
                row.append(block.reshape(out * one.dim, copies * other.dim))
            rows.append(jnp.concatenate(row, axis=1))
        return jnp.concatenate(rows, axis=0)

    def offset(self) -> Float[Array, " b"]:
        """c, (dim out,)."""
        found = zip(pieces(self.on_out), self.offsets, strict=True)
        return jnp.concatenate([(one @ jnp.asarray(rep.fixed_basis(), one.dtype).T).ravel() for (_, rep), one in found])

    def __call__(self, x: Float[Array, "n a"]) -> Float[Array, "n b"]:
        """The outputs (n, b) of inputs (n, a)."""
        return x @ self.matrix().T + self.offset()[None]


class EquivariantHidden(eqx.Module):
    """A layer and a nonlinearity that commutes with the group: `width` coordinates or a little fewer.

    Copies of a representation that permutes are rectified coordinate by coordinate. Of any other representation the
    layer makes copies beside as many invariant numbers: the numbers are rectified, each vector is scaled by a sigmoid
    of another, and the lengths of the vectors come out beside them, as invariants.
    """

    linear: EquivariantLinear
    slope: float = static()
    one: Rep = static()
    on_out: Rep = static()

    def __init__(
        self, key: PRNGKeyArray, on_in: Rep, one: Rep, width: int, *, slope: float = 0.0, dtype: Any = jnp.float32
    ):
        self.one, self.slope, self.on_out = one, slope, copies_of(one, width)
        self.linear = EquivariantLinear(key, on_in, self.on_out, gain=2.0, dtype=dtype)

    def __call__(self, x: Float[Array, "n a"]) -> Float[Array, "n b"]:
        """The outputs (n, b) of inputs (n, a)."""
        return self.activate(self.linear(x))

    def activate(self, x: Float[Array, "n a"]) -> Float[Array, "n b"]:
        """The nonlinearity alone."""
        if permutes(self.one):
            return leaky(x, self.slope)
        c = self.on_out.dim // (2 + self.one.dim)
        numbers, gates, vectors = x[:, :c], x[:, c : 2 * c], x[:, 2 * c :].reshape(len(x), c, -1)
        lengths = jnp.sqrt(1e-6 + jnp.sum(vectors**2, axis=2))
        scaled = vectors * jax.nn.sigmoid(gates)[:, :, None]
        return jnp.concatenate([leaky(numbers, self.slope), lengths, scaled.reshape(len(x), -1)], axis=1)


def copies_of(one: Rep, width: int) -> Rep:
    """The representation on a hidden layer of `width` coordinates or a little fewer: copies of one that permutes.

    Of another one there are two invariant numbers for every copy, beside the copies: numbers and gates before the
    nonlinearity, numbers and lengths after it.
    """
    size = one.dim if permutes(one) else 2 + one.dim
    copies = width // size
    if not copies:
        raise Refusal(
            f"A hidden layer is made of copies of a representation of dimension {one.dim}, which take {size} "
            f"coordinates each; got a width of {width}. Write a width of {size} or more."
        )
    return copies * one if permutes(one) else trivial_rep(one.group, 2 * copies) + copies * one


def leaky(x: Array, slope: float) -> Array:
    """The rectifier, or with a slope the leaky one."""
    return jnp.maximum(x, slope * x)


def permutes(rep: Rep) -> bool:
    """Whether the group permutes the coordinates, without signs: then any function of each coordinate commutes."""
    if isinstance(rep, TrivialRep):
        return True
    found = signed_generators(rep) if isinstance(rep.group, Finite) else None
    return found is not None and bool(np.all(found[1] > 0))


def hidden_rep(on_x: Rep) -> Rep:
    """The representation whose copies make hidden layers: the regular one of a small finite group.

    Of another group, what is moved of the inputs: the largest piece of them that is not trivial.
    """
    group = on_x.group
    if isinstance(group, Finite) and group.order <= REGULAR:
        return regular_rep(group)
    moved = [one for _, one in pieces(on_x) if not isinstance(one, TrivialRep)]
    return max(moved, key=lambda one: one.dim, default=trivial_rep(group))
