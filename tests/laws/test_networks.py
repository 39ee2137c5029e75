"""Networks beside their laws (test_members.py): averages are equivariant, and everything that is a network."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra.groups import Cyclic
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.reduction import reduce_by_orbits
from haarflow.errors import Refusal
from haarflow.learning.averaging import average_network
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.learning.symmetry import average, orbit_closure
from haarflow.measures.actions import action_matrices
from haarflow.measures.clouds import Cloud
from haarflow.members import members
from haarflow.models.networks import CustomNetwork, Mean, Network, network
from haarflow.models.residual import Residual
from haarflow.models.units import Dense, Perceptron

CASES = members(Network)


def shown(member):
    return type(member).__name__ if isinstance(member, Network) else ""


def cloud_for(model, n=4, seed=0):
    draw = np.random.default_rng(seed)
    return Cloud(draw.normal(size=(n, model.dim)), draw.dirichlet(np.ones(n)))


def inputs_for(model, b=5):
    return jnp.asarray(np.random.default_rng(9).normal(size=(b, model.inputs)))


@eqx.filter_jit
def value(model, cloud, xs):
    return model(cloud, xs)


@pytest.mark.parametrize(("model", "on_x", "on_y"), CASES, ids=shown)
def test_the_average_of_a_network_is_equivariant_and_averages_by_hand(model, on_x, on_y):
    mu, xs = cloud_for(model), inputs_for(model)
    mean = average_network(model, on_x, on_y)
    tables = [*zip(action_matrices(on_x, on_x.dim), action_matrices(on_y, on_y.dim), strict=True)]
    by_hand = np.mean([value(model, mu, xs @ into.T) @ out for into, out in tables], axis=0)
    np.testing.assert_allclose(value(mean, mu, xs), by_hand, atol=1e-13)
    assert mean.proves_equivariant(on_x, on_y)
    for into, out in tables:
        np.testing.assert_allclose(value(mean, mu, xs @ into.T), value(mean, mu, xs) @ out.T, atol=1e-12)
    if not model.proves_equivariant(on_x, on_y):
        assert np.abs(by_hand - value(model, mu, xs)).max() > 1e-3


def test_a_unit_a_network_and_a_function_are_networks():
    unit, xs = Perceptron(2, 1, "tanh"), np.random.default_rng(0).normal(size=(5, 2))
    mu, sample = cloud_for(unit), Sample(xs, np.sin(xs[:, :1]))
    given = unit, Mean(unit), lambda cloud, xs: network(unit, cloud, xs), Residual((unit,))
    for one in given:
        np.testing.assert_allclose(network(one, mu, xs), network(unit, mu, xs), rtol=1e-13)
        np.testing.assert_allclose(Risk(one, sample)(mu), Risk(unit, sample)(mu), rtol=1e-13)
        for found, known in zip(Risk(one, sample).variation(mu), Risk(unit, sample).variation(mu), strict=True):
            np.testing.assert_allclose(found, known, rtol=1e-10, atol=1e-14)
    assert isinstance(Risk(given[2], sample).network, CustomNetwork)
    assert Risk(unit, sample).unit is unit


@pytest.mark.slow
def test_a_linear_network_of_any_kind_is_reduced_and_a_residual_one_is_not():
    """The network of users that is linear is averaged whole; where it is not linear that would be wrong."""

    class Doubled(Network):
        """Twice the mean of a unit, by a formula that the library does not know."""

        unit: Dense

        linear = True
        dim = property(lambda self: self.unit.dim)
        inputs = property(lambda self: self.unit.inputs)
        outputs = property(lambda self: self.unit.outputs)

        def __call__(self, cloud, xs):
            return 2 * network(self.unit, cloud, xs)

        def action(self, on_x, on_y):
            return self.unit.action(on_x, on_y)

        @classmethod
        def examples(cls):
            return []

    on_x, on_y = natural_rep(Cyclic(3)), trivial_rep(Cyclic(3))
    model = Doubled(Dense(3, 1, "sigmoid"))
    xs = np.random.default_rng(2).normal(size=(4, 3))
    data = orbit_closure(Sample(xs, np.cos(xs[:, :1])), on_x, on_y)
    start = cloud_for(model, n=3)
    cloud = start.orbit(model.action(on_x, on_y))
    field, key = Descend(Risk(model, data)), jax.random.key(0)
    small = reduce_by_orbits(field, cloud, on_x, on_y)
    found, known = small.field(key, small.cloud).velocity, field(key, cloud).velocity[: start.n]
    np.testing.assert_allclose(found, known, atol=1e-12)
    deep = Residual((Dense(3, 3, "tanh"), Dense(3, 1)))
    orbit = cloud_for(deep).orbit(deep.action(on_x, on_y))
    with pytest.raises(Refusal, match=r"where it is linear in the cloud; got a Residual, which is not. Flow the whole"):
        reduce_by_orbits(Descend(Risk(deep, data)), orbit, on_x, on_y)


def test_the_average_of_a_mean_is_the_mean_of_the_averaged_unit():
    swap = natural_rep(Cyclic(2))
    found = average_network(Dense(2, 2), swap, swap)
    assert isinstance(found, Mean)
    np.testing.assert_array_equal(found.unit.on_x, average(Dense(2, 2), swap, swap).on_x)
