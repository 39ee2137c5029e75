"""The reduced equations against symmetrised clouds in full dimension, quadrature and published values."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi

from haarflow.dynamics.reduced import (
    best_norm,
    radial_risk,
    ramp_average,
    reduced_risk,
    reduced_start,
)
from haarflow.errors import Refusal
from haarflow.learning.optima import optimum
from haarflow.learning.sphere import ReluLimit, ReluRisk, angle_quadrature, known_and_rest
from haarflow.measures.clouds import Cloud, uniform

LAW = Cloud(
    np.array([[1.0, 0.3, 0.8], [-0.7, -0.5, 0.4], [0.9, 1.1, 0.2], [0.2, -0.2, 1.3]]), np.array([0.4, 0.3, 0.2, 0.1])
)
TEACHER = uniform(np.array([[1.0, 1.0], [-0.5, 0.4]]))


VARIATION = eqx.filter_jit(lambda functional, cloud: functional.variation(cloud))


def turned(cloud, count):
    """Particles (a, s, r) in R^3, each with its rest turned to `count` angles."""
    angle = 2 * np.pi * (np.arange(count) + 0.25) / count
    a, s, r = (np.repeat(column, count) for column in np.asarray(cloud.atoms).T)
    around = np.tile(angle, cloud.n)
    atoms = np.column_stack([a, s, r * np.cos(around), r * np.sin(around)])
    return Cloud(atoms, np.repeat(np.asarray(cloud.weights), count) / count)


def test_the_reduced_risk_is_that_of_the_rotated_cloud():
    reduced = reduced_risk(TEACHER, 3, nodes=32)
    padded = np.column_stack([np.asarray(TEACHER.atoms), np.zeros((2, 2))])
    risk, full = ReluRisk(uniform(padded)), turned(LAW, 64)
    found, wanted = VARIATION(reduced, LAW), VARIATION(risk, full)
    first = np.arange(4) * 64
    np.testing.assert_allclose(found.potential, wanted.potential[first], rtol=1e-5)
    outwards = full.atoms[first, 2:] / LAW.atoms[:, 2:]
    radial = jnp.sum(wanted.velocity[first, 2:] * outwards, axis=1)
    np.testing.assert_allclose(found.velocity[:, :2], wanted.velocity[first, :2], rtol=1e-4)
    np.testing.assert_allclose(found.velocity[:, 2], radial, rtol=1e-4, atol=1e-7)
    same = VARIATION(ReluLimit(TEACHER, 3, nodes=32), LAW)
    np.testing.assert_allclose(same.potential, found.potential, rtol=1e-12)
    np.testing.assert_allclose(same.velocity, found.velocity, rtol=1e-11)


@pytest.mark.parametrize("dim", [2, 3, 9, 39])
def test_the_angle_has_the_moments_of_the_sphere(dim):
    cosines, shares = angle_quadrature(dim, 8)
    np.testing.assert_allclose(shares @ cosines**2, 1 / dim, rtol=1e-12)
    np.testing.assert_allclose(shares @ cosines**4, 3 / (dim * (dim + 2)), rtol=1e-12)


@pytest.mark.parametrize("d", [4, 40])
def test_the_start_has_the_law_of_gaussian_weights(d):
    start = reduced_start(d, outputs=(2.0, -1.0), scale=1.3, along=6, across=4)
    a, s, r = np.asarray(start.atoms).T
    weights, width = np.asarray(start.weights), 1.3 / np.sqrt(d)
    np.testing.assert_allclose([weights @ a, weights @ s, weights @ s**2], [0.5, 0, width**2], atol=1e-12)
    for power in (2, 4, 6):
        np.testing.assert_allclose(weights @ r**power, width**power * chi(d - 1).moment(power), rtol=1e-10)
    np.testing.assert_allclose(weights @ r, width * chi(d - 1).mean(), rtol=1e-2)


def test_particles_are_seen_along_a_frame():
    atoms = jnp.array([[0.5, 3.0, 0.0, 4.0], [1.0, 0.0, 2.0, 0.0]])
    seen = known_and_rest(atoms, jnp.eye(3)[:, 2:])
    np.testing.assert_allclose(seen, [[0.5, 4.0, 3.0], [1.0, 0.0, 2.0]])


@pytest.mark.parametrize("d", [None, 5, 60])
def test_the_averaged_ramp_is_its_integral(d):
    def ramp(t):
        return 10 * np.clip(t, 0.5, 1.5) - 7.5

    def density(g):
        return np.exp(-(g**2) / 2) if d is None else np.maximum(1 - g**2 / d, 0) ** ((d - 3) / 2)

    end = 9.0 if d is None else np.sqrt(d)
    mass = quad(density, -end, end)[0]
    sizes = np.array([0.3, 0.9, 1.7, 4.0])
    average = jax.jit(lambda size: ramp_average(size, d=d))
    for size, found in zip(sizes, np.asarray(average(jnp.asarray(sizes))), strict=True):
        kinks = [cut / size for cut in (0.5, 1.5) if cut / size < end]
        wanted = quad(lambda g, k=size: ramp(k * g) * density(g), -end, end, points=kinks, limit=200)[0] / mass
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)
    ends = np.asarray(average(jnp.array([0.3, 1.7 - 1e-5, 1.7 + 1e-5, 4.0])))
    slope = jax.jit(jax.grad(lambda size: ramp_average(size, d=d)))(1.7)
    np.testing.assert_allclose(slope, (ends[2] - ends[1]) / 2e-5, rtol=1e-6)


def test_the_best_single_norm_is_the_best_law_below_the_threshold_only():
    for delta, published in ((0.1, 0.6288), (0.4, 0.0256)):
        _, value, gap = best_norm(radial_risk(delta))
        assert abs(value - published) < 1e-4
        assert abs(gap) < 1e-7
    risk = radial_risk(0.6)
    _, value, gap = best_norm(risk)
    assert value > 0.07
    assert gap > 1
    assert optimum(risk, np.geomspace(0.05, 60, 201)[:, None]).value < 1e-9


def test_refusals():
    with pytest.raises(Refusal, match=r"at least two directions besides; got k = 1 of d = 2. Write d >= 3"):
        reduced_risk(TEACHER, 2)
    with pytest.raises(Refusal, match=r"deviations 1 ± delta with 0 < delta < 1, .*; got delta = 1.5"):
        radial_risk(1.5)
