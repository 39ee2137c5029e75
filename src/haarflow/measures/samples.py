"""What distances compute with: atoms that carry mass, in float64, seen from nearby and in units of their own size.

Solvers have absolute tolerances, and squares lose their digits far from the origin. So two samples are moved
together towards the origin, by a shift of few digits that subtracts exactly, and divided by a power of two: what a
distance gives for scaled or shifted clouds is what it gives for the clouds, scaled.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud, refuse_no_cloud

Law = Cloud | Float[np.ndarray, "n p"]
"""A cloud, or n atoms of equal weight."""

OtherLaw = Cloud | Float[np.ndarray, "m p"]

LARGEST = 1e300

ROUNDING = float(np.finfo(float).eps)


class Pair(NamedTuple):
    """Two samples, x with weights a and y with weights b, in a common unit of length."""

    x: Float[np.ndarray, "n p"]
    a: Float[np.ndarray, " n"]
    y: Float[np.ndarray, "m p"]
    b: Float[np.ndarray, " m"]
    unit: float

    @property
    def atoms(self) -> int:
        """How many atoms the two have."""
        return len(self.a) + len(self.b)

    @property
    def even(self) -> bool:
        """Whether each sample has equal weights: then no coupling divides a mass, and none is rounded."""
        return even(self.a) and even(self.b)

    @property
    def reach(self) -> float:
        """The square of a distance that no two atoms exceed."""
        low, high = (np.array([side(self.x, axis=0), side(self.y, axis=0)]) for side in (np.min, np.max))
        return float(np.sum((high.max(axis=0) - low.min(axis=0)) ** 2))

    @property
    def blunt(self) -> float:
        """What the rounding of uneven weights can add to a mean square distance, or take from it."""
        return 0.0 if self.even else 2 * self.atoms * ROUNDING * self.reach


def arrays(mu: Law) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, " n"]]:
    """The atoms that carry mass, and their weights, in float64 and summing to one to rounding."""
    if not isinstance(mu, Cloud):
        refuse_no_cloud(np.shape(mu))
        _refuse_beyond(np.asarray(mu))
        return np.asarray(mu, float), np.full(len(mu), 1 / len(mu))
    if isinstance(mu.atoms, Tracer) or isinstance(mu.weights, Tracer):
        raise Refusal(
            "A distance between clouds is computed on the host, outside of compiled programs; got a cloud that is "
            "being traced. Call it outside of jit, vmap and grad; `si_distance` and `si_rmd` work inside."
        )
    if mu.atoms.ndim != 2:
        raise Refusal(
            f"A distance takes one cloud at a time; got a stack with atoms {mu.atoms.shape}. "
            "Write `jax.tree.map(lambda leaf: leaf[0], clouds)` for its first cloud."
        )
    atoms, weights = np.asarray(mu.atoms, float), np.asarray(mu.weights, float)
    keep, total = weights > 0, math.fsum(weights)  # a sum that does not depend on the order of the atoms
    atoms, weights = (atoms, weights / total) if keep.all() else (atoms[keep], weights[keep] / total)
    _refuse_beyond(atoms)
    return atoms, weights


def _refuse_beyond(atoms: np.ndarray) -> None:
    if (largest := np.abs(atoms).max()) > LARGEST:
        raise Refusal(
            f"A distance takes atoms of a size up to {LARGEST:g}, so that it is a number itself; got {largest:.3g}. "
            "Divide the clouds by a unit of their own."
        )


def pair(mu: Law, nu: OtherLaw) -> Pair:
    """Two clouds together, refused unless they live in the same space."""
    (x, a), (y, b) = arrays(mu), arrays(nu)
    if x.shape[1] != y.shape[1]:
        raise Refusal(
            f"A distance compares clouds in the same R^p; got p = {x.shape[1]} and p = {y.shape[1]}. "
            "Write `cloud.push(matrix)` to bring both to one dimension."
        )
    return together(x, a, y, b)


def together(x, a, y, b) -> Pair:
    """Both samples near the origin, their farthest coordinates between one half and one of the unit."""
    low, high = np.minimum(x.min(axis=0), y.min(axis=0)), np.maximum(x.max(axis=0), y.max(axis=0))
    unit = binade(high / 2 - low / 2)
    # In steps of eight units the shift has so few digits that the subtraction is exact; a cloud around zero stays.
    shift = np.round((low / 2 + high / 2) / (8 * unit)) * (8 * unit) if (high > low).any() else low
    return Pair((x - shift) / unit, a, (y - shift) / unit, b, unit)


def binade(values) -> float:
    """The power of two above the largest of these numbers: dividing by it rounds nothing."""
    largest = float(np.max(np.abs(values)))
    return float(np.ldexp(1.0, int(np.frexp(largest)[1]))) if largest > 0 else 1.0


def even(weights: Float[np.ndarray, " n"]) -> bool:
    """Whether all weights are equal, to rounding."""
    return float(np.ptp(weights)) <= 8 * ROUNDING * float(weights.max())


def generator(key: PRNGKeyArray | Array) -> np.random.Generator:
    """A NumPy generator that this key determines: the host draws without compiling anything."""
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return np.random.default_rng(np.asarray(jax.random.key_data(key) if typed else key).ravel())
