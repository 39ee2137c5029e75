"""Units beside their laws (test_members.py): networks, export, and what is refused."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra.groups import Cyclic, Dihedral, Signs
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.errors import Refusal
from haarflow.learning.symmetry import symmetrise
from haarflow.measures.clouds import uniform
from haarflow.members import members
from haarflow.models.networks import network
from haarflow.models.units import Custom, Dense, Perceptron, Unit

UNITS = [unit for unit, *_ in members(Unit)]


def points(unit, n=5, b=4):
    keys = jax.random.split(jax.random.key(7))
    return jax.random.normal(keys[0], (n, unit.dim)), jax.random.normal(keys[1], (b, unit.inputs))


def test_a_network_is_the_average_over_the_cloud():
    unit = Dense(2, 2)
    thetas, xs = points(unit, n=3)
    expected = np.mean([[unit(theta, x) for x in xs] for theta in thetas], axis=0)
    np.testing.assert_allclose(network(unit, uniform(thetas), xs), expected, rtol=1e-13)


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_a_network_is_exported_for_every_size_of_batch(unit):
    thetas, xs = points(unit, b=70)
    cloud, (b,) = uniform(thetas), jax.export.symbolic_shape("b")
    shape = jax.ShapeDtypeStruct((b, unit.inputs), xs.dtype)
    exported = jax.export.export(jax.jit(lambda xs: network(unit, cloud, xs)))(shape)
    for size in (1, 70):
        np.testing.assert_allclose(exported.call(xs[:size]), network(unit, cloud, xs[:size]), rtol=1e-12, atol=1e-13)


def test_an_action_that_does_not_commute_is_refused_with_the_element_and_the_size():
    signs = natural_rep(Signs(2))
    with pytest.raises(Refusal, match=r"violation of [\d.]+ at g = \[\[.*-1\.0"):
        Dense(2, 2, "sigmoid").action(signs, signs)
    Dense(2, 2, "tanh").action(signs, signs)


def test_a_users_function_with_a_wrong_action_is_refused():
    swap = natural_rep(Cyclic(2))
    skew = Custom(
        lambda theta, x: jnp.tanh(theta * x).sum()[None], 2, 2, 1, lambda on_x, on_y: trivial_rep(swap.group, 2)
    )
    with pytest.raises(Refusal, match="relative violation"):
        skew.action(swap, trivial_rep(swap.group))


def test_sizes_that_do_not_fit_are_refused():
    swap = natural_rep(Cyclic(2))
    with pytest.raises(Refusal, match=r"A Dense from R\^3 to R\^1 needs representations of those sizes; got on_x of"):
        Dense(3, 1).action(swap, swap)
    with pytest.raises(Refusal, match=r"has 4 parameters; got atoms in R\^3"):
        network(Perceptron(2), uniform(np.ones((5, 3))), jnp.ones((1, 2)))
    with pytest.raises(Refusal, match="An activation is one of cos, erf, ramp, .*; got 'swish'"):
        Dense(2, 2, "swish")


@pytest.mark.parametrize("kind", [int, float, np.float32, bool])
def test_a_symmetrised_function_is_equivariant_whatever_the_type_of_its_values(kind):
    """The matrices of the group of the triangle are no whole numbers: cast to those they would be zero."""
    plane = natural_rep(Dihedral(3))
    xs = np.random.default_rng(0).normal(size=(6, 2))
    even = symmetrise(lambda rows: (3 * rows > 0.5).astype(kind), plane, plane)
    for g in plane.matrices():
        np.testing.assert_allclose(even(xs @ g.T), even(xs) @ g.T, atol=1e-6)
    by_hand = np.mean([(3 * xs @ g.T > 0.5).astype(float) @ g for g in plane.matrices()], axis=0)
    np.testing.assert_allclose(even(xs), by_hand, atol=1e-6)
    np.testing.assert_allclose(even([[1, 2]]), even([[1.0, 2.0]]))
