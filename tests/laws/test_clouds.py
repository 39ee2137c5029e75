"""Clouds: push-forward, orbit, projection and resampling obey the laws of measures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra.groups import Cyclic, Dihedral, PlanarRotations, Signs, Symmetric
from haarflow.algebra.lie_groups import SpecialOrthogonal
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.measures.clouds import Cloud, stack_clouds, uniform

REPS = [
    natural_rep(Cyclic(3)),
    natural_rep(PlanarRotations(5)),
    natural_rep(Dihedral(3)) + trivial_rep(Dihedral(3), 2),
    natural_rep(Signs(2)) * natural_rep(Signs(2)),
    natural_rep(Symmetric(3)).hom(natural_rep(Symmetric(3))),
]


def lopsided(p: int, n: int = 7, seed: int = 0) -> Cloud:
    """A cloud without symmetry: uneven weights, atoms off centre."""
    draw = np.random.default_rng([seed, p, n])
    weights = draw.random(n) + 0.1
    return Cloud(draw.normal(size=(n, p)) + np.arange(p), weights / weights.sum())


def integral(cloud: Cloud, function) -> float:
    return float(cloud.weights @ jax.vmap(function)(cloud.atoms))


def test_a_push_forward_integrates_the_composed_function():
    cloud = lopsided(3)
    bent = cloud.push(lambda z: jnp.stack([z[0] * z[1], jnp.sin(z[2])]))
    assert np.isclose(
        integral(bent, lambda y: y[0] + y[1] ** 2),
        integral(cloud, lambda z: z[0] * z[1] + jnp.sin(z[2]) ** 2),
    )


def test_a_matrix_pushes_as_its_function_does():
    cloud, matrix = lopsided(3), np.arange(6.0).reshape(2, 3)
    by_function = cloud.push(lambda z: jnp.asarray(matrix) @ z)
    np.testing.assert_allclose(cloud.push(matrix).atoms, by_function.atoms, rtol=1e-14)
    np.testing.assert_array_equal(cloud.push(matrix).weights, cloud.weights)


@pytest.mark.parametrize("rep", REPS, ids=repr)
def test_the_orbit_averages_every_function_over_the_group(rep):
    cloud = lopsided(rep.dim)

    def function(z):
        return jnp.sin(z @ jnp.arange(1.0, rep.dim + 1))

    averaged = np.mean([integral(cloud.push(turn), function) for turn in rep.matrices()])
    assert np.isclose(integral(cloud.orbit(rep), function), averaged, rtol=0, atol=1e-13)


@pytest.mark.parametrize("rep", REPS, ids=repr)
def test_an_orbit_is_weakly_invariant_and_starts_with_the_cloud_itself(rep):
    cloud = lopsided(rep.dim)
    orbit = cloud.orbit(rep)
    np.testing.assert_allclose(orbit.atoms[: cloud.n], cloud.atoms, atol=1e-14)

    def function(z):
        return jnp.cos(z @ jnp.arange(1.0, rep.dim + 1) + 0.3)

    for turn in rep.matrices():
        assert np.isclose(integral(orbit.push(turn), function), integral(orbit, function), atol=1e-13)


@pytest.mark.parametrize("rep", REPS, ids=repr)
def test_the_projection_lies_on_the_fixed_space_and_keeps_the_orbits_mean(rep):
    cloud = lopsided(rep.dim)
    projected = cloud.project(rep)
    for turn in rep.matrices():
        np.testing.assert_allclose(projected.push(turn).atoms, projected.atoms, atol=1e-12)
    np.testing.assert_allclose(projected.mean(), cloud.orbit(rep).mean(), atol=1e-12)
    np.testing.assert_allclose(cloud.project(rep.fixed_projector()).atoms, projected.atoms, atol=1e-14)


def test_an_infinite_group_is_averaged_over_the_elements_given():
    rep = natural_rep(SpecialOrthogonal(3))
    turns = rep.group.haar(jax.random.key(0), 4)
    orbit = lopsided(3).orbit(rep, elements=turns)
    assert orbit.n == 28
    expected = np.mean([lopsided(3).push(np.asarray(turn)).mean() for turn in turns], axis=0)
    np.testing.assert_allclose(orbit.mean(), expected, atol=1e-13)


def test_moments_are_those_of_the_weighted_atoms():
    cloud = Cloud([[1.0, 0.0], [0.0, 2.0]], [0.25, 0.75])
    np.testing.assert_allclose(cloud.mean(), [0.25, 1.5])
    assert float(cloud.second_moment()) == 3.25
    assert (cloud.n, cloud.p) == (2, 2)


def test_resampling_draws_atoms_in_proportion_to_their_weights():
    """Five standard deviations of a binomial: a false alarm once in two million keys."""
    cloud = Cloud([[0.0], [1.0], [2.0]], [0.7, 0.3, 0.0])
    drawn = cloud.resample(jax.random.key(3), 10_000)
    assert drawn.n == 10_000
    assert np.ptp(drawn.weights) == 0
    assert abs(float(drawn.mean()[0]) - 0.3) < 5 * (0.3 * 0.7 / 10_000) ** 0.5
    assert float(drawn.atoms.max()) == 1.0


def test_clouds_pass_through_jit_grad_and_vmap():
    clouds = [lopsided(2, seed=s) for s in range(3)]
    means = jax.jit(jax.vmap(Cloud.mean))(stack_clouds(clouds))
    np.testing.assert_allclose(means, [cloud.mean() for cloud in clouds], rtol=1e-14)
    slope = jax.grad(lambda cloud: cloud.second_moment())(clouds[0])
    np.testing.assert_allclose(slope.atoms, 2 * clouds[0].weights[:, None] * clouds[0].atoms)


def test_integers_become_floats_and_single_precision_stays():
    assert uniform([[1, 2], [3, 4]]).atoms.dtype == jnp.float64
    single = uniform(np.ones((3, 2), np.float32))
    assert single.atoms.dtype == single.orbit(natural_rep(Cyclic(2))).atoms.dtype == jnp.float32


def test_weights_take_the_precision_of_the_atoms():
    """A coarser weight is made to sum to one again, so that what is made of the cloud is a cloud."""
    thirds = np.full(3, 1 / 3)
    for kind in (np.float16, np.float32, np.float64, np.longdouble):
        one = Cloud(np.eye(3, dtype=kind), thirds)
        assert one.weights.dtype == one.atoms.dtype == (jnp.float64 if np.dtype(kind).itemsize >= 8 else jnp.float32)
    mixed = Cloud(np.eye(3), thirds.astype(np.float32)).push(np.eye(3))
    assert abs(float(mixed.weights.sum()) - 1) < 1e-15


def test_keys_of_both_kinds_and_seeds_draw_the_same():
    draws = [lopsided(2).resample(key, 5).atoms for key in (3, jax.random.key(3), jax.random.PRNGKey(3))]
    assert all(np.array_equal(draws[0], other) for other in draws)


def test_a_stack_is_pushed_turned_and_measured_cloud_by_cloud():
    clouds, rep = [lopsided(2, seed=s) for s in range(3)], natural_rep(PlanarRotations(5))
    together = stack_clouds(clouds)
    for act in (lambda c: c.push(lambda z: jnp.sin(z[:1])), lambda c: c.orbit(rep), lambda c: c.project(rep)):
        np.testing.assert_allclose(act(together).atoms, [act(one).atoms for one in clouds], atol=1e-14)
    np.testing.assert_allclose(together.mean(), [one.mean() for one in clouds], atol=1e-14)
    np.testing.assert_allclose(together.second_moment(), [one.second_moment() for one in clouds], atol=1e-13)
