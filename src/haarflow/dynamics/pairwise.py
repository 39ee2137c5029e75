"""Energies of single particles and of pairs, which the half square risk of a network is one of.

`½E|Y|² + ∫V dmu + ½∬U dmu dmu`, with `V(θ) = −E[Y·phi(X, θ)]` and `U(θ, θ') = E[phi(X, θ)·phi(X, θ')]`; its first
variation is `Psi = V + ∫U dmu`.
"""

from collections.abc import Callable
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from haarflow.doors import Count, door
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
def sampling_excess(risk: Risk, cloud: Cloud, m: Count) -> Float[Array, ""]:
    """What m independent draws from a law cost on average: `E R(mu_m) − R(mu) = (∫U(θ, θ) − ∬U) / 2m`."""
    _, together = pairwise(risk).sums(cloud)
    return (cloud.weights @ jnp.diagonal(together) - cloud.weights @ together @ cloud.weights) / (2.0 * m)


def every_draw(functional: Functional, cloud: Cloud, m: int) -> float:
    """`E R(mu_m) − R(mu)` without sampling error: the excess of every one of the n^m draws, by its probability."""
    rows = np.array(list(product(range(cloud.n), repeat=m)))
    chances = np.prod(np.asarray(cloud.weights)[rows], axis=1)
    counts = np.stack([np.mean(rows == i, axis=1) for i in range(cloud.n)], axis=1)
    values = np.asarray(_reweighted(functional, cloud.atoms, jnp.asarray(counts)))
    return float(chances @ values - _reweighted(functional, cloud.atoms, cloud.weights[None])[0])


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(None, None, 0))
def _reweighted(functional, atoms, weights):
    return functional(Cloud(atoms, weights))
