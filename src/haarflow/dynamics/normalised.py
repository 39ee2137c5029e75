"""Steps relative to the particles' own length: gradient flow in another time, for losses that vanish at infinity."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from haarflow.doors import door
from haarflow.dynamics.fields import Field, Tangent
from haarflow.dynamics.players import map_clouds
from haarflow.dynamics.schemes import Euler, Heun, Optax, Scheme
from haarflow.measures.clouds import Cloud


class Relative(Field):
    """Another field, its tangents as long as the atoms: multiplied by `|theta| / |v|`, both in L²(mu)."""

    field: Field

    def __call__(self, key, clouds):
        return map_clouds(_relative, clouds, self.field(key, clouds))

    @classmethod
    def examples(cls):
        from haarflow.dynamics.fields import Descend

        return [cls(one) for one in Descend.examples()[:2]]


def _relative(cloud: Cloud, tangent: Tangent) -> Tangent:
    speed = _length(cloud, tangent.velocity)
    pace = jnp.where(speed > 0, _length(cloud, cloud.atoms) / jnp.where(speed > 0, speed, 1), 0)
    return Tangent(pace * tangent.velocity, None if tangent.growth is None else pace * tangent.growth)


def _length(cloud: Cloud, rows: Float[Array, "n p"]) -> Float[Array, ""]:
    """The norm in L²(mu), without overflow where the rows are huge."""
    most = jnp.max(jnp.abs(rows))
    scale = jnp.where(most > 0, most, 1)
    return scale * jnp.sqrt(cloud.weights @ jnp.sum((rows / scale) ** 2, axis=1))


@door
class Normalised(Scheme):
    """Another scheme on a field whose tangents are as long as the atoms: a step dt changes them by a share dt.

    Where a loss vanishes at infinity, as the exponential loss of separable data does, its gradient flow slows down
    like 1/t and its direction converges like 1/log t. In this time the same curve takes seconds:
    `flow(field, Normalised(Euler()), cloud, dt=c, schedule=lambda t: 1 / (1 + t / s), ...)`. The step must fall, or it
    stalls. Momentum is that of the scheme inside, `Normalised(Optax(optax.sgd(0.1, momentum=0.9)))`.
    """

    inner: Scheme

    def start(self, clouds):
        return self.inner.start(clouds)

    def step(self, key, field, clouds, state, dt):
        return self.inner.step(key, Relative(field), clouds, state, dt)

    @classmethod
    def examples(cls):
        import optax

        return [cls(Euler()), cls(Heun()), cls(Optax(optax.sgd(0.1, momentum=0.9)))]
