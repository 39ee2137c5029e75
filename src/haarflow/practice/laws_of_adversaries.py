"""The laws of objectives, generators and discriminators: who gains by what, and that a symmetry is kept."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from haarflow.algebra.reps import Rep
from haarflow.learning.objectives import Objective
from haarflow.models.adversaries import Discriminator, Generator, moved_by
from haarflow.practice.laws import law
from haarflow.practice.laws_of_models import off
from haarflow.practice.testing import QUICK_TO_COMPILE


def _scores(seed: int):
    draw = np.random.default_rng(seed)
    return 2 * draw.normal(size=7), 2 * draw.normal(size=7)


@eqx.filter_jit(compiler_options=QUICK_TO_COMPILE)  # pyright: ignore[reportCallIssue]
def _gains(objective: Objective, true, made):
    tells = jax.grad(objective.discriminator_loss, argnums=(0, 1))(true, made)
    return *tells, jax.grad(objective.generator_loss, argnums=1)(true, made)


@law(Objective, 0.0)
def each_player_gains_by_the_scores_it_wants(objective):
    """The discriminator's loss never rises with a true score nor falls with a made one; the generator's never rises."""
    worst = 0.0
    for seed in range(4):
        up, down, wanted = (np.asarray(one) for one in _gains(objective, *map(jnp.asarray, _scores(seed))))
        worst = max(worst, up.max(), -down.min(), wanted.max())
    return worst


@law(Objective, 1e-12)
def slopes_are_fined_more_where_they_are_steeper(objective):
    """The penalty is zero without slopes, and never falls as they grow."""
    squares = np.linspace(0, 4, 9)
    fines = np.array([float(objective.penalty(jnp.full(3, one))) for one in squares])
    return max(abs(fines[0]), float(np.max(-np.diff(fines))))


def _elements(rep: Rep, n: int):
    return rep.group.draw(jax.random.key(11), n)


@eqx.filter_jit(compiler_options=QUICK_TO_COMPILE)  # pyright: ignore[reportCallIssue]
def _both_ways(generator: Generator):
    moves = _elements(generator.on_x, 6)
    u = jax.random.normal(jax.random.key(12), (6, generator.on_u.dim), float)
    later = moved_by(generator.on_x, moves, generator.finish(u))
    return later, generator.finish(moved_by(generator.on_u, moves, u))


@law(Generator, 1e-10)
def what_is_made_moves_with_the_latent_point(generator):
    """`finish` commutes with the group, relative to the largest value."""
    later, before = _both_ways(generator)
    return off(later, before)


@eqx.filter_jit(compiler_options=QUICK_TO_COMPILE)  # pyright: ignore[reportCallIssue]
def _scored(discriminator: Discriminator):
    moves = _elements(discriminator.on_x, 6)
    x = jax.random.normal(jax.random.key(13), (6, discriminator.on_x.dim), float)
    return discriminator.scores(x), discriminator.scores(moved_by(discriminator.on_x, moves, x))


@law(Discriminator, 1e-10)
def scores_do_not_move(discriminator):
    """Scores of moved points are those of the points, relative to the spread of the scores."""
    here, there = map(np.asarray, _scored(discriminator))
    return float(np.abs(here - there).max() / here.std(axis=0).min())
