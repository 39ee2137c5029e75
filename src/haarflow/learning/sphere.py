"""ReLU units on the sphere, integrated exactly: the risk against a teacher without drawing a single input.

Particles are (a, w) and compute `a relu(<w, x>)`; x is uniform on the sphere of radius √d, or N(0, I), which gives the
same integrals. Two of them have `E phi phi' = a a' |w||w'| (sin φ + (π − φ) cos φ) / 2π`, φ the angle between w and w'.
"""

from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from haarflow.errors import Refusal
from haarflow.learning.risks import Functional, Variation
from haarflow.measures.clouds import Cloud, uniform

_TINY = 1e-30


@jax.custom_jvp
def _arc(cosine):
    angle = jnp.arccos(jnp.clip(cosine, -1, 1))
    return jnp.sin(angle) + (jnp.pi - angle) * jnp.cos(angle)


@_arc.defjvp
def _(primals, tangents):
    return _arc(*primals), (jnp.pi - jnp.arccos(jnp.clip(primals[0], -1, 1))) * tangents[0]


def relu_kernel(atoms: Float[Array, "n p"], others: Float[Array, "m p"]) -> Float[Array, "n m"]:
    """`E phi(x, θ) phi(x, θ')` for every pair of particles."""
    (size, ways), (size_, ways_) = _polar(atoms), _polar(others)
    return (atoms[:, 0] * size)[:, None] * (others[:, 0] * size_)[None, :] * _arc(ways @ ways_.T) / (2 * jnp.pi)


def relu_distance(cloud: Cloud, other: Cloud) -> Float[Array, ""]:
    """`E |f − g|²` between the networks of two clouds."""
    signed, atoms = _difference(cloud, other)
    return signed @ relu_kernel(atoms, atoms) @ signed


class Split(NamedTuple):
    """An excess risk in three pieces, which sum to it; the last two may be negative."""

    approximation: Float[Array, ""]
    statistical: Float[Array, ""]
    optimisation: Float[Array, ""]


def relu_split(teacher: Cloud, *, population: Cloud, empirical: Cloud, trained: Cloud) -> Split:
    """The excess risk of a trained network over its teacher: what the class, the sample and the training cost.

    `population` is the best law of the class under the true risk, `empirical` the best under the sampled one. Each
    piece is `R(f) − R(g)` as one inner product, `E (f − g)((f + g)/2 − teacher)`, so that none is a small difference.
    """
    laws = (teacher, population, empirical, trained)
    return Split(*(_rise(high, low, teacher) for low, high in pairwise(laws)))


@eqx.filter_jit
def _rise(high: Cloud, low: Cloud, teacher: Cloud):
    signed, atoms = _difference(high, low)
    middle = jnp.concatenate([high.weights / 2, low.weights / 2, -teacher.weights])
    return signed @ relu_kernel(atoms, jnp.concatenate([atoms, teacher.atoms])) @ middle


def _difference(cloud, other):
    return jnp.concatenate([cloud.weights, -other.weights]), jnp.concatenate([cloud.atoms, other.atoms])


def _polar(atoms):
    size = jnp.sqrt(jnp.sum(atoms[:, 1:] ** 2, axis=1) + _TINY)
    return size, atoms[:, 1:] / size[:, None]


class ReluRisk(Functional):
    """The exact half square risk of particles (a, w) against a teacher of the same kind, over the whole sphere."""

    teacher: Cloud

    def __check_init__(self):
        if self.teacher.p < 2:
            raise Refusal(
                f"A ReluRisk needs a teacher of particles (a, w) in R^(1 + d); got atoms in R^{self.teacher.p}. "
                "Write uniform(np.column_stack([a, w]))."
            )

    def __call__(self, cloud):
        return relu_distance(cloud, self.teacher) / 2

    def variation(self, cloud):
        signed, atoms = _difference(cloud, self.teacher)
        (size, ways), (sizes, directions) = _polar(cloud.atoms), _polar(atoms)
        cosine = jnp.clip(ways @ directions.T, -1, 1)
        angle = jnp.arccos(cosine)
        sine = jnp.sqrt(1 - cosine**2)
        charge = signed * atoms[:, 0] / (2 * jnp.pi)
        per_output = size * ((sine + (jnp.pi - angle) * cosine) @ (charge * sizes))
        radial = sine @ (charge * sizes)
        pull = ways * radial[:, None] + (jnp.pi - angle) @ (charge[:, None] * atoms[:, 1:])
        outputs = cloud.atoms[:, :1]
        return Variation(outputs[:, 0] * per_output, -jnp.concatenate([per_output[:, None], outputs * pull], axis=1))

    @classmethod
    def examples(cls):
        return [cls(uniform(jnp.array([[1.0, 0.3, -0.8, 0.1], [-0.5, 1.0, 0.2, 0.4]])))]
