"""Distances are metrics, ignore isometries, meet their closed forms, and bounds bracket the exact value."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra.groups import Cyclic, Dihedral, PlanarRotations, Signs, Symmetric
from haarflow.algebra.lie_groups import SpecialOrthogonal
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.measures.bounds import w2_bounds
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.distances import mmd_squared, rmd, sinkhorn, sliced, w1, w2
from haarflow.measures.invariance import (
    circle_correction,
    orbit_mmd_squared,
    pair_distances,
    si_distance,
    si_rmd,
    wi_bounds,
    wi_distance,
    wi_rmd,
)

KEY = jax.random.key(5)
REPS = [
    natural_rep(Cyclic(3)),
    natural_rep(PlanarRotations(5)),
    natural_rep(Dihedral(3)) + trivial_rep(Dihedral(3), 1),
    natural_rep(Cyclic(2)).hom(natural_rep(Cyclic(2))),
    natural_rep(Signs(1)),
    natural_rep(Symmetric(4)),
]
DISTANCES = {
    "w1": w1,
    "w2": w2,
    "sliced": lambda mu, nu: sliced(KEY, mu, nu),
    "sliced-1": lambda mu, nu: sliced(KEY, mu, nu, order=1),
    "mmd": lambda mu, nu: mmd_squared(mu, nu, width=2) ** 0.5,
}


def cloud(n: int, p: int, seed: int, *, even: bool = False, shift: float = 0.0) -> Cloud:
    """A lopsided random cloud."""
    draw = np.random.default_rng([seed, n, p])
    weights = np.ones(n) if even else draw.random(n) + 0.05
    return Cloud(draw.normal(size=(n, p)) + shift * np.arange(p), weights / weights.sum())


def isometry(p: int, seed: int = 0):
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(p, p)))[0]
    return lambda z: jnp.asarray(turn) @ z + 3.0


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("name", DISTANCES)
def test_a_distance_is_a_metric(name, p):
    far = DISTANCES[name]
    mu, nu, xi = cloud(9, p, 0), cloud(6, p, 1, shift=1.0), cloud(9, p, 2, even=True)
    assert far(mu, mu) < 1e-7
    assert far(mu, nu) > 0.1
    assert np.isclose(far(mu, nu), far(nu, mu), rtol=1e-12)
    assert far(mu, nu) <= far(mu, xi) + far(xi, nu) + 1e-12


@pytest.mark.parametrize("name", ["w1", "w2", "mmd"])
def test_a_distance_does_not_see_an_isometry(name):
    far, move = DISTANCES[name], isometry(3)
    mu, nu = cloud(9, 3, 0), cloud(6, 3, 1)
    assert np.isclose(far(mu.push(move), nu.push(move)), far(mu, nu), rtol=1e-9)


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("p", [1, 4])
def test_a_translation_travels_its_own_length(p, even):
    mu = cloud(20, p, 3, even=even)
    shift = np.linspace(0.5, 1.0, p)
    moved = mu.push(lambda z: z + jnp.asarray(shift))
    length = float(np.linalg.norm(shift))
    assert np.isclose(w1(mu, moved), length, rtol=1e-12)
    assert np.isclose(w2(mu, moved), length, rtol=1e-12)
    found = w2_bounds(KEY, mu, moved)
    assert np.allclose([found.lower, found.upper], length, rtol=1e-12)
    average = sliced(KEY, mu, moved, projections=50 * p)
    assert np.isclose(average, length / p**0.5, rtol=1e-9)


def test_gaussians_on_the_line_meet_their_closed_form():
    """W2² = (m−m')² + (s−s')² and, for m' − m = 0, W1 = |s − s'| (2/π)^½; on 20 000 quantiles."""
    from scipy.stats import norm

    levels = norm.ppf((np.arange(20_000) + 0.5) / 20_000)[:, None]
    wide, narrow = uniform(2 * levels), uniform(0.5 * levels)
    assert np.isclose(w2(wide, narrow.push(lambda z: z + 3.0)), (9 + 1.5**2) ** 0.5, rtol=1e-4)
    assert np.isclose(w1(wide, narrow), 1.5 * (2 / np.pi) ** 0.5, rtol=1e-4)


def test_w1_is_at_most_w2_and_whole_frames_of_slices_at_most_w2_by_root_p():
    for seed in range(5):
        mu, nu = cloud(12, 3, seed), cloud(8, 3, seed + 10)
        assert w1(mu, nu) <= w2(mu, nu)
        assert 0 < sliced(KEY, mu, nu, projections=30) * 3**0.5 <= w2(mu, nu)


def test_splitting_an_atom_or_adding_a_massless_one_changes_nothing():
    mu, nu = cloud(5, 2, 0), cloud(4, 2, 1)
    split = Cloud(
        jnp.concatenate([mu.atoms, mu.atoms[:1], jnp.full((1, 2), 9.0)]),
        jnp.concatenate([mu.weights.at[0].mul(0.25), 0.75 * mu.weights[:1], jnp.zeros(1)]),
    )
    for far in DISTANCES.values():
        assert np.isclose(far(split, nu), far(mu, nu), rtol=1e-10)


def test_sinkhorn_is_debiased_and_near_the_exact_distance():
    mu, nu = cloud(60, 2, 0), cloud(50, 2, 1, shift=2.0)
    assert sinkhorn(mu, mu) < 1e-5
    assert np.isclose(sinkhorn(mu, nu, blur=0.15), w2(mu, nu), rtol=0.03)
    assert np.isclose(sinkhorn(mu, nu, blur=0.15), sinkhorn(nu, mu, blur=0.15), rtol=1e-3)


def test_sinkhorn_in_blocks_equals_sinkhorn_at_once(monkeypatch):
    mu, nu = cloud(60, 2, 0), cloud(50, 2, 1, shift=2.0)
    whole = sinkhorn(mu, nu)
    monkeypatch.setattr("haarflow.measures.entropic.STORED", 10)
    monkeypatch.setattr("haarflow.measures.entropic.BLOCK", 640)
    assert np.isclose(sinkhorn(mu, nu), whole, rtol=1e-12)


@pytest.mark.parametrize("rep", REPS, ids=repr)
def test_the_si_distance_is_the_distance_to_the_projection_and_the_nearest(rep):
    mu = cloud(9, rep.dim, 4, shift=0.5)
    assert np.isclose(float(si_distance(mu, rep)), w2(mu, mu.project(rep)), atol=1e-9)
    assert np.isclose(float(si_rmd(mu, rep)), rmd(mu, mu.project(rep)), atol=1e-9)
    for seed in range(3):
        other = cloud(9, rep.dim, seed).project(rep)
        assert float(si_distance(mu, rep)) <= w2(mu, other) + 1e-12
    assert float(si_distance(mu.project(rep), rep)) < 1e-12


@pytest.mark.slow
def test_relative_distances_reach_one_half_squared_at_most():
    for rep in REPS:
        for seed in range(3):
            mu = cloud(8, rep.dim, seed, shift=float(seed))
            assert float(si_rmd(mu, rep)) ** 2 <= 0.5 + 1e-12
            assert wi_rmd(mu, rep) ** 2 <= 0.5 + 1e-12
            assert np.isclose(wi_rmd(mu, rep), rmd(mu, mu.orbit(rep)), atol=1e-9)
    signs = natural_rep(Signs(3))
    assert np.isclose(float(si_rmd(cloud(8, 3, 0), signs)) ** 2, 0.5)
    origin = uniform(np.zeros((2, 3)))
    assert float(si_rmd(origin, signs)) == wi_rmd(origin, signs) == rmd(origin, origin) == 0


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("shift", [0.0, 0.7])
@pytest.mark.parametrize("rep", REPS, ids=repr)
def test_bounds_bracket_the_exact_distance_to_the_orbit(rep, shift, even):
    mu = cloud(40, rep.dim, 1, even=even, shift=shift)
    exact = wi_distance(mu, rep)
    found = wi_bounds(KEY, mu, rep, pairs=True)
    slack = 1e-9 * exact
    assert all(lower <= exact + slack for lower in found.lowers.values()), found.lowers
    assert all(exact <= upper + slack for upper in found.uppers.values()), found.uppers
    assert found.lower == found.lowers[found.lower_rule]
    assert found.upper == found.uppers[found.upper_rule]
    assert found.upper <= 1.1 * exact
    assert found.lower >= 0.6 * exact


@pytest.mark.parametrize("even", [True, False])
def test_bounds_bracket_the_exact_distance_of_two_clouds(even):
    for seed, (n, m) in enumerate([(30, 30), (30, 60), (60, 30), (35, 24)]):
        for shift in (0.0, 1.0):
            mu, nu = cloud(n, 3, seed, even=even), cloud(m, 3, seed + 7, even=even, shift=shift)
            exact, found = w2(mu, nu), w2_bounds(KEY, mu, nu)
            assert all(lower <= exact * (1 + 1e-9) for lower in found.lowers.values()), found.lowers
            assert all(exact <= upper * (1 + 1e-9) for upper in found.uppers.values()), found.uppers
            assert found.upper <= 1.1 * exact


@pytest.mark.parametrize("rep", REPS, ids=repr)
def test_every_distance_to_the_orbit_vanishes_on_weakly_invariant_clouds(rep):
    mu = cloud(9, rep.dim, 2).orbit(rep)
    assert wi_distance(mu, rep) < 1e-7
    assert orbit_mmd_squared(mu, rep) < 1e-14
    assert pair_distances(mu, rep).max() < 1e-7
    found = wi_bounds(KEY, mu, rep)
    assert 0 <= found.lower <= found.upper < 1e-7


@pytest.mark.parametrize("rep", REPS, ids=repr)
def test_the_kernel_distance_to_the_orbit_is_the_general_one(rep):
    mu = cloud(9, rep.dim, 3, shift=0.4)
    general = mmd_squared(mu, mu.orbit(rep), width=1.5)
    assert np.isclose(orbit_mmd_squared(mu, rep, width=1.5), general, atol=1e-14)
    assert np.isclose(orbit_mmd_squared(mu, rep, width=1.5, block=4), general, atol=1e-14)


@pytest.mark.parametrize("rep", REPS, ids=repr)
def test_pair_distances_are_those_of_every_element(rep):
    mu = cloud(8, rep.dim, 5, shift=0.3)
    expected = [w2(mu, mu.push(turn)) for turn in rep.matrices()]
    np.testing.assert_allclose(pair_distances(mu, rep), expected, atol=1e-9)


def test_distances_use_double_precision_whatever_the_cloud():
    atoms = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    single, double = uniform(atoms), uniform(atoms.astype(float))
    rep = natural_rep(Cyclic(4))
    with jax.enable_x64(False):
        found = wi_distance(single, rep), orbit_mmd_squared(single, rep)
    np.testing.assert_allclose(found, (wi_distance(double, rep), orbit_mmd_squared(double, rep)), rtol=1e-12)


def test_equispaced_rotations_certify_the_circle():
    """Many rotations stand in for the circle: the distances differ by less than both corrections."""
    group = SpecialOrthogonal(2)
    rep = natural_rep(group) + natural_rep(group) * natural_rep(group)
    mu = cloud(12, rep.dim, 6, shift=0.5)

    def turns(n):
        return PlanarRotations(n).elements()

    fine = wi_distance(mu, rep, elements=turns(96))
    for n in (3, 5, 8):
        gap = abs(wi_distance(mu, rep, elements=turns(n)) - fine)
        assert gap <= circle_correction(mu, rep, n) + circle_correction(mu, rep, 96)
    corrections = [circle_correction(mu, rep, n) for n in (8, 16, 32, 64)]
    np.testing.assert_allclose(np.divide(corrections[1:], corrections[:-1]), 0.5, atol=0.03)


def test_the_circle_correction_is_the_travel_inside_one_sector():
    """Planes turning once and three times, one atom: compare with the integral over a sector."""
    speed = np.zeros((5, 5))
    speed[:2, :2], speed[2:4, 2:4] = [[0, -1], [1, 0]], [[0, -3], [3, 0]]
    z, n = np.array([1.0, 2.0, 0.5, -1.0, 4.0]), 7
    angles = (np.arange(4000) + 0.5) / 4000 * np.pi / n
    travel = 2 * (1 - np.cos(angles)) * 5 + 2 * (1 - np.cos(3 * angles)) * 1.25
    found = circle_correction(uniform(z[None, :]), speed, n)
    assert np.isclose(found, travel.mean() ** 0.5, rtol=1e-6)


def test_a_large_cloud_gets_an_honest_bracket_quickly():
    """5 000 normal atoms, one coordinate off by a half: the mean alone gives (1/8)^½ from below."""
    rep = natural_rep(Cyclic(2)) * natural_rep(Cyclic(2))
    mu = uniform(np.random.default_rng(0).normal(size=(5000, 4)) + 0.5 * np.eye(4)[0])
    found = wi_bounds(KEY, mu, rep)
    assert 0.35 < found.lower < found.upper < 0.6
    assert str(found).startswith("0.")


def test_bounds_from_exact_pairs_hold_for_tiny_clouds():
    """At 1e-8 the lower one was above the upper one, and was cut to it in silence."""
    for seed, rep in enumerate(REPS):
        mu = cloud(12, rep.dim, seed, shift=0.3)
        small = Cloud(mu.atoms * 1e-8, mu.weights)
        exact, found = wi_distance(small, rep), wi_bounds(KEY, small, rep, pairs=True)
        assert np.isclose(exact, 1e-8 * wi_distance(mu, rep), rtol=1e-9)
        assert found.lowers["half of exact pairs"] <= exact * (1 + 1e-9) <= found.uppers["exact pairs"] * (1 + 2e-9)


def test_bounds_that_contradict_each_other_are_an_error_of_the_library(monkeypatch):
    monkeypatch.setattr("haarflow.measures.bounds.gelbrich", lambda *_: 1e3)
    with pytest.raises(ArithmeticError, match="lower bound on W2 above an upper one"):
        w2_bounds(KEY, cloud(5, 2, 0), cloud(5, 2, 1))
