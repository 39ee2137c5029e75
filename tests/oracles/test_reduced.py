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
from haarflow.learning.risks import Penalty
from haarflow.learning.sphere import ReluLimit, ReluRisk, gegenbauer_rule, relu_coordinates, relu_distance, relu_kernel
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
    cosines, shares = gegenbauer_rule(dim, 8)
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
    seen = relu_coordinates(atoms, jnp.eye(3)[:, 2:])
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


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_risks_go_with_the_scale_of_their_particles(scale):
    """|w| is multiplied and a divided by the scale: the same networks, the same risk."""
    law, teacher = (
        Cloud(np.asarray(cloud.atoms) * np.array([1 / scale] + [scale] * (cloud.p - 1)), cloud.weights)
        for cloud in (LAW, TEACHER)
    )
    np.testing.assert_allclose(reduced_risk(teacher, 5)(law), reduced_risk(TEACHER, 5)(LAW), rtol=1e-9)
    np.testing.assert_allclose(ReluLimit(teacher, 5)(law), ReluLimit(TEACHER, 5)(LAW), rtol=1e-9)
    far = np.asarray(law.atoms) * np.array([scale, 1, 1])
    np.testing.assert_allclose(relu_kernel(far, far), scale**2 * relu_kernel(LAW.atoms, LAW.atoms), rtol=1e-9)


@pytest.mark.parametrize("d", [400, 100_000])
def test_the_start_is_known_in_high_dimension(d):
    start = reduced_start(d, along=4, across=3)
    r, weights = np.asarray(start.atoms)[:, -1], np.asarray(start.weights)
    np.testing.assert_allclose(weights @ r**2, (d - 1) / d, rtol=1e-10)
    np.testing.assert_allclose(weights @ r**4, (d - 1) * (d + 1) / d**2, rtol=1e-10)


def test_single_precision_finds_the_same_norm():
    with jax.enable_x64(False):
        found = best_norm(radial_risk(0.1))
    np.testing.assert_allclose(found, best_norm(radial_risk(0.1)), atol=1e-4)


BAD = {
    "a dimension that is none": (lambda: reduced_risk(TEACHER, 3.5), "reduced_risk's d is a whole number"),
    "a teacher on the line": (lambda: reduced_risk(uniform(np.ones((2, 1))), 4), "got k = 0 of d = 4"),
    "no nodes": (lambda: reduced_risk(TEACHER, 5, nodes=0), "nodes is a whole number >= 1 and <= 5000; got 0"),
    "a million nodes": (lambda: ReluLimit(TEACHER, 5, nodes=10**6), "nodes is a whole number >= 1 and <= 5000"),
    "no outputs": (lambda: reduced_start(5, outputs=()), "one output or more; got none"),
    "no scale": (lambda: reduced_start(5, scale=0.0), "reduced_start's scale is a finite number > 0; got 0"),
    "more atoms than memory": (lambda: reduced_start(50, k=20), "A reduced start of .* atoms would need"),
    "a norm below zero": (lambda: ramp_average(-1.0), "ramp_average's size is a finite number >= 0"),
    "a sphere of R^2": (lambda: ramp_average(1.0, d=2), "ramp_average's d is a whole number >= 3; got 2"),
    "no inputs": (lambda: radial_risk(0.2, d=5, inputs=0), "radial_risk's inputs is a whole number >= 1"),
    "another risk": (lambda: best_norm(Penalty(1.0)), "best_norm's risk is a Risk; got a Penalty"),
    "ends the wrong way": (lambda: best_norm(radial_risk(0.2), low=2.0, high=1.0), "between low < high; got"),
    "two places": (lambda: best_norm(radial_risk(0.2), places=2), "best_norm's places is a whole number >= 3"),
    "particles of two sizes": (
        lambda: relu_kernel(np.ones((2, 3)), np.ones((2, 4))),
        r"p = 3 as in relu_kernel's atoms",
    ),
    "clouds of two sizes": (lambda: relu_distance(LAW, TEACHER), r"got atoms in R\^3 and in R\^2"),
    "a student of another size": (
        lambda: ReluRisk(TEACHER)(LAW),
        r"compared over one R\^\(1 \+ d\); got atoms in R\^3",
    ),
    "a student elsewhere": (lambda: ReluRisk(TEACHER).variation(LAW), r"got atoms in R\^3 and in R\^2"),
    "a teacher that is none": (lambda: ReluRisk("teacher"), "A ReluRisk's teacher is a Cloud; got 'teacher'"),
    "a frame of another size": (
        lambda: relu_coordinates(np.ones((2, 4)), np.eye(2)),
        r"A frame of R\^2 is for particles",
    ),
    "a frame that is none": (lambda: relu_coordinates(np.ones((2, 3)), np.ones((2, 2))), "orthonormal columns; got"),
    "a line of directions": (lambda: gegenbauer_rule(1, 4), "gegenbauer_rule's dim is a whole number >= 2; got 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_has_no_answer_is_refused_in_a_sentence(case):
    call, words = BAD[case]
    with pytest.raises(Refusal, match=words):
        call()


def test_refusals():
    with pytest.raises(Refusal, match=r"at least two directions besides; got k = 1 of d = 2. Write d >= 3"):
        reduced_risk(TEACHER, 2)
    with pytest.raises(Refusal, match=r"deviations 1 ± delta with 0 < delta < 1, .*; got delta = 1.5"):
        radial_risk(1.5)
