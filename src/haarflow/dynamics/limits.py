"""What the mean-field limit says exactly: the energy of particles and pairs, its dissipation, its minimisers.

The half square risk of a network is an energy of single particles and of pairs,
`½E|Y|² + ∫V dmu + ½∬U dmu dmu`, with `V(θ) = −E[Y·phi(X, θ)]` and `U(θ, θ') = E[phi(X, θ)·phi(X, θ')]`; its first
variation is `Psi = V + ∫U dmu`.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.dynamics.fields import Tangent
from haarflow.errors import Refusal
from haarflow.learning.data import Sample
from haarflow.learning.risks import Functional, Risk, Variation
from haarflow.measures.clouds import Cloud
from haarflow.models.units import Unit


class Pairwise(Functional):
    """`constant + ∫V dmu + ½∬U dmu dmu`, for a function V of one particle and a symmetric function U of two."""

    one_body: Callable
    pair: Callable
    constant: Float[Array, ""] = eqx.field(default=0.0, converter=jnp.asarray)

    def __call__(self, cloud):
        alone, together = self.sums(cloud)
        return self.constant + cloud.weights @ alone + cloud.weights @ together @ cloud.weights / 2

    def sums(self, cloud: Cloud) -> tuple[Float[Array, "n"], Float[Array, "n n"]]:
        """V at every atom and U at every pair of atoms."""
        alone = jax.vmap(self.one_body)(cloud.atoms)
        together = jax.vmap(lambda theta: jax.vmap(lambda other: self.pair(theta, other))(cloud.atoms))(cloud.atoms)
        return alone, together

    def at(self, theta: Float[Array, "p"], cloud: Cloud) -> Float[Array, ""]:
        """Psi at one place, in the field of a cloud."""
        return self.one_body(theta) + cloud.weights @ jax.vmap(lambda other: self.pair(theta, other))(cloud.atoms)

    def variation(self, cloud):
        values, slopes = jax.vmap(jax.value_and_grad(lambda theta: self.at(theta, cloud)))(cloud.atoms)
        return Variation(values, -slopes)

    @classmethod
    def examples(cls):
        def pair(theta, other):
            return jnp.cos(theta @ other) + (theta @ other) ** 2 / 3

        return [pairwise(Risk.examples()[0]), cls(lambda theta: jnp.sin(theta[0] - theta[3]), pair, 0.2)]


class OneBody(eqx.Module):
    """`V(θ) = −E[Y·phi(X, θ)]` of a unit on a sample."""

    unit: Unit
    data: Sample

    def __call__(self, theta: Float[Array, "p"]) -> Float[Array, ""]:
        """V at one particle."""
        return -jnp.mean(jnp.sum(self.data.ys.T * self.unit.many(theta[None], self.data.xs)[0], axis=0))


class Pair(eqx.Module):
    """`U(θ, θ') = E[phi(X, θ)·phi(X, θ')]` of a unit on a sample."""

    unit: Unit
    data: Sample

    def __call__(self, theta: Float[Array, "p"], other: Float[Array, "p"]) -> Float[Array, ""]:
        """U at two particles."""
        first, second = self.unit.many(jnp.stack([theta, other]), self.data.xs)
        return jnp.mean(jnp.sum(first * second, axis=0))


def pairwise(risk: Risk) -> Pairwise:
    """A half square risk over a whole sample, written as the energy of particles and pairs that it is."""
    if risk.loss != "half-square" or not isinstance(risk.data, Sample) or risk.data.size is not None:
        raise Refusal(
            f"A pairwise energy is a half-square Risk over a whole Sample; got the loss {risk.loss} over "
            f"{type(risk.data).__name__}. Write Risk(unit, Sample(xs, ys))."
        )
    constant = jnp.mean(jnp.sum(risk.data.ys**2, axis=1)) / 2
    return Pairwise(OneBody(risk.unit, risk.data), Pair(risk.unit, risk.data), constant)


def dissipation(
    functional: Functional, cloud: Cloud, *, transport: float | Array = 1.0, growth: float | Array = 0.0
) -> Float[Array, ""]:
    """`dE/dt = −transport ∫|∇Psi|² dmu − growth ∫(Psi − mean Psi)² dmu` along `Descend(functional, …)`."""
    potential, velocity = functional.variation(cloud)
    centred = potential - cloud.weights @ potential
    return -transport * cloud.weights @ jnp.sum(velocity**2, axis=1) - growth * cloud.weights @ centred**2


def weak_rate(cloud: Cloud, tangent: Tangent, test: Callable) -> Float[Array, ""]:
    """`d/dt ∫test dmu = ∫∇test·velocity dmu + ∫test·growth dmu`: the continuity equation in weak form."""
    values, slopes = jax.vmap(jax.value_and_grad(test))(cloud.atoms)
    rate = jnp.sum(slopes * tangent.atoms, axis=1)
    return cloud.weights @ (rate if tangent.growth is None else rate + values * tangent.growth)


def sampling_excess(risk: Risk, cloud: Cloud, m: int) -> Float[Array, ""]:
    """What m independent draws from a law cost on average: `E R(mu_m) − R(mu) = (∫U(θ, θ) − ∬U) / 2m`."""
    _, together = pairwise(risk).sums(cloud)
    return (cloud.weights @ jnp.diagonal(together) - cloud.weights @ together @ cloud.weights) / (2 * m)


@eqx.filter_jit
def first_variation(functional: Functional, cloud: Cloud, places: Float[Array, "m p"]) -> Float[Array, "m"]:
    """Psi at any places, in the field of a cloud."""
    everywhere = jnp.concatenate([cloud.atoms, places])
    weights = jnp.concatenate([cloud.weights, jnp.zeros(len(places), cloud.weights.dtype)])
    return functional.variation(Cloud(everywhere, weights)).potential[cloud.n :]


def optimality_gap(functional: Functional, cloud: Cloud, places: Float[Array, "m p"]) -> float:
    """`∫Psi dmu − min Psi`, the minimum over places and atoms: zero where the support lies in argmin Psi.

    A convex functional is at no law on these places lower than its value at the cloud minus this gap.
    """
    there, here = (first_variation(functional, cloud, where) for where in (jnp.asarray(places), cloud.atoms))
    return float(cloud.weights @ here - jnp.minimum(jnp.min(there), jnp.min(here)))


def settle(functional: Functional, cloud: Cloud, *, merge: float = 0.0, least: float = 1e-4) -> Cloud:
    """The cloud moved to a local minimum in atoms and weights together, by BFGS: for the few atoms of a minimiser.

    First, atoms lighter than `least` go, and atoms nearer than `merge` to each other (in chains) become one.
    """
    from scipy.optimize import minimize

    start = _merged(cloud, merge, least)
    if start.n * (start.p + 1) > 2000:
        raise Refusal(
            f"settle moves up to 2000 numbers; got {start.n} atoms in R^{start.p}. "
            "Write a larger `merge` or `least`, or run a flow."
        )
    packed = np.concatenate([np.asarray(start.atoms, float).ravel(), np.log(np.asarray(start.weights, float))])
    options = {"gtol": 1e-12, "maxiter": 5000}

    def value_and_slope(flat):
        value, slope = _packed_value(functional, jnp.asarray(flat, start.atoms.dtype), start.n)
        return float(value), np.asarray(slope, float)

    return _unpacked(jnp.asarray(minimize(value_and_slope, packed, jac=True, options=options).x), start.n)


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
    if not len(atoms):
        raise Refusal(
            f"settle keeps the atoms heavier than `least`; got none above {least:g}. Write `least=0.0` to keep all."
        )
    count, labels = connected_components(cdist(atoms, atoms) <= merge, directed=False)
    masses = np.bincount(labels, weights, count)
    centres = np.stack([np.bincount(labels, weights * column, count) / masses for column in atoms.T], axis=1)
    return Cloud(centres, masses / masses.sum())
