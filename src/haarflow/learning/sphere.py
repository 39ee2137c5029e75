"""ReLU units on the sphere, integrated exactly: the risk against a teacher without drawing a single input.

Particles are (a, w) and compute `a relu(<w, x>)`; x is uniform on the sphere of radius √d, or N(0, I), which gives the
same integrals. Two of them have `E phi phi' = a a' |w||w'| (sin φ + (π − φ) cos φ) / 2π`, φ the angle between w and w'.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from haarflow.errors import Refusal
from haarflow.learning.risks import Functional, Variation
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.kernels import arc

_TINY = 1e-30


def relu_kernel(atoms: Float[Array, "n p"], others: Float[Array, "m p"]) -> Float[Array, "n m"]:
    """`E phi(x, θ) phi(x, θ')` for every pair of particles."""
    (size, ways), (size_, ways_) = _polar(atoms), _polar(others)
    return (atoms[:, 0] * size)[:, None] * (others[:, 0] * size_)[None, :] * arc(ways @ ways_.T) / (2 * jnp.pi)


def relu_distance(cloud: Cloud, other: Cloud) -> Float[Array, ""]:
    """`E |f − g|²` between the networks of two clouds."""
    signed, atoms = _difference(cloud, other)
    return signed @ relu_kernel(atoms, atoms) @ signed


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
