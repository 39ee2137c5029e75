"""Clouds: finitely many weighted particles, pushed forward, symmetrised, projected, redrawn."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.errors import Refusal


class Cloud(eqx.Module):
    """The law Σ w_i δ(z_i): n atoms in R^p, and n weights that are non-negative and sum to one.

    A stack of clouds of the same shape is a Cloud whose arrays have leading axes; see `stack`.
    """

    atoms: Float[Array, "*stack n p"]
    weights: Float[Array, "*stack n"]

    def __init__(self, atoms, weights):
        self.atoms = _floating("atoms", atoms)
        self.weights = _floating("weights", weights)
        _check_shapes(self.atoms.shape, self.weights.shape)
        _check_values(self.atoms, self.weights)

    @property
    def n(self) -> int:
        """The number of atoms."""
        return self.atoms.shape[-2]

    @property
    def p(self) -> int:
        """The dimension in which the atoms live."""
        return self.atoms.shape[-1]

    def push(self, map: Callable | Array | np.ndarray) -> "Cloud":
        """The push-forward by a function of one atom, or by a matrix: the atoms move, the weights stay."""
        if callable(map):
            return Cloud(jax.vmap(map)(self.atoms), self.weights)
        _check_columns(np.shape(map), self.p)
        return Cloud(self.atoms @ jnp.asarray(map, self.atoms.dtype).T, self.weights)

    def orbit(self, rep, *, elements: Array | np.ndarray | None = None) -> "Cloud":
        """The symmetrised law mu^G = mean over g of M_g # mu; the identity's n atoms come first.

        Infinite groups need `elements`, an array (m, d, d) of group elements to average over.
        """
        images = jnp.asarray(action_matrices(rep, self.p, elements=elements), self.atoms.dtype)
        atoms = jnp.einsum("gij,nj->gni", images, self.atoms).reshape(-1, self.p)
        return Cloud(atoms, jnp.tile(self.weights, len(images)) / len(images))

    def project(self, rep) -> "Cloud":
        """The projected law P # mu, for a representation or for its fixed-space projector P."""
        return self.push(projector_matrix(rep, self.p))

    def resample(self, key: PRNGKeyArray | Array, n: int) -> "Cloud":
        """n independent draws from this law, with equal weights."""
        if n < 1:
            raise Refusal(f"resample draws at least one atom; got n = {n}. Write `cloud.resample(key, 100)`.")
        return uniform(self.atoms[jax.random.choice(key, self.n, (n,), p=self.weights)])

    def mean(self) -> Float[Array, " p"]:
        """∫ z dmu."""
        return self.weights @ self.atoms

    def second_moment(self) -> Float[Array, ""]:
        """∫ |z|² dmu."""
        return self.weights @ jnp.sum(self.atoms**2, axis=-1)


def uniform(atoms: Array | np.ndarray | Sequence) -> Cloud:
    """The cloud that gives each of these atoms the same weight."""
    atoms = _floating("atoms", atoms)
    if atoms.ndim < 2 or atoms.shape[-2] == 0:
        raise Refusal(
            f"A Cloud holds n atoms in R^p, n at least one; got atoms {atoms.shape}. "
            "For atoms on the line write `uniform(values[:, None])`."
        )
    return Cloud(atoms, jnp.full(atoms.shape[:-1], 1 / atoms.shape[-2], atoms.dtype))


def stack(clouds: Sequence[Cloud]) -> Cloud:
    """Clouds of one shape side by side, as one Cloud with a leading axis (for `vmap` and for `flow`)."""
    shapes = sorted({cloud.atoms.shape for cloud in clouds})
    if len(shapes) != 1:
        raise Refusal(
            f"stack takes at least one cloud, all with atoms of the same shape; got shapes {shapes}. "
            "Bring them to n atoms with `cloud.resample(key, n)`."
        )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *clouds)


def action_matrices(rep, p: int, *, elements=None) -> Float[np.ndarray, "g p p"]:
    """The matrices M_g of a representation on R^p: all of them, or those of given elements."""
    _check_dimension(rep, p)
    if elements is not None:
        return np.stack([np.asarray(rep(g), float) for g in np.asarray(elements)])
    if not hasattr(rep.group, "order"):
        raise Refusal(
            f"An orbit is a finite sum over the group; got the infinite {type(rep.group).__name__}. "
            "Write `elements=group.haar(key, 64)` to average over 64 draws."
        )
    return np.asarray(rep.matrices(), float)


def projector_matrix(rep, p: int) -> Float[np.ndarray, "p p"]:
    """The projector P on the fixed space of a representation on R^p; a (p, p) matrix is taken as P itself."""
    if hasattr(rep, "fixed_projector"):
        _check_dimension(rep, p)
        return np.asarray(rep.fixed_projector(), float)
    if np.shape(rep) != (p, p):
        raise Refusal(
            f"A projector on R^{p} is a ({p}, {p}) matrix; got shape {np.shape(rep)}. "
            "Write `rep.fixed_projector()` of a representation of that dimension."
        )
    return np.asarray(rep, float)


def _floating(name: str, values) -> Array:
    values = values if isinstance(values, Array) else np.asarray(values)
    if jnp.issubdtype(values.dtype, jnp.complexfloating) or not jnp.issubdtype(values.dtype, jnp.number):
        raise Refusal(f"A Cloud's {name} are real numbers; got {values.dtype}. Write them as floats.")
    return jnp.asarray(values if jnp.issubdtype(values.dtype, jnp.floating) else values.astype(float))


def _check_shapes(atoms: tuple, weights: tuple) -> None:
    if len(atoms) < 2 or 0 in atoms or atoms[:-1] != weights:
        raise Refusal(
            f"A Cloud holds n atoms in R^p and n weights; got atoms {atoms} and weights {weights}. "
            "For equal weights write `uniform(atoms)`."
        )


def _check_values(atoms: Array, weights: Array) -> None:
    if _unknown(atoms) or _unknown(weights):
        return
    if not np.isfinite(np.asarray(atoms)).all():
        row = np.argwhere(~np.isfinite(np.asarray(atoms)).all(axis=-1))[0]
        raise Refusal(
            f"A Cloud's atoms are finite; got {np.asarray(atoms)[tuple(row)]} at atom {int(row[-1])}. "
            "Drop such atoms, or make the step that produced them smaller."
        )
    _check_weights(np.asarray(weights, float), 1e-9 if weights.dtype == jnp.float64 else 1e-6)


def _check_weights(weights: np.ndarray, slack: float) -> None:
    if not (weights >= 0).all():
        raise Refusal(
            f"A Cloud's weights are non-negative; got {np.min(weights):g}. "
            "Write `weights / weights.sum()` of non-negative weights, or `uniform(atoms)`."
        )
    total = weights.sum(axis=-1)
    worst = float(np.ravel(total)[np.argmax(np.abs(np.ravel(total) - 1))])
    if not abs(worst - 1) <= slack:
        raise Refusal(
            f"A Cloud's weights sum to one; got a sum of {worst:.10g}. "
            "Write `weights / weights.sum()`, or `uniform(atoms)` for equal weights."
        )


def _unknown(values: Array) -> bool:
    return isinstance(values, Tracer) or not values.is_fully_addressable


def _check_columns(shape: tuple, p: int) -> None:
    if len(shape) != 2 or shape[1] != p:
        raise Refusal(
            f"push takes a function of one atom, or a matrix with {p} columns for a cloud in R^{p}; "
            f"got shape {shape}. Write `cloud.push(lambda z: ...)` or transpose the matrix."
        )


def _check_dimension(rep, p: int) -> None:
    if rep.dim != p:
        raise Refusal(
            "A representation of dimension k acts on clouds in R^k; "
            f"got dimension {rep.dim} and a cloud in R^{p}. "
            f"Write a representation of dimension {p}, such as the unit's `action(on_x, on_y)`."
        )
