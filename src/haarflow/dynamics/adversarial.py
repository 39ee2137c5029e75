"""A generator against a discriminator as a field of two players: their parameters are clouds of one atom each."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PRNGKeyArray

from haarflow.algebra.reps import Rep
from haarflow.algebra.tables import static
from haarflow.dynamics.fields import Field, Tangent
from haarflow.learning.objectives import Objective
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.adversaries import (
    Discriminator,
    Generator,
    moved_by_haar,
)

GENERATOR, DISCRIMINATOR = "generator", "discriminator"


class Adversarial(Field):
    """The slopes of an objective for the players "generator" and "discriminator", on batches of data.

    Each player is one atom: all parameters of its network in a row, see `parameters`. Batches are drawn with
    replacement; with `augmented`, every true point is moved by a random element of the group.
    """

    objective: Objective
    generator: Generator
    discriminator: Discriminator
    xs: Float[Array, "m d"]
    labels: Int[Array, " m"] | None
    batch: int = static()
    augmented: Rep | None = static(default=None)

    def __call__(self, key, clouds):
        rows, made, moves, between = jax.random.split(key, 4)
        generator = with_parameters(self.generator, clouds[GENERATOR])
        discriminator = with_parameters(self.discriminator, clouds[DISCRIMINATOR])
        places = jax.random.randint(rows, (self.batch,), 0, len(self.xs))
        true, labels = self.xs[places], None if self.labels is None else self.labels[places]
        if self.augmented is not None:
            true = moved_by_haar(moves, self.augmented, true)

        def lost(one: Generator) -> Any:
            drawn = one.draw(made, self.batch, labels)
            return self.objective.generator_loss(discriminator(true, labels), discriminator(drawn, labels))

        def paid(one: Discriminator) -> Any:
            drawn = jax.lax.stop_gradient(generator.draw(made, self.batch, labels))
            scores = one(jnp.concatenate([true, drawn]), None if labels is None else jnp.tile(labels, 2))
            loss = self.objective.discriminator_loss(scores[: self.batch], scores[self.batch :])
            return loss + self.fined(between, one, true, drawn, labels)

        return {GENERATOR: _downhill(lost, generator), DISCRIMINATOR: _downhill(paid, discriminator)}

    def fined(self, key: PRNGKeyArray, discriminator: Discriminator, true: Array, drawn: Array, labels: Any) -> Array:
        """What the discriminator pays for its slopes."""
        where = self.objective.slopes_at
        if where == "nowhere":
            return jnp.zeros((), true.dtype)
        share = jax.random.uniform(key, (len(true), 1), true.dtype) if where == "between" else 1.0
        slopes = jax.grad(lambda x: jnp.sum(discriminator(x, labels)))(share * true + (1 - share) * drawn)
        return self.objective.penalty(jnp.sum(slopes**2, axis=1))

    @classmethod
    def examples(cls):
        return []  # its players have names and sizes of their own


def _downhill(loss: Any, network: eqx.Module) -> Tangent:
    slopes = eqx.filter_grad(loss)(network)
    return Tangent(-ravel_pytree(eqx.filter(slopes, eqx.is_inexact_array))[0][None])


def parameters(network: eqx.Module) -> Cloud:
    """All parameters of a network in a row, as a cloud of one atom."""
    return uniform(ravel_pytree(eqx.filter(network, eqx.is_inexact_array))[0][None])


def with_parameters(network: Any, cloud: Cloud) -> Any:
    """The network with the parameters of a cloud of one atom."""
    numbers, rest = eqx.partition(network, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(numbers)
    ends = np.cumsum([leaf.size for leaf in leaves])
    rows = jnp.split(cloud.atoms[0], ends[:-1])
    found = [row.reshape(leaf.shape) for row, leaf in zip(rows, leaves, strict=True)]
    return eqx.combine(jax.tree.unflatten(tree, found), rest)
