"""Birth and death: growth without weights. Particles are killed and copied at random, on average as they would grow."""

from collections.abc import Callable
from functools import partial
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from haarflow.doors import door
from haarflow.dynamics.fields import Descend, Field, Tangent
from haarflow.dynamics.players import by_name, map_clouds, own_keys, particle_axes, taken
from haarflow.dynamics.schemes import Euler, Heun, Langevin, Scheme, streams
from haarflow.errors import Refusal
from haarflow.identity import by_value
from haarflow.measures.clouds import Cloud
from haarflow.values import numbers

_STREAM = 0x6A756D70  # the jumps' own stream of a step, apart from its data and its noise


class TransportOnly(Field):
    """The transport of another field, without its growth."""

    field: Field

    def __call__(self, key, clouds):
        return map_clouds(lambda _, tangent: Tangent(tangent.velocity), clouds, self.field(key, clouds))

    @classmethod
    def examples(cls):
        return [cls(Descend.examples()[1])]


@door
class BirthDeath(Scheme):
    """Another scheme for the transport; the field's growth g = −alpha (Psi − mean Psi) becomes jumps at rate |g|.

    Above the average a particle is killed and replaced by a copy of another; below, it is copied over another. The
    other is uniform, and a copy of particle s is kept with probability proportional to its weight, so that the mean
    rate of the jumps is the Fisher–Rao growth, for every weighted cloud; equal weights slow the clocks by 1 − 1/n. A
    clock rings once a step at most, and who is overwritten loses its own ring, so the mean after a time t is that of
    the growth as dt → 0 only, and errs by O(dt): with rates near 2, by 0.003 of the mass at dt = 0.01.
    With `prior`, a function (key, n) -> atoms (n, p), the killed come back as fresh draws from it (re-injection):
    give these an output of zero, so that they enter without changing the network. With `births=False` there are deaths
    and re-injections only, which disturbs a small cloud less: no particle is overwritten by a copy.
    Players jump each among themselves, with draws that their names decide; a prior is of one dimension, so where theirs
    differ write `Each({name: BirthDeath(inner, prior=draw)})`.
    """

    inner: Scheme
    prior: Callable | None = eqx.field(default=None, kw_only=True, converter=by_value)
    births: bool = eqx.field(default=True, kw_only=True)

    def __check_init__(self):
        if self.prior is None and not self.births:
            raise Refusal(
                "A BirthDeath scheme without births fills the places of the killed from a prior; got no prior. "
                "Write BirthDeath(inner, prior=draw, births=False), or keep the births."
            )

    def start(self, clouds):
        return self.inner.start(clouds)

    def step(self, key, field, clouds, state, dt):
        tangents = field(streams(key)[0], clouds)
        moved, state = self.inner.step(key, TransportOnly(field), clouds, state, dt)
        keys = own_keys(jax.random.fold_in(key, _STREAM), clouds)
        jumped = map_clouds(partial(self._jumped, dt), clouds, moved, tangents, keys)
        sources = {name: source for name, (_, source) in by_name(jumped).items()}
        memory = taken(state, particle_axes(self.inner.start, clouds), sources)
        return map_clouds(lambda _, pair: pair[0], clouds, jumped), memory

    def _jumped(self, dt, cloud: Cloud, moved: Cloud, tangent: Tangent, key) -> tuple[Cloud, Int[Array, "n"]]:
        """One cloud after its jumps, and which particle each place copies."""
        if tangent.growth is None:
            raise Refusal(
                "A BirthDeath scheme turns a field's growth into jumps; got a field without growth. "
                "Write Descend(functional, growth=1.0), or Each for players of whom some do not grow."
            )
        jump, draw = jax.random.split(key)
        source, killed = jumps(jump, cloud.weights, tangent.growth, dt, copying=self.prior is None, births=self.births)
        atoms = moved.atoms[source]
        if self.prior is not None:
            atoms = jnp.where(killed[:, None], self._fresh(draw, atoms), atoms)
        return Cloud(atoms, cloud.weights), source

    def _fresh(self, key, atoms):
        drawn = numbers("A BirthDeath scheme's prior", cast(Callable, self.prior)(key, len(atoms)))
        if drawn.shape != atoms.shape:
            raise Refusal(
                f"A BirthDeath scheme's prior draws atoms of shape {atoms.shape} for (key, {len(atoms)}); got the "
                f"shape {drawn.shape}. Write a function (key, n) -> atoms (n, {atoms.shape[1]})."
            )
        return drawn.astype(atoms.dtype)

    @classmethod
    def examples(cls):
        def prior(key, n):
            return jax.random.normal(key, (n, 4)).at[:, 0].set(0.0)

        return [
            cls(Euler()),
            cls(Langevin(Heun(), 0.01)),
            cls(Euler(), prior=prior),
            cls(Euler(), prior=prior, births=False),
        ]


def jumps(
    key: PRNGKeyArray,
    weights: Float[Array, "n"],
    growth: Float[Array, "n"],
    dt: Float[Array, ""],
    *,
    copying: bool = True,
    births: bool = True,
) -> tuple[Int[Array, "n"], Bool[Array, "n"]]:
    """Which particle each place copies after a time dt, and which places were killed by their own clock.

    Everyone's other is its successor in a random cycle through all places: uniform, and no two copies meet.
    """
    n = len(weights)
    shuffle, ring = jax.random.split(key)
    cycle = jax.random.permutation(shuffle, n)
    after, before = (jnp.zeros_like(cycle).at[cycle].set(jnp.roll(cycle, turn)) for turn in (-1, 1))
    dying = growth < 0
    copied = jnp.where(dying, weights[after], weights) * (n - 1)
    rate = jnp.abs(growth) * (copied if copying else jnp.where(dying, 1.0, copied))
    rings = jax.random.uniform(ring, (n,), growth.dtype) < -jnp.expm1(-rate * dt.astype(growth.dtype))
    killed, born = rings & dying, rings & ~dying & births
    source = jnp.where(killed & copying, after, jnp.arange(n))
    return jnp.where(born[before], before, source), killed & ~born[before]
