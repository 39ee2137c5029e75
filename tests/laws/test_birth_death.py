"""Birth–death jumps: unbiased for every weighted cloud, whatever the sign of the growth; memory follows the copies."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from haarflow.dynamics.birth_death import BirthDeath, jumps
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler, Optax, Scheme
from haarflow.errors import Refusal
from haarflow.learning.risks import Penalty
from haarflow.measures.clouds import Cloud, uniform
from haarflow.members import members

WEIGHTS = jnp.array([0.1, 0.3, 0.05, 0.25, 0.3])


def growth(weights, potential):
    return -1.5 * (potential - weights @ potential)


@pytest.mark.parametrize("weights", [WEIGHTS, jnp.full(5, 0.2)], ids=["weighted", "equal"])
@pytest.mark.parametrize("copying", [True, False])
def test_the_mean_of_the_jumps_is_the_growth(weights, copying):
    """40 000 draws of a step dt = 0.02; false-alarm rate below 1e-3 (five sigma at five atoms), O(dt²) allowed for."""
    rate, dt, draws = growth(weights, jnp.array([0.0, 1.0, -2.0, 0.7, 0.4])), 0.02, 40_000

    @jax.vmap
    def after(key):
        source, killed = jumps(key, weights, rate, jnp.asarray(dt), copying=copying)
        fresh = killed & (not copying)
        return jnp.zeros(6).at[jnp.where(fresh, 5, source)].add(weights)

    laws = np.asarray(jax.jit(after)(jax.random.split(jax.random.key(1), draws)))
    change = (laws.mean(0) - np.append(weights, 0)) / dt
    expected = np.append(weights * rate, 0)
    if not copying:  # the mass of the killed goes to the prior instead of to everyone
        lost = float(weights @ jnp.maximum(-rate, 0))
        expected += lost * np.append(-weights, 1)
    sigma = laws.std(0) / np.sqrt(draws) / dt
    second_order = dt * float(jnp.abs(rate).max()) ** 2 / 2
    assert (np.abs(change - expected) < 5 * sigma + second_order * 0.2).all()


def test_every_other_is_equally_likely():
    """chi² over the nine others of one place, 9000 draws: 8 degrees of freedom, bound at a false-alarm rate of 1e-4."""
    rate = jnp.full(10, -1e9)
    draw = jax.jit(jax.vmap(lambda key: jumps(key, jnp.full(10, 0.1), rate, jnp.asarray(1.0))[0][3]))
    source = draw(jax.random.split(jax.random.key(2), 9000))
    counts = np.bincount(np.asarray(source), minlength=10)
    assert counts[3] == 0
    others = np.delete(counts, 3)
    assert ((others - 1000) ** 2 / 1000).sum() < 31.8


def test_a_birth_goes_over_a_uniform_other():
    rate = jnp.full(6, -1e-9).at[2].set(1e9)
    draw = jax.jit(jax.vmap(lambda key: jumps(key, jnp.full(6, 1 / 6), rate, jnp.asarray(1.0))[0]))
    source = draw(jax.random.split(jax.random.key(3), 3000))
    victims = np.asarray((source == 2).sum(0))
    assert victims[2] == 3000
    assert ((np.delete(victims, 2) - 600) ** 2 / 600).sum() < 23.5  # chi², 4 degrees of freedom, 1e-4


def test_transport_is_the_inner_scheme_where_nothing_grows():
    cloud = uniform(jax.random.normal(jax.random.key(0), (7, 4)))
    still = Descend(Penalty(0.5), growth=0.0)
    ends = [flow(still, s, cloud, key=jax.random.key(4), dt=0.1, steps=5).cloud for s in (Euler(), BirthDeath(Euler()))]
    np.testing.assert_array_equal(ends[0].atoms, ends[1].atoms)


def test_the_killed_come_back_from_the_prior():
    """Of two particles the worse is killed at rate g or overwritten at rate g/2: 4000 draws, five sigma."""
    cloud = uniform(jnp.array([[0.0], [1.0]]))
    field = Descend(Penalty(4.0), transport=0.0, growth=1.0)  # growth +1 and −1
    scheme = BirthDeath(Euler(), prior=lambda key, n: jnp.full((n, 1), 7.0))
    step = jax.jit(jax.vmap(lambda key: scheme.step(key, field, cloud, (), jnp.asarray(1.0))[0].atoms[:, 0]))
    atoms = np.asarray(step(jax.random.split(jax.random.key(6), 4000)))
    assert (atoms[:, 0] == 0).all()
    overwritten = 1 - np.exp(-0.5)
    assert abs(np.mean(atoms[:, 1] == 0) - overwritten) < 0.04
    assert abs(np.mean(atoms[:, 1] == 7) - (1 - overwritten) * (1 - np.exp(-1))) < 0.04


def test_without_births_nobody_is_copied():
    """Of two particles the worse is killed at rate g and replaced, and the better never copied: 4000 draws."""
    cloud = uniform(jnp.array([[0.0], [1.0]]))
    field = Descend(Penalty(4.0), transport=0.0, growth=1.0)
    scheme = BirthDeath(Euler(), prior=lambda key, n: jnp.full((n, 1), 7.0), births=False)
    step = jax.jit(jax.vmap(lambda key: scheme.step(key, field, cloud, (), jnp.asarray(1.0))[0].atoms[:, 0]))
    atoms = np.asarray(step(jax.random.split(jax.random.key(6), 4000)))
    assert (atoms[:, 0] == 0).all()
    assert set(np.unique(atoms[:, 1])) == {1.0, 7.0}
    assert abs(np.mean(atoms[:, 1] == 7) - (1 - np.exp(-1))) < 0.04
    with pytest.raises(Refusal, match=r"without births fills the places of the killed from a prior; got no prior"):
        BirthDeath(Euler(), births=False)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 2), ()])
def test_a_prior_of_another_shape_is_refused(shape):
    scheme = BirthDeath(Euler(), prior=lambda key, n: jnp.ones(shape))
    cloud, field = uniform(jnp.array([[0.0], [1.0]])), Descend(Penalty(4.0), growth=1.0)
    with pytest.raises(Refusal, match=r"prior draws atoms of shape \(2, 1\) for \(key, 2\); got the shape"):
        flow(field, scheme, cloud, key=0, dt=0.1, steps=2)


def test_a_prior_that_draws_words_or_is_none_is_refused():
    cloud, field = uniform(jnp.array([[0.0], [1.0]])), Descend(Penalty(4.0), growth=1.0)
    with pytest.raises(Refusal, match="A BirthDeath scheme's prior is an array of real numbers; got"):
        flow(field, BirthDeath(Euler(), prior=lambda key, n: "atoms"), cloud, key=0, dt=0.1, steps=2)
    with pytest.raises(Refusal, match="A BirthDeath's prior is a function; got 3"):
        BirthDeath(Euler(), prior=3)
    with pytest.raises(Refusal, match="A BirthDeath's inner is a Scheme; got"):
        BirthDeath("Euler")


def test_memory_follows_the_copies():
    cloud = uniform(jnp.arange(8.0).reshape(4, 2))
    field = Descend(Penalty(1.0), growth=1e6)
    scheme = BirthDeath(Optax(optax.sgd(1.0, momentum=0.9)))
    step = eqx.filter_jit(lambda key: scheme.step(key, field, cloud, scheme.start(cloud), jnp.asarray(1e-3)))
    moved, state = step(jax.random.key(5))
    trace = jax.tree.leaves(state)[0]
    np.testing.assert_allclose(moved.atoms, trace - 1e-3 * trace, rtol=1e-12)  # momentum = gradient = old atom
    assert len(np.unique(np.asarray(trace)[:, 0])) < 4


def test_it_is_a_member_and_refuses_a_field_that_does_not_grow():
    assert any(isinstance(scheme, BirthDeath) for scheme in members(Scheme))
    cloud = Cloud(jnp.zeros((2, 1)), jnp.array([0.5, 0.5]))
    with pytest.raises(Refusal, match=r"turns a field's growth into jumps; got a field without growth"):
        BirthDeath(Euler()).step(jax.random.key(0), Descend(Penalty(1.0)), cloud, (), jnp.asarray(0.1))
