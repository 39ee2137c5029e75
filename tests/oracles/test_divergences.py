"""The entropic and the kernel distance against sixty digits, also between clouds that nearly coincide."""

import mpmath
import numpy as np
import pytest

from haarflow.algebra.groups import Signs
from haarflow.algebra.reps import natural_rep
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.distances import mmd_squared, sinkhorn, w2
from haarflow.measures.invariance import orbit_mmd_squared

STEPS = [1.0, 1e-2, 1e-4, 1e-6, 1e-9, 1e-12]


def rows(cloud: Cloud):
    """The atoms as exact numbers, and weights that sum to one to sixty digits."""
    atoms = [[mpmath.mpf(float(z)) for z in row] for row in cloud.atoms]
    weights = [mpmath.mpf(float(w)) for w in cloud.weights]
    return atoms, [w / mpmath.fsum(weights) for w in weights]


def gap(one, two):
    return mpmath.fsum((s - t) ** 2 for s, t in zip(one, two, strict=True))


def entropic_cost(x, a, y, b, reg):
    """The least ∫|z − z'|² dπ + reg KL(π | a×b): Sinkhorn's sweeps, then Newton steps on the columns."""
    kernel = [[mpmath.exp(-gap(one, two) / reg) for two in y] for one in x]
    g = [mpmath.mpf(0)] * len(b)
    for sweep in range(80):
        v = [w * mpmath.exp(t) for w, t in zip(b, g, strict=True)]
        u = [1 / mpmath.fdot(row, v) for row in kernel]
        plan = [[a[i] * u[i] * kernel[i][j] * v[j] for j in range(len(b))] for i in range(len(a))]
        columns = [mpmath.fsum(column) for column in zip(*plan, strict=True)]
        if sweep < 20:
            g = [t - mpmath.log(c / w) for t, c, w in zip(g, columns, b, strict=True)]
            continue
        if max(abs(c - w) for c, w in zip(columns, b, strict=True)) < mpmath.mpf(10) ** -50:
            break
        curve = mpmath.matrix(len(b))
        for j in range(len(b)):
            for k in range(len(b)):
                shared = mpmath.fsum(row[j] * row[k] / w for row, w in zip(plan, a, strict=True))
                curve[j, k] = (columns[j] if j == k else 0) - shared + 1
        off = mpmath.matrix([w - c for c, w in zip(columns, b, strict=True)])
        g = [t + s for t, s in zip(g, mpmath.lu_solve(curve, off), strict=True)]
    else:
        raise AssertionError("the reference did not settle")
    return reg * (mpmath.fdot(a, [mpmath.log(t) for t in u]) + mpmath.fdot(b, g))


def reference(mu: Cloud, nu: Cloud, blur: float) -> float:
    (x, a), (y, b) = rows(mu), rows(nu)
    spread = mpmath.fsum(
        s * t * gap(one, two) for one, s in zip(x, a, strict=True) for two, t in zip(y, b, strict=True)
    )
    reg = mpmath.mpf(blur) ** 2 * spread
    own = entropic_cost(x, a, x, a, reg) + entropic_cost(y, b, y, b, reg)
    return float(mpmath.sqrt(entropic_cost(x, a, y, b, reg) - own / 2))


def neighbours(step: float, n: int = 5):
    """A cloud, and the same with its atoms a step away in random directions, in another order and divided."""
    draw = np.random.default_rng(n)
    x, a = draw.normal(size=(n, 2)), draw.random(n) + 0.2
    y, order = x + step * draw.normal(size=x.shape), np.roll(np.arange(n), 2)
    y, b = np.concatenate([y[order], y[:1]]), a.copy()
    b[0] /= 2
    return Cloud(x, a / a.sum()), Cloud(y, np.append(b[order], b[0]) / a.sum())


@pytest.fixture(autouse=True)
def sixty_digits():
    with mpmath.workdps(60):
        yield


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("blur", [0.25, pytest.param(1.0, marks=pytest.mark.slow), 20.0])
def test_sinkhorn_meets_sixty_digits_however_close_the_clouds(blur, step):
    mu, nu = neighbours(step)
    assert np.isclose(sinkhorn(mu, nu, blur=blur), reference(mu, nu, blur), rtol=1e-10 + 1e-15 / step, atol=0)


@pytest.mark.parametrize("step", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15])
def test_sinkhorn_of_a_shifted_cloud_is_the_length_of_the_shift(step):
    mu, _ = neighbours(1.0, 30)
    atoms = np.round(np.asarray(mu.atoms) * 1024) / 1024
    nu = Cloud(atoms + step, mu.weights)
    shift = np.linalg.norm(np.asarray(mu.weights) @ np.asarray(nu.atoms - atoms))
    assert np.isclose(sinkhorn(Cloud(atoms, mu.weights), nu), shift, rtol=1e-6 + 1e-16 / step)


def test_sinkhorn_answers_for_ordinary_clouds_of_all_kinds():
    """One of each pair has far outliers; those of the seeds 5, 6 and 19 were refused before."""
    for seed in (5, 6, 19):
        draw = np.random.default_rng(seed)
        (n, m), p = draw.integers(5, 80, 2), draw.integers(1, 5)
        x, y = draw.standard_t(2, size=(n, p)), 2 * draw.normal(size=(m, p)) + draw.normal(size=p)
        a, b = draw.random(n) + 0.05, draw.random(m) + 0.05
        mu, nu = Cloud(x, a / a.sum()), Cloud(y, b / b.sum())
        assert 0.9 * w2(mu, nu) < sinkhorn(mu, nu) < 1.01 * w2(mu, nu)


@pytest.mark.parametrize("blur", [1e8, 1e300])
def test_a_very_large_blur_sees_the_means_alone(blur):
    mu, nu = neighbours(1.0)
    assert np.isclose(sinkhorn(mu, nu, blur=blur), np.linalg.norm(mu.mean() - nu.mean()), rtol=1e-12)


def kernel_reference(mu: Cloud, nu: Cloud, width: float) -> float:
    (x, a), (y, b) = rows(mu), rows(nu)
    z, signed = x + y, a + [-w for w in b]
    terms = (
        s * t * mpmath.exp(-gap(one, two) / 2 / mpmath.mpf(width) ** 2)
        for one, s in zip(z, signed, strict=True)
        for two, t in zip(z, signed, strict=True)
    )
    return float(mpmath.fsum(terms))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("width", [1e-3, 0.7, 1e3, 1e9])
def test_the_kernel_distance_meets_sixty_digits_however_close_the_clouds(width, step):
    mu, nu = neighbours(step)
    expected = kernel_reference(mu, nu, width)
    assert np.isclose(mmd_squared(mu, nu, width=width), expected, rtol=1e-6 + 1e-16 / step, atol=0)


def test_a_narrow_kernel_knows_equal_atoms_far_from_the_origin():
    """MMD² of two laws on the same atoms is Σ (a − b)² once the kernel is narrower than their gaps."""
    atoms = 1e6 + np.random.default_rng(0).normal(size=(8, 2))
    a, b = np.arange(1.0, 9.0) / 36, np.full(8, 1 / 8)
    for width in (1e-6, 1e-100, 1e-300):
        assert np.isclose(mmd_squared(Cloud(atoms, a), Cloud(atoms, b), width=width), np.sum((a - b) ** 2), rtol=1e-12)


@pytest.mark.parametrize("step", STEPS)
def test_the_kernel_distance_to_a_nearly_invariant_orbit_keeps_its_digits(step):
    rep = natural_rep(Signs(2))
    half = np.array([[0.3, 1.0], [0.8, 0.2]])
    atoms = np.concatenate([half * signs for signs in ([1, 1], [1, -1], [-1, 1], [-1, -1])])
    atoms[0, 0] += step
    mu = uniform(atoms)
    expected = kernel_reference(mu, mu.orbit(rep), 0.7)
    assert np.isclose(orbit_mmd_squared(mu, rep, width=0.7), expected, rtol=1e-6 + 1e-16 / step, atol=0)
