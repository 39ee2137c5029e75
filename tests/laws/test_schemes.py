"""Schemes beside their laws (test_members.py): noise, growth, temperature, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Adaptive, Euler, Langevin, Optax
from haarflow.errors import Refusal
from haarflow.learning.risks import Penalty, Risk
from haarflow.measures.clouds import Cloud, uniform

KEY = jax.random.key(2)
FIELD = Descend(Risk.examples()[0] + Penalty(0.2), growth=1.5)


def start(n=5):
    keys = jax.random.split(jax.random.key(8))
    return Cloud(jax.random.normal(keys[0], (n, 4)), jax.nn.softmax(jax.random.normal(keys[1], (n,))))


def shown(scheme):
    return type(scheme).__name__


@pytest.mark.parametrize("scheme", [Adaptive(), Optax(optax.sgd(1.0))], ids=shown)
def test_a_small_step_follows_the_field(scheme):
    h, cloud = 1e-6, start()
    moved, _ = scheme.step(KEY, FIELD, cloud, scheme.start(cloud), jnp.asarray(h))
    tangent = FIELD(KEY, cloud)
    np.testing.assert_allclose((moved.atoms - cloud.atoms) / h, tangent.velocity, atol=1e-5)
    np.testing.assert_allclose((moved.weights - cloud.weights) / h, cloud.weights * tangent.growth, atol=1e-5)


def test_sgd_with_decay_and_noise_is_the_literal_recursion():
    """z ← (1 − s tau) z + sqrt(2 beta s) xi: weight decay by s·tau, and the factor two under the root."""
    s, tau, beta, cloud = 0.1, 0.7, 0.3, start()
    still = Langevin(Euler(), 0.0).step(KEY, Descend(Penalty(tau)), cloud, (), jnp.asarray(s))[0]
    np.testing.assert_allclose(still.atoms, (1 - s * tau) * cloud.atoms, rtol=1e-14)
    loud = Langevin(Euler(), beta).step(KEY, Descend(Penalty(tau)), cloud, (), jnp.asarray(s))[0]
    unit = Langevin(Euler(), 0.5).step(KEY, Descend(Penalty(0.0)), cloud, (), jnp.asarray(1.0))[0].atoms - cloud.atoms
    np.testing.assert_allclose(loud.atoms - still.atoms, np.sqrt(2 * beta * s) * unit, rtol=1e-12)


def test_projected_noise_is_the_projection_of_the_shared_noise():
    projector = np.full((4, 4), 0.25)
    field = Descend(Penalty(0.0))
    free, held = (
        Langevin(Euler(), 1.0, projector=p).step(KEY, field, start(), (), jnp.asarray(0.1))[0].atoms - start().atoms
        for p in (None, projector)
    )
    np.testing.assert_allclose(held, free @ projector, atol=1e-15)


def test_the_stationary_law_has_the_stated_temperature():
    """Under ½ tau|θ|² the variance tends to beta/tau: a wrong noise factor is off by two.

    20 000 particles: the variance is known to 0.5% (one sigma, four coordinates), the bound is 2.5%, so the
    false-alarm rate is below 1e-6; the Euler bias s·tau/2 is 0.5% and allowed for.
    """
    cloud = uniform(jnp.zeros((20_000, 4)))
    path = flow(Descend(Penalty(2.0)), Langevin(Euler(), 0.5), cloud, key=KEY, dt=0.005, steps=500)
    assert abs(float(path.cloud.atoms.var()) / 0.25 - 1) < 0.025


def test_growth_alone_is_the_replicator():
    """p_k(t) ∝ p_k exp(−alpha t F_k), exactly, for a potential that does not depend on the cloud."""
    cloud, alpha, t = start(), 1.3, 2.0
    field = Descend(Penalty(0.4), transport=0.0, growth=alpha)
    path = flow(field, Euler(), cloud, key=KEY, dt=t / 50, steps=50)
    exact = cloud.weights * jnp.exp(-alpha * t * 0.2 * (cloud.atoms**2).sum(1))
    np.testing.assert_allclose(path.cloud.weights, exact / exact.sum(), rtol=1e-12)
    np.testing.assert_array_equal(path.cloud.atoms, cloud.atoms)


def test_refusals():
    with pytest.raises(Refusal, match="A Langevin's temperature is a finite number >= 0; got -0.1"):
        Langevin(Euler(), -0.1)
    with pytest.raises(Refusal, match="A Langevin's temperature is a finite number; got nan"):
        Langevin(Euler(), float("nan"))
    with pytest.raises(Refusal, match=r"wraps an optax transformation; got 0.1. Write Optax\(optax.adam\(1.0\)\)"):
        Optax(0.1)
