"""Transport against other libraries and against trying every permutation."""

from itertools import permutations

import jax
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

from haarflow.measures.bounds import gelbrich, w2_bounds
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.couplings import greedy, refined, sorted_along
from haarflow.measures.distances import mmd_squared, w1, w2
from haarflow.measures.samples import arrays, together
from haarflow.measures.transport import staircase


def weighted(draw, n: int, p: int) -> Cloud:
    weights = draw.random(n) + 0.05
    return Cloud(draw.normal(size=(n, p)), weights / weights.sum())


@pytest.mark.parametrize("seed", range(5))
def test_w1_on_the_line_is_scipys(seed):
    draw = np.random.default_rng(seed)
    mu, nu = weighted(draw, 11, 1), weighted(draw, 7 + seed, 1)
    expected = wasserstein_distance(*(np.asarray(a).ravel() for a in (mu.atoms, nu.atoms, mu.weights, nu.weights)))
    assert np.isclose(w1(mu, nu), expected, rtol=1e-12)


@pytest.mark.parametrize(("n", "m"), [(9, 9), (4, 12), (12, 4), (5, 7)])
def test_evenly_weighted_lines_of_any_sizes_are_scipys(n, m):
    draw = np.random.default_rng(n)
    x, y = draw.normal(size=n), draw.exponential(size=m)
    assert np.isclose(w1(uniform(x[:, None]), uniform(y[:, None])), wasserstein_distance(x, y), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 4, 6])
def test_small_clouds_try_every_permutation(n):
    draw = np.random.default_rng(n)
    x, y = draw.normal(size=(n, 3)), draw.normal(size=(n, 3)) + np.eye(3)[0]
    gaps = cdist(x, y)
    orders = [list(order) for order in permutations(range(n))]
    mu, nu = uniform(x), uniform(y)
    assert np.isclose(w1(mu, nu), min(gaps[range(n), order].mean() for order in orders), rtol=1e-12)
    assert np.isclose(w2(mu, nu) ** 2, min((gaps[range(n), order] ** 2).mean() for order in orders), rtol=1e-12)


@pytest.mark.parametrize("n", [10, 60])
def test_even_clouds_of_one_size_are_an_assignment(n):
    draw = np.random.default_rng(n)
    x, y = draw.normal(size=(n, 2)), draw.normal(size=(n, 2))
    cost = cdist(x, y, "sqeuclidean")
    expected = cost[linear_sum_assignment(cost)].mean() ** 0.5
    assert np.isclose(w2(uniform(x), uniform(y)), expected, rtol=1e-12)
    nudged = np.full(n, 1 / n) + np.linspace(-1, 1, n) * 1e-9
    assert np.isclose(w2(Cloud(x, nudged), uniform(y)), expected, rtol=1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_weighted_clouds_are_a_linear_programme(order):
    draw = np.random.default_rng(order)
    mu, nu = weighted(draw, 6, 3), weighted(draw, 9, 3)
    (x, a), (y, b) = arrays(mu), arrays(nu)
    rows, columns = np.kron(np.eye(6), np.ones(9)), np.kron(np.ones(6), np.eye(9))
    best = linprog((cdist(x, y) ** order).ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([a, b])).fun
    assert np.isclose((w1, w2)[order - 1](mu, nu), best ** (1 / order), rtol=1e-9)


def test_a_staircase_has_the_right_margins():
    draw = np.random.default_rng(0)
    for n, m in [(5, 8), (8, 5), (4, 8), (1, 3)]:
        for a, b in [(draw.random(n), draw.random(m)), (np.ones(n), np.ones(m))]:
            a, b = a / a.sum(), b / b.sum()
            i, j, mass = staircase(a, b)
            np.testing.assert_allclose(np.bincount(i, mass, n), a, atol=1e-15)
            np.testing.assert_allclose(np.bincount(j, mass, m), b, atol=1e-15)


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize(("n", "m"), [(90, 90), (60, 180), (70, 110)])
def test_every_cheap_coupling_has_the_right_margins(n, m, even):
    draw = np.random.default_rng(n)
    (x, a), (y, b) = (arrays(weighted(draw, size, 2)) for size in (n, m))
    a, b = (np.full(n, 1 / n), np.full(m, 1 / m)) if even else (a, b)
    u = np.array([0.6, 0.8])
    couplings = [sorted_along(u, x, a, y, b), greedy(u, x, a, y, b)]
    couplings += [refined(np.eye(2), x, y, coupling, block=16) for coupling in couplings]
    for coupling in couplings:
        np.testing.assert_allclose(np.bincount(coupling.i, coupling.mass, n), a, atol=1e-13)
        np.testing.assert_allclose(np.bincount(coupling.j, coupling.mass, m), b, atol=1e-13)
    lengths = [coupling.length(together(x, a, y, b)) for coupling in couplings]
    half = len(couplings) // 2
    assert all(later <= sooner for sooner, later in zip(lengths[:half], lengths[half:], strict=True))


def test_a_sorted_coupling_is_optimal_along_its_direction():
    draw = np.random.default_rng(3)
    (x, a), (y, b) = (arrays(weighted(draw, size, 1)) for size in (30, 17))
    u = np.array([0.6, 0.8])
    given = together(x * u, a, y * u, b)
    found = sorted_along(u, x * u, a, y * u, b).length(given) * given.unit
    assert np.isclose(found, w2(Cloud(x, a), Cloud(y, b)), rtol=1e-12)


def test_gaussians_in_space_meet_the_bures_formula():
    """Commuting covariances: W2² = |m − m'|² + Σ (s_k − s_k')²."""
    draw = np.random.default_rng(0)
    z = np.linalg.qr(np.column_stack([np.ones(50), draw.normal(size=(50, 3))]))[0][:, 1:] * 50**0.5
    even = np.full(50, 1 / 50)
    found = gelbrich(z * [1.0, 2.0, 0.0], even, z * [3.0, 0.5, 0.0] + [0, 0, 2.0], even)
    assert np.isclose(found, (4 + 4 + 1.5**2) ** 0.5, rtol=1e-10)


def test_mmd_is_the_double_sum():
    draw = np.random.default_rng(0)
    mu, nu = weighted(draw, 13, 2), weighted(draw, 8, 2)
    (x, a), (y, b) = arrays(mu), arrays(nu)
    z, signed = np.concatenate([x, y]), np.concatenate([a, -b])
    expected = signed @ np.exp(-cdist(z, z, "sqeuclidean") / (2 * 0.7**2)) @ signed
    assert np.isclose(mmd_squared(mu, nu, width=0.7, block=5), expected, rtol=1e-12)


def test_without_a_width_the_kernel_takes_the_mean_square_gap_of_the_mixture():
    draw = np.random.default_rng(1)
    mu, nu = weighted(draw, 13, 2), weighted(draw, 8, 2)
    (x, a), (y, b) = arrays(mu), arrays(nu)
    z, half = np.concatenate([x, y]), np.concatenate([a, b]) / 2
    width = float(half @ cdist(z, z, "sqeuclidean") @ half) ** 0.5
    assert np.isclose(mmd_squared(mu, nu), mmd_squared(mu, nu, width=width), rtol=1e-12)


def test_bounds_of_medium_clouds_bracket_the_solver():
    draw = np.random.default_rng(2)
    mu, nu = uniform(draw.normal(size=(300, 4))), uniform(draw.normal(size=(300, 4)) * [2, 1, 1, 1])
    found, exact = w2_bounds(jax.random.key(0), mu, nu), w2(mu, nu)
    assert found.lower <= exact <= found.upper <= 1.05 * exact
