"""What the mean-field limit says exactly: the energy of particles and pairs, its dissipation, its minimisers.

The half square risk of a network is an energy of single particles and of pairs,
`½E|Y|² + ∫V dmu + ½∬U dmu dmu`, with `V(θ) = −E[Y·phi(X, θ)]` and `U(θ, θ') = E[phi(X, θ)·phi(X, θ')]`; its first
variation is `Psi = V + ∫U dmu`.
"""

from collections.abc import Callable
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from haarflow.doors import Count, Least, NonNegative, door
from haarflow.dynamics.doubles import doubled
from haarflow.dynamics.fields import Tangent
from haarflow.errors import Refusal
from haarflow.identity import by_value
from haarflow.learning.data import Sample
from haarflow.learning.risks import Functional, Risk, Variation
from haarflow.measures.clouds import Cloud
from haarflow.models.fits import refuse_unless_cloud, shapes_of
from haarflow.models.units import Unit
from haarflow.values import leaf, refuse_unless_affordable, said


@door
class Pairwise(Functional):
    """`constant + ∫V dmu + ½∬U dmu dmu`, for a function V of one particle and a symmetric function U of two."""

    one_body: Callable = eqx.field(converter=by_value)
    pair: Callable = eqx.field(converter=by_value)
    constant: Float[Array, ""] = eqx.field(default=0.0, converter=leaf)

    def __call__(self, cloud):
        alone, together = self.sums(cloud)
        return self.constant + cloud.weights @ alone + cloud.weights @ together @ cloud.weights / 2

    def sums(self, cloud: Cloud) -> tuple[Float[Array, "n"], Float[Array, "n n"]]:
        """V at every atom and U at every pair of atoms."""
        self._refuse_unless_fit(cloud)
        alone = jax.vmap(self.one_body)(cloud.atoms)
        together = jax.vmap(lambda theta: jax.vmap(lambda other: self.pair(theta, other))(cloud.atoms))(cloud.atoms)
        return alone, together

    @door
    def at(self, theta: Float[Array, "p"], cloud: Cloud) -> Float[Array, ""]:
        """Psi at one place, in the field of a cloud."""
        refuse_unless_cloud("A Pairwise", cloud)
        if theta.shape != (cloud.p,):
            raise Refusal(
                f"Psi of a cloud in R^{cloud.p} is a function of places in R^{cloud.p}; got a place {theta.shape}. "
                f"Write {cloud.p} numbers."
            )
        refuse_unless_number("The one_body of a Pairwise", self.one_body, cloud, 1)
        refuse_unless_number("The pair of a Pairwise", self.pair, cloud, 2)
        return self._at(theta, cloud)

    def _at(self, theta, cloud):
        return self.one_body(theta) + cloud.weights @ jax.vmap(lambda other: self.pair(theta, other))(cloud.atoms)

    def _refuse_unless_fit(self, cloud: Cloud) -> None:
        """Refuse more pairs than there is memory for, functions of vectors, and a U that is not symmetric."""
        refuse_unless_cloud("A Pairwise", cloud)
        refuse_unless_affordable(
            f"The {cloud.n} x {cloud.n} pairs of a cloud",
            float(cloud.n) ** 2 * cloud.atoms.dtype.itemsize,
            instead="Write a cloud or a Grid of fewer places.",
        )
        refuse_unless_number("The one_body of a Pairwise", self.one_body, cloud, 1)
        refuse_unless_number("The pair of a Pairwise", self.pair, cloud, 2)
        with jax.ensure_compile_time_eval():  # at two places, where its value is known while programs are compiled
            one, other = jnp.asarray(np.random.default_rng(0).uniform(0.2, 1.5, (2, cloud.p)))
            there, back = self.pair(one, other), self.pair(other, one)
            if isinstance(there, Tracer) or isinstance(back, Tracer):
                return
            there, back = float(there), float(back)
        if abs(there - back) > 1e-4 * (abs(there) + abs(back)):
            raise Refusal(
                f"A Pairwise's pair is a symmetric function of two particles; got {there:.6g} one way and {back:.6g} "
                "the other. Write (pair(a, b) + pair(b, a)) / 2."
            )

    def variation(self, cloud):
        self._refuse_unless_fit(cloud)
        values, slopes = jax.vmap(jax.value_and_grad(lambda theta: self._at(theta, cloud)))(cloud.atoms)
        return Variation(values, -slopes)

    @classmethod
    def examples(cls):
        def pair(theta, other):
            return jnp.cos(theta @ other) + (theta @ other) ** 2 / 3

        return [pairwise(Risk.examples()[0]), cls(lambda theta: jnp.sin(theta[0] - theta[3]), pair, 0.2)]


def refuse_unless_number(owner: str, function: Callable, cloud: Cloud, particles: int) -> None:
    """Refuse a function of one or two particles of a cloud that does not return one real number."""
    rule = f"{owner} takes {'a particle' if particles == 1 else 'two particles'} ({cloud.p},) to one real number"
    particle = jax.ShapeDtypeStruct((cloud.p,), cloud.atoms.dtype)
    found = shapes_of(rule, "Write it for particles of that size.", function, *[particle] * particles)
    shape, kind = getattr(found, "shape", None), getattr(found, "dtype", np.dtype(object))
    if shape != () or not any(jnp.issubdtype(kind, real) for real in (jnp.floating, jnp.integer)):
        got = f"an array {shape} of {kind}" if shape is not None else said(found)
        raise Refusal(f"{rule}; got {got}. Write theta[0] or jnp.sum(...), for example.")


class OneBody(eqx.Module):
    """`V(θ) = −E[Y·phi(X, θ)]` of a unit on a sample."""

    unit: Unit
    data: Sample

    def __call__(self, theta: Float[Array, "p"]) -> Float[Array, ""]:
        """V at one particle."""
        return -jnp.mean(jnp.sum(self.data.ys.T * self.unit.batched(theta[None], self.data.xs)[0], axis=0))


class Pair(eqx.Module):
    """`U(θ, θ') = E[phi(X, θ)·phi(X, θ')]` of a unit on a sample."""

    unit: Unit
    data: Sample

    def __call__(self, theta: Float[Array, "p"], other: Float[Array, "p"]) -> Float[Array, ""]:
        """U at two particles."""
        first, second = self.unit.batched(jnp.stack([theta, other]), self.data.xs)
        return jnp.mean(jnp.sum(first * second, axis=0))


@door
def pairwise(risk: Risk) -> Pairwise:
    """A half square risk over a whole sample, written as the energy of particles and pairs that it is."""
    if risk.loss.square != 0.5 or not isinstance(risk.data, Sample) or risk.data.size is not None:
        raise Refusal(
            f"A pairwise energy is a half-square Risk over a whole Sample; got the loss {risk.loss.called} over "
            f"{type(risk.data).__name__}. Write Risk(unit, Sample(xs, ys))."
        )
    constant = jnp.mean(jnp.sum(risk.data.ys**2, axis=1)) / 2
    return Pairwise(OneBody(risk.unit, risk.data), Pair(risk.unit, risk.data), constant)


@door
def dissipation(
    functional: Functional,
    cloud: Cloud,
    *,
    transport: Annotated[float | Float[Array, ""], Least(0)] = 1.0,
    growth: Annotated[float | Float[Array, ""], Least(0)] = 0.0,
) -> Float[Array, ""]:
    """`dE/dt = −transport ∫|∇Psi|² dmu − growth ∫(Psi − mean Psi)² dmu` along `Descend(functional, …)`."""
    potential, velocity = functional.variation(cloud)
    centred = potential - cloud.weights @ potential
    return -transport * cloud.weights @ jnp.sum(velocity**2, axis=1) - growth * cloud.weights @ centred**2


@door
def weak_form_rate(cloud: Cloud, tangent: Tangent, test: Callable) -> Float[Array, ""]:
    """`d/dt ∫test dmu = ∫∇test·velocity dmu + ∫test·growth dmu`: the continuity equation in weak form."""
    if tangent.velocity.shape != cloud.atoms.shape:
        raise Refusal(
            f"A weak rate is along a tangent of the cloud's shape {cloud.atoms.shape}; got {tangent.velocity.shape}. "
            "Write field(key, cloud)."
        )
    refuse_unless_number("A test function", test, cloud, 1)
    values, slopes = jax.vmap(jax.value_and_grad(test))(cloud.atoms)
    rate = jnp.sum(slopes * tangent.velocity, axis=1)
    return cloud.weights @ (rate if tangent.growth is None else rate + values * tangent.growth)


@door
def sampling_excess(risk: Risk, cloud: Cloud, m: Count) -> Float[Array, ""]:
    """What m independent draws from a law cost on average: `E R(mu_m) − R(mu) = (∫U(θ, θ) − ∬U) / 2m`."""
    _, together = pairwise(risk).sums(cloud)
    return (cloud.weights @ jnp.diagonal(together) - cloud.weights @ together @ cloud.weights) / (2.0 * m)


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
