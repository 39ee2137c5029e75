"""Minimisers of an energy of clouds: the first variation anywhere, the gap it proves, and a cloud polished to one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.doors import NonNegative, door
from haarflow.dynamics.doubles import doubled
from haarflow.errors import Refusal
from haarflow.learning.risks import Functional
from haarflow.measures.clouds import Cloud
from haarflow.models.fits import refuse_unless_cloud
from haarflow.values import refuse_unless_affordable


@door
def first_variation(
    functional: Functional, cloud: Cloud, places: Float[Array, "m p"] | Float[np.ndarray, "m p"]
) -> Float[Array, "m"]:
    """Psi at any places, in the field of a cloud."""
    refuse_unless_cloud("first_variation", cloud)
    if places.shape[1] != cloud.p:
        raise Refusal(
            f"Psi of a cloud in R^{cloud.p} is a function of places in R^{cloud.p}; got places {places.shape}. "
            f"Write an array (m, {cloud.p})."
        )
    return _first_variation(functional, cloud, jnp.asarray(places))


@eqx.filter_jit
def _first_variation(functional: Functional, cloud: Cloud, places):
    everywhere = jnp.concatenate([cloud.atoms, places])
    weights = jnp.concatenate([cloud.weights, jnp.zeros(len(places), cloud.weights.dtype)])
    return functional.variation(Cloud(everywhere, weights)).potential[cloud.n :]


@door
def optimality_gap(
    functional: Functional, cloud: Cloud, places: Float[Array, "m p"] | Float[np.ndarray, "m p"]
) -> float:
    """`∫Psi dmu − min Psi`, the minimum over places and atoms: zero where the support lies in argmin Psi.

    A convex functional is at no law on these places lower than its value at the cloud minus this gap.
    """
    there, here = (first_variation(functional, cloud, where) for where in (places, cloud.atoms))
    return float(cloud.weights @ here - jnp.minimum(jnp.min(there, initial=jnp.inf), jnp.min(here)))


@door
def polish(functional: Functional, cloud: Cloud, *, merge: NonNegative = 0.0, least: NonNegative = 1e-4) -> Cloud:
    """The cloud moved to a local minimum in atoms and weights together, by BFGS in float64: for a few atoms.

    First, atoms lighter than `least` go, and atoms nearer than `merge` to each other (in chains) become one.
    """
    from scipy.optimize import minimize

    refuse_unless_cloud("polish", cloud)
    start = _merged(cloud, merge, least)
    if start.n * (start.p + 1) > 2000:
        raise Refusal(
            f"polish moves up to 2000 numbers; got {start.n} atoms in R^{start.p}. "
            "Write a larger `merge` or `least`, or run a flow."
        )
    packed = np.concatenate([np.asarray(start.atoms, float).ravel(), np.log(np.asarray(start.weights, float))])
    options = {"gtol": 1e-12, "maxiter": 5000}

    @doubled
    def value_and_slope(flat):
        value, slope = _packed_value(functional, jnp.asarray(flat), start.n)
        return float(value) / unit, np.asarray(slope, float) / unit

    unit = 1.0
    steep = float(np.abs(value_and_slope(packed)[1]).max())
    unit = steep if 0 < steep < 1e-6 else 1.0  # the scale of a functional that is small altogether
    with np.errstate(all="ignore"):
        found = minimize(value_and_slope, packed, jac=True, options=options)
        left, value = unit * float(np.abs(found.jac).max()), unit * float(found.fun)
    if found.status == 1 or not left <= 1e-6 * max(1.0, abs(value)) or not np.isfinite(found.x).all():
        raise Refusal(
            f"polish ends at a local minimum; got {value:g} after {found.nit} steps, still falling. "
            "Add a Penalty that keeps the atoms, or run a flow first."
        )
    return _unpacked(jnp.asarray(found.x), start.n)


def _unpacked(flat, n: int) -> Cloud:
    return Cloud(flat[:-n].reshape(n, -1), jax.nn.softmax(flat[-n:]))


@eqx.filter_jit
def _packed_value(functional, flat, n: int):
    return jax.value_and_grad(lambda flat: functional(_unpacked(flat, n)))(flat)


def _merged(cloud: Cloud, merge: float, least: float) -> Cloud:
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial.distance import cdist

    atoms, weights = np.asarray(cloud.atoms, float), np.asarray(cloud.weights, float)
    atoms, weights = atoms[weights > least], weights[weights > least]
    refuse_unless_affordable(f"polish of {len(atoms)} atoms", 8.0 * len(atoms) ** 2, instead="Write a larger `least`.")
    if not len(atoms):
        raise Refusal(
            f"polish keeps the atoms heavier than `least`; got none above {least:g}. Write `least=0.0` to keep all."
        )
    count, labels = connected_components(cdist(atoms, atoms) <= merge, directed=False)
    masses = np.bincount(labels, weights, count)
    centres = np.stack([np.bincount(labels, weights * column, count) / masses for column in atoms.T], axis=1)
    return Cloud(centres, masses / masses.sum())
