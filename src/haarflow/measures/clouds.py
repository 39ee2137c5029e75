"""Clouds: finitely many weighted particles, pushed forward, symmetrised, projected, redrawn."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow import saving
from haarflow.algebra.reps import Rep
from haarflow.doors import Count, door
from haarflow.errors import Refusal
from haarflow.measures import views
from haarflow.measures.actions import Elements, action_on, projection_on
from haarflow.values import numbers, refuse_unless_affordable


class Cloud(eqx.Module):
    """The law Σ w_i δ(z_i): n atoms in R^p, and n weights that are non-negative and sum to one.

    The weights take the precision of the atoms, float32 or float64. A stack of clouds of the same shape is a Cloud
    whose arrays have leading axes; see `stack_clouds`.
    """

    atoms: Float[Array, "*stack n p"]
    weights: Float[Array, "*stack n"]

    instead: ClassVar[str] = "Write `uniform(atoms)` for atoms of equal weight, or `Cloud(atoms, weights)`."

    def __init__(self, atoms, weights):
        self.atoms = _floating("A Cloud's table of atoms", atoms)
        weights = _floating("A Cloud's row of weights", weights)
        _check_shapes(self.atoms.shape, weights.shape)
        _check_values(self.atoms, weights)
        self.weights = _as_precise_as(self.atoms, weights)

    def __repr__(self) -> str:
        """How many particles there are, where, and in which precision; of a stack, how many clouds."""
        shape = getattr(self.atoms, "shape", ())
        if len(shape) < 2:  # a tree of the same structure that holds something else
            return super().__repr__()
        *stack, n, p = shape
        told = f"{n} particle{'s' * (n != 1)} in R^{p}, {self.atoms.dtype}"
        return f"Stack of {' × '.join(map(str, stack))} Clouds of {told}" if stack else f"Cloud of {told}"

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
        if not callable(map) or isinstance(map, type):
            matrix = _floating("push's matrix", map)
            _check_columns(matrix.shape, self.p)
            return Cloud(self.atoms @ matrix.astype(self.atoms.dtype).T, self.weights)

        def image(z):
            return numbers("push's function of one atom", map(z), finite=False)

        for _ in self.weights.shape:
            image = jax.vmap(image)
        return Cloud(image(self.atoms), self.weights)

    @door
    def orbit(self, rep: Rep, *, elements: Elements = None) -> "Cloud":
        """The symmetrised law mu^G = mean over g of M_g # mu; the identity's n atoms come first.

        Infinite groups, and those too large to be listed, need `elements` to average over: matrices (m, d, d), or
        `group.draw(key, m)`.
        """
        action = action_on(rep, self.p, elements=elements)
        refuse_unless_affordable(
            f"The orbit of {self.n:,} atoms under {len(action):,} elements",
            float(self.atoms.size) * self.atoms.dtype.itemsize * len(action),
            instead="Write fewer `elements`, or fewer atoms: `cloud.resample(key, n)`.",
        )
        atoms = jnp.moveaxis(action.apply(self.atoms), 0, -3)
        return Cloud(
            atoms.reshape(*self.atoms.shape[:-2], -1, self.p), jnp.tile(self.weights, len(action)) / len(action)
        )

    @door
    def project(self, rep: Rep | np.ndarray | Array) -> "Cloud":
        """The projected law P # mu, for a representation or for its fixed-space projector P."""
        return Cloud(projection_on(rep, self.p).apply(self.atoms), self.weights)

    @door
    def resample(self, key: PRNGKeyArray | Array, n: Count) -> "Cloud":
        """n independent draws from this law, with equal weights; the key may be a whole number, as a seed."""
        if self.atoms.ndim != 2:
            raise Refusal(
                f"resample draws from one cloud at a time; got a stack with atoms {self.atoms.shape}. "
                "Write `jax.vmap(lambda key, cloud: cloud.resample(key, n))(keys, clouds)`."
            )
        refuse_unless_affordable(
            f"A cloud of {n:,} atoms", float(n) * self.atoms.dtype.itemsize * (self.p + 1), instead="Draw fewer atoms."
        )
        return uniform(self.atoms[jax.random.choice(key, self.n, (n,), p=self.weights)])

    def mean(self) -> Float[Array, "*stack p"]:
        """∫ z dmu."""
        return jnp.einsum("...n,...np->...p", self.weights, self.atoms)

    @door
    def save(self, path: str | Path) -> None:
        """Write the atoms and weights into a file, an .npz with a header, from which `Cloud.load(path)` reads them."""
        saving.write(path, self)

    @classmethod
    @door
    def load(cls, path: str | Path) -> "Cloud":
        """The cloud that `save` wrote, to the bit where JAX has the precision that it had then."""
        return saving.read(path, cls)

    @door
    def draw(self, axis: Any, rep: Rep | np.ndarray | Array | None = None, **options: Any) -> Any:
        """Draw the atoms into an axis of matplotlib, each with an area like its weight; returns the axis.

        A cloud in R^1 or R^2 is seen as it is (on an axis with projection="3d", one in R^3 too), others along the
        principal directions. With a representation on R^p, or its projector, the last axis is the widest direction
        across the fixed space E^G and the others lie in it, so that E^G is a line or a plane: `cloud.draw(plt.gca(),
        unit.action(on_x, on_y))`. Labels say the share of ∫|z|² dmu in each direction. What else matplotlib's scatter
        takes, such as color or label, may be given.
        """
        if self.atoms.ndim != 2:
            raise Refusal(
                f"draw shows one cloud at a time; got a stack with atoms {self.atoms.shape}. "
                "Write jax.tree.map(lambda leaf: leaf[0], clouds).draw(axis) for the first of them."
            )
        atoms, weights = np.asarray(self.atoms, float), np.asarray(self.weights, float)
        fixed = None if rep is None else np.asarray(projection_on(rep, self.p).apply(atoms))
        return views.draw(axis, atoms, weights, fixed, options)

    def second_moment(self) -> Float[Array, "*stack"]:
        """∫ |z|² dmu."""
        return jnp.einsum("...n,...n->...", self.weights, jnp.sum(self.atoms**2, axis=-1))


def uniform(atoms: Array | np.ndarray | Sequence) -> Cloud:
    """The Cloud that gives each of these atoms, rows (n, p), the same weight 1/n."""
    atoms = _floating("A Cloud's table of atoms", atoms)
    refuse_no_cloud(atoms.shape)
    return Cloud(atoms, jnp.full(atoms.shape[:-1], 1 / atoms.shape[-2], atoms.dtype))


@door
def stack_clouds(clouds: Sequence[Cloud]) -> Cloud:
    """Clouds of one shape side by side, as one Cloud with a leading axis (for `vmap` and for `flow`)."""
    shapes = sorted({cloud.atoms.shape for cloud in clouds})
    if len(shapes) != 1:
        raise Refusal(
            f"stack_clouds takes at least one cloud, all with atoms of the same shape; got shapes {shapes}. "
            "Bring them to n atoms with `cloud.resample(key, n)`."
        )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *clouds)


def refuse_no_cloud(shape: tuple) -> None:
    """Refuse atoms that are no table: there is one row for each atom, and one atom at least."""
    if len(shape) < 2 or 0 in shape:
        raise Refusal(
            f"A Cloud holds n atoms in R^p, n and p at least one; got atoms {shape}. "
            "For atoms on the line write `uniform(values[:, None])`."
        )


def _floating(owner: str, values) -> Array:
    """An array in float32 or float64: shorter numbers get float32, longer ones float64."""
    if isinstance(values, np.ndarray) and values.dtype == np.longdouble:
        values = values.astype(np.float64)
    with np.errstate(over="ignore"):  # what is too large for float32 is refused as infinite
        found = numbers(owner, values, finite=False)
    return found.astype(jnp.float32) if found.dtype.itemsize < 4 else found


def _as_precise_as(atoms: Array, weights: Array) -> Array:
    """The weights in the precision of the atoms; coarser ones sum to one to the finer rounding."""
    coarser = weights.dtype.itemsize < atoms.dtype.itemsize
    weights = weights.astype(atoms.dtype)
    return weights / jnp.sum(weights, axis=-1, keepdims=True) if coarser else weights


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
            f"A Cloud's atoms are finite{' in float32' * (atoms.dtype == jnp.float32)}; got "
            f"{np.asarray(atoms)[tuple(row)]} at atom {int(row[-1])}. "
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
