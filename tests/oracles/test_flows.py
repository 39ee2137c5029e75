"""Closed-form flows against particles, against other formulas, and against integrals done another way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.dynamics.birth_death import BirthDeath
from haarflow.dynamics.domains import restrict
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.fluctuations import quadratic_fluctuation, quadratic_monte_carlo, random_feature_fluctuation
from haarflow.dynamics.oracles import (
    QuadraticEnergy,
    QuadraticRisk,
    _gaussian,
    gaussian_flow,
    quadratic_descent,
    quadratic_flow,
    quadratic_map,
    quadratic_norm,
    random_feature_flow,
    replicator,
)
from haarflow.dynamics.schemes import Euler, Heun, Langevin, streams
from haarflow.errors import Refusal
from haarflow.learning.data import Sample
from haarflow.learning.risks import Penalty, Risk
from haarflow.learning.sphere import ReluLimit, ReluRisk, relu_coordinates, relu_distance, relu_kernel
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.units import Perceptron, Quadratic

KEY = jax.random.key(0)
TARGET = np.diag([1.0, 0.5, 0.25, 0.0])
BOWL = QuadraticEnergy(np.array([[2.0, 0.5], [0.5, 1.0]]), np.zeros(2), np.zeros((2, 2)))


def test_the_replicator_is_growth_alone():
    cloud = Cloud(jnp.array([[0.5], [1.0], [2.0]]), jnp.array([0.2, 0.3, 0.5]))
    field = Descend(Penalty(0.8), transport=0.0, growth=1.7)
    end = flow(field, Euler(), cloud, key=KEY, dt=0.1, steps=9).cloud
    exact = replicator(cloud.weights, 0.4 * cloud.atoms[:, 0] ** 2, alpha=1.7, time=0.9)
    np.testing.assert_allclose(end.weights, exact, rtol=1e-12)


def _jumped(p, F, alpha, dt, steps):
    """Shares under birth and death with infinitely many particles, the step as the scheme makes it.

    A place is overwritten by the one before it if that gave birth, else by the one after it if its own died.
    """
    for _ in range(steps):
        growth = -alpha * (F - p @ F)
        ring = -np.expm1(-np.abs(growth) * dt)
        birth, death = np.where(growth > 0, ring, 0), np.where(growth < 0, ring, 0)
        p = p * birth + (1 - p @ birth) * p * (1 - death + p @ death)
    return p


def test_birth_and_death_make_the_replicator_on_average():
    """64 runs of 500 particles: four sigma (sharp enough for a rate that is a tenth too high) and two particles."""
    F, shares, alpha = np.array([0.0, 0.5, 2.0]), np.array([0.2, 0.3, 0.5]), 1.5
    atoms = np.repeat(np.sqrt(F), (500 * shares).astype(int))[:, None]
    field = Descend(Penalty(2.0), transport=0.0, growth=alpha)
    keys = jax.random.split(KEY, 64)
    end = flow(field, BirthDeath(Euler()), uniform(atoms), key=keys, dt=0.02, steps=50).cloud.atoms
    found = np.stack([np.isclose(end[..., 0] ** 2, value).mean(1) for value in F], 1)
    allowed = 4 * found.std(0) / 8 + 2 / 500
    assert (np.abs(found.mean(0) - _jumped(shares, F, alpha, 0.02, 50)) < allowed).all()
    assert (np.abs(_jumped(shares, F, 1.1 * alpha, 0.02, 50) - _jumped(shares, F, alpha, 0.02, 50)) > allowed).any()
    exact = np.asarray(replicator(jnp.asarray(shares), jnp.asarray(F), alpha=alpha, time=1.0))
    errors = [np.abs(_jumped(shares, F, alpha, 1 / steps, steps) - exact).max() for steps in (50, 100, 200)]
    np.testing.assert_allclose(np.divide(errors[:2], errors[1:]), 2, rtol=0.05)
    assert 0.0025 < errors[1] < 0.003  # what the scheme's docstring says of dt = 0.01


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_gaussians_stay_gaussian_at_random_parameters(seed):
    """Weights and birth–death, with transport, growth and noise: 4 sigma (over 16 runs) + twice Euler's own error.

    Twelve numbers a seed, each beyond 4 sigma of 16 runs with probability 1e-3; seeds are fixed.
    """
    draw = np.random.default_rng(seed)
    square = draw.normal(size=(2, 2))
    H = square @ square.T / 2 + 0.3 * np.eye(2)
    A = np.diag(draw.uniform(-0.2, 0.5, 2))
    root = draw.normal(size=(2, 2)) / 2 + 0.5 * np.eye(2)
    alpha, beta, dt, steps = draw.uniform(0.3, 1.5), draw.uniform(0.05, 0.4), 0.02, 40
    bowl, mean = QuadraticEnergy(H, draw.normal(size=2) / 2, A), draw.normal(size=2)
    keys = jax.random.split(jax.random.key(seed), 16)
    atoms = mean + np.asarray(jax.random.normal(jax.random.key(seed + 9), (16, 1000, 2))) @ root.T
    field = Descend(bowl, growth=alpha)
    schemes = {"weights": Langevin(Euler(), beta), "birth–death": BirthDeath(Langevin(Euler(), beta))}
    paths = flow(dict.fromkeys(schemes, field), schemes, uniform(atoms), key=keys, dt=dt, steps=steps)
    rates = {"times": jnp.array([dt * steps]), "alpha": alpha, "beta": beta}
    exact = _flat(gaussian_flow(bowl, jnp.asarray(mean), jnp.asarray(root @ root.T), **rates))
    euler = _euler(bowl, mean, root @ root.T, alpha, beta, dt, steps)
    for name, path in paths.items():
        runs = zip(np.asarray(path.cloud.atoms), np.asarray(path.cloud.weights), strict=True)
        found = np.stack([_moments(*run) for run in runs])
        sigma = found.std(0, ddof=1) / 4
        assert (np.abs(found.mean(0) - exact) < 4 * sigma + 2 * np.abs(euler - exact)).all(), name
        assert (sigma < 0.03).all()


def _euler(bowl, m, S, alpha, beta, dt, steps):
    """Euler's method on the equations of mean and covariance, written once more."""
    H, b, A = (np.asarray(part) for part in (bowl.H, bowl.b, bowl.A))
    for _ in range(steps):
        pull = (np.eye(2) + alpha * S) @ (H @ m + b + A @ m)
        m, S = m - dt * pull, S + dt * (2 * beta * np.eye(2) - H @ S - S @ H - alpha * S @ H @ S)
    return np.concatenate([m, S.ravel()])


def _flat(moments):
    return np.concatenate([np.ravel(part[-1]) for part in moments])


def _moments(atoms, weights):
    mean = weights @ atoms
    return np.concatenate([mean, np.ravel((atoms - mean).T @ (weights[:, None] * (atoms - mean)))])


def test_the_covariance_equation_has_its_closed_form():
    """Without noise, growth alone adds alpha t H to the precision."""
    bowl = QuadraticEnergy(np.array([[2.0, 0.5], [0.5, 1.0]]), np.zeros(2), np.zeros((2, 2)))
    S0 = np.array([[1.0, 0.2], [0.2, 0.5]])
    _, S = gaussian_flow(bowl, jnp.zeros(2), jnp.asarray(S0), times=jnp.array([1.5]), transport=0.0, alpha=0.7)
    np.testing.assert_allclose(S[0], np.linalg.inv(np.linalg.inv(S0) + 0.7 * 1.5 * np.asarray(bowl.H)), rtol=1e-8)


def test_the_quadratic_risk_is_the_mean_over_gaussian_inputs():
    """Gauss–Hermite with six points is exact for polynomials of degree four in each coordinate."""
    nodes, mass = np.polynomial.hermite_e.hermegauss(6)
    xs = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
    mass = np.outer(mass, mass).ravel() / mass.sum() ** 2
    target = np.array([[1.0, 0.3], [0.3, 0.2]])
    cloud = Cloud(jnp.array([[1.0, 0.4], [-0.3, 0.9]]), jnp.array([0.3, 0.7]))
    outputs = np.einsum("n,ncb->b", cloud.weights, Quadratic(2).batched(cloud.atoms, jnp.asarray(xs)))
    labels = np.einsum("bi,ij,bj->b", xs, target, xs)
    np.testing.assert_allclose(QuadraticRisk(target)(cloud), mass @ (outputs - labels) ** 2 / 2, rtol=1e-12)


def test_the_norm_of_quadratic_forms_over_a_sample_is_its_mean_of_squares():
    xs = np.random.default_rng(0).normal(size=(7, 2))
    forms = np.array([[[1.0, 0.3], [0.3, -2.0]], [[0.5, -1.0], [-1.0, 0.0]]])
    squares = np.mean([[(x @ form @ x) ** 2 for x in xs] for form in forms], axis=1)
    np.testing.assert_allclose(quadratic_norm(forms, xs), squares, rtol=1e-12)
    np.testing.assert_allclose(quadratic_norm(forms[0], xs), squares[0], rtol=1e-12)
    np.testing.assert_allclose(quadratic_norm(forms), [1 + 2 * 5.18, 0.25 + 2 * 2.25], rtol=1e-12)


@pytest.mark.slow
def test_particles_follow_the_matrix_at_every_width():
    """Heun's error at this step is 1e-5."""
    cloud, begun = uniform(jax.random.normal(KEY, (7, 4)) / 2), {"probes": {"S": _second}, "every": 50}
    path = flow(Descend(QuadraticRisk(TARGET)), Heun(), cloud, key=KEY, dt=0.005, steps=200, **begun)
    exact = quadratic_flow(_second(cloud), jnp.asarray(TARGET), times=jnp.asarray(path.times))
    np.testing.assert_allclose(path.probes["S"], exact, atol=1e-4)


@pytest.mark.slow
def test_the_map_carries_the_moments():
    start = np.array([[0.5, 0.1, 0.0, 0.0], [0.1, 0.4, 0.0, 0.1], [0.0, 0.0, 0.3, 0.0], [0.0, 0.1, 0.0, 0.2]])
    options = {"times": jnp.array([0.0, 0.1, 0.3, 0.6, 1.0])}
    ways = quadratic_map(jnp.asarray(start), jnp.asarray(TARGET), **options)
    exact = quadratic_flow(jnp.asarray(start), jnp.asarray(TARGET), **options)
    np.testing.assert_allclose(np.einsum("kij,jl,kml->kim", ways, start, ways), exact, atol=1e-8)


def test_particles_in_sgd_follow_the_recursion_at_every_width():
    """On the batches that the flow draws."""
    xs = np.random.default_rng(0).normal(size=(6, 4))
    sample = Sample(xs, np.einsum("bi,ij,bj->b", xs, TARGET, xs)[:, None], 2)
    cloud = uniform(jax.random.normal(KEY, (7, 4)) / 2)
    options = {"key": KEY, "dt": 0.01, "steps": 5, "probes": {"S": _second}, "every": 1}
    path = flow(Descend(Risk(Quadratic(4), sample)), Euler(), cloud, **options)
    batches = jax.jit(jax.vmap(lambda k: sample.batch(streams(jax.random.fold_in(KEY, k))[0])[0]))(jnp.arange(5))
    found = quadratic_descent(_second(cloud), jnp.asarray(TARGET), inputs=batches, step=0.01)
    np.testing.assert_allclose(path.probes["S"], found, rtol=1e-12)


@pytest.mark.slow
def test_small_steps_over_a_sample_follow_its_equation():
    xs = np.random.default_rng(0).normal(size=(6, 4))
    inputs, start, goal = jnp.asarray(np.broadcast_to(xs, (4000, 6, 4))), jnp.eye(4) / 4, jnp.asarray(TARGET)
    found = quadratic_descent(start, goal, inputs=inputs, step=1e-4)[-1]
    exact = quadratic_flow(start, goal, times=jnp.array([0.0, 0.4]), inputs=jnp.asarray(xs))[-1]
    np.testing.assert_allclose(found, exact, atol=2e-3)


def _second(cloud):
    return cloud.atoms.T @ (cloud.weights[:, None] * cloud.atoms)


def test_the_fluctuation_of_quadratic_units():
    """Against numbers of other code; the first is 48/16 by hand: E(tr M)² = 2d, E tr M² = d + d²."""
    times = jnp.array([0.0, 0.05, 0.2, 0.5, 1.0])
    found = quadratic_fluctuation(jnp.eye(4) / 4, jnp.asarray(TARGET), times=times)
    assert (np.abs(found - np.array([3.0, 3.277, 1.923, 0.1888, 1.07e-2])) < [5e-4, 5e-4, 5e-4, 5e-5, 5e-5]).all()
    np.testing.assert_allclose(quadratic_monte_carlo(jnp.eye(4)[None] / 4), [3.0], rtol=1e-12)


def test_the_fluctuation_is_wishart_noise_carried_by_the_flow():
    """A lopsided start: finite differences of the flow along every E_ij + E_ji, with Wishart's covariance
    `E M_ij M_kl = S_ik S_jl + S_il S_jk` of n (S_n − S)."""
    root = np.array([[0.8, 0, 0, 0], [0.3, 0.4, 0, 0], [0, -0.2, 0.5, 0], [0.1, 0, 0.2, 0.3]])
    start, times, step = root @ root.T, jnp.array([0.0, 0.05, 0.1, 0.4, 0.8]), 1e-4
    places = list(zip(*np.triu_indices(4), strict=True))
    moved = []
    for i, j in places:
        bump = np.zeros((4, 4))
        bump[i, j] = bump[j, i] = step
        ends = [quadratic_flow(jnp.asarray(S), jnp.asarray(TARGET), times=times) for S in (start + bump, start - bump)]
        moved.append(np.asarray(ends[0] - ends[1]) / (2 * step))
    covariance = np.array(
        [[start[i, k] * start[j, m] + start[i, m] * start[j, k] for k, m in places] for i, j in places]
    )
    pairs = np.einsum("akij,bkij->kab", moved, moved)
    traces = np.trace(moved, axis1=2, axis2=3)
    found = np.einsum("ab,kab->k", covariance, 2 * pairs + np.einsum("ak,bk->kab", traces, traces))
    np.testing.assert_allclose(
        quadratic_fluctuation(jnp.asarray(start), jnp.asarray(TARGET), times=times), found, rtol=1e-5
    )


def test_frozen_features_train_linearly():
    unit, xs = Perceptron(2), np.array([[1.0, 0.2], [-0.4, 0.9], [0.3, -1.0]])
    ys, ridge = jnp.array([1.0, -0.5, 0.3]), 0.05
    atoms = jax.random.normal(KEY, (6, 4)).at[:, 0].set(0.0)
    risk = Risk(unit, Sample(xs, ys[:, None])) + Penalty(ridge, lambda theta: theta[0] ** 2 / 2)
    field = restrict(Descend(risk), np.diag([1.0, 0.0, 0.0, 0.0]), through="start")
    end = flow(field, Heun(), uniform(atoms), key=KEY, dt=0.005, steps=600).cloud
    outputs = jnp.mean(unit.batched(end.atoms, jnp.asarray(xs))[:, 0], axis=0)
    features = unit.batched(atoms.at[:, 0].set(1.0), jnp.asarray(xs))[:, 0]
    np.testing.assert_allclose(
        outputs, random_feature_flow(features, ys, times=jnp.array([3.0]), ridge=ridge)[0], atol=1e-5
    )


def test_the_frozen_fluctuation_is_that_of_many_draws():
    """Two features, so that n draws are a binomial: the sum over all counts is exact; n = 400 is near the limit."""
    from scipy.stats import binom

    features, ys, n, share = jnp.array([[1.0, 0.5], [-0.2, 1.0]]), jnp.array([1.0, 2.0]), 400, 0.3
    law = jnp.array([share, 1 - share])
    late, ridge = jnp.array([1e6]), 0.1
    limit = random_feature_flow(features, ys, times=late, ridge=ridge, weights=law)[0]
    counts = np.arange(n + 1)

    def end(k):
        return random_feature_flow(features, ys, times=late, ridge=ridge, weights=jnp.stack([k / n, 1 - k / n]))[0]

    ends = jax.jit(jax.vmap(end))(jnp.asarray(counts, float))
    found = n * binom.pmf(counts, n, share) @ np.mean((np.asarray(ends) - np.asarray(limit)) ** 2, axis=1)
    np.testing.assert_allclose(found, random_feature_fluctuation(features, ys, ridge=ridge, weights=law), rtol=0.03)
    assert float(random_feature_fluctuation(features, ys, ridge=0.0, weights=law)) < 1e-20


def test_the_relu_kernel_is_the_integral_over_the_circle():
    angles = 2 * np.pi * (np.arange(200_000) + 0.5) / 200_000
    xs = np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], 1)
    atoms = np.array([[1.0, 0.3, -0.8], [-0.5, 1.0, 0.2], [0.7, -0.6, 1.6]])
    phi = atoms[:, :1] * np.maximum(atoms[:, 1:] @ xs.T, 0)
    kernel = relu_kernel(jnp.asarray(atoms), jnp.asarray(atoms))
    np.testing.assert_allclose(kernel, phi @ phi.T / len(xs), atol=1e-8)
    one, two = uniform(atoms[:2]), uniform(atoms[1:])
    gap = phi[:2].mean(0) - phi[1:].mean(0)
    np.testing.assert_allclose(relu_distance(one, two), np.mean(gap**2), atol=1e-8)
    with pytest.raises(Refusal, match=r"particles \(a, w\) in R\^\(1 \+ d\); got atoms in R\^1"):
        ReluRisk(uniform(jnp.ones((2, 1))))


def test_the_limit_of_relu_units_integrates_the_rest():
    """Every direction of the rest at once: 4000 on the circle, and the second moment 1/m of a cosine in R^m."""
    teacher = uniform(jnp.array([[1.5, 0.6, -0.8]]))
    atoms = np.array([[1.0, 0.3, -0.8, 0.9], [-0.5, 1.0, 0.2, 0.4], [0.7, -0.6, 0.1, 1.6]])
    limit = ReluLimit(teacher, 4, nodes=40)
    angles = 2 * np.pi * (np.arange(400) + 0.5) / 400
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    spread = np.concatenate([np.column_stack([np.tile(row[:3], (400, 1)), row[3] * circle]) for row in atoms])
    known = uniform(np.column_stack([teacher.atoms, np.zeros((1, 2))]))
    np.testing.assert_allclose(limit(uniform(atoms)), ReluRisk(known)(uniform(spread)), rtol=1e-5)
    seen = relu_coordinates(jnp.asarray(spread), jnp.eye(4)[:, :2])
    np.testing.assert_allclose(seen, np.repeat(atoms, 400, axis=0), rtol=1e-12)
    for d in (5, 9, 16):
        rule = ReluLimit(teacher, d)
        np.testing.assert_allclose(rule.masses @ rule.cosines**2, 1 / (d - 2), rtol=1e-12)
    with pytest.raises(Refusal, match=r"two directions or more that its teacher does not know; got a teacher of 2"):
        ReluLimit(teacher, 3)


BAD = {
    "a lopsided H": (
        lambda: QuadraticEnergy(np.array([[1.0, 0.5], [0.0, 1.0]]), np.zeros(2), np.zeros((2, 2))),
        "A QuadraticEnergy's H is a symmetric matrix; got one that is 0.5 from it",
    ),
    "a QuadraticEnergy of two sizes": (
        lambda: QuadraticEnergy(np.eye(2), np.zeros(3), np.eye(2)),
        r"A QuadraticEnergy's b has the shape \(p\) with p = 2",
    ),
    "a cloud elsewhere": (
        lambda: BOWL(uniform(np.ones((2, 3)))),
        r"A QuadraticEnergy of R\^2 takes clouds in R\^2; got one in R\^3",
    ),
    "a mean elsewhere": (
        lambda: gaussian_flow(BOWL, np.zeros(3), np.eye(3), times=[1.0]),
        r"A Gaussian in a QuadraticEnergy of R\^2 has a mean there; got one in R\^3",
    ),
    "no covariance": (
        lambda: gaussian_flow(BOWL, np.zeros(2), np.diag([1.0, -1.0]), times=[1.0]),
        "A Gaussian's covariance has no direction below zero; got an eigenvalue -1",
    ),
    "times out of order": (
        lambda: gaussian_flow(BOWL, np.zeros(2), np.eye(2), times=[1.0, 0.5]),
        "one or more times >= 0 in order; got",
    ),
    "no times": (lambda: quadratic_flow(TARGET, TARGET, times=[]), "one or more times >= 0 in order; got"),
    "a step of zero": (
        lambda: gaussian_flow(BOWL, np.zeros(2), np.eye(2), times=[1.0], step=0.0),
        "gaussian_flow's step is a finite number > 0; got 0",
    ),
    "a flow without end": (
        lambda: gaussian_flow(
            QuadraticEnergy(-np.eye(2), np.ones(2), np.eye(2)), np.zeros(2), np.eye(2), times=[9.0], alpha=2.0
        ),
        "followed while it is finite; got one that leaves every bound",
    ),
    "too many steps": (
        lambda: gaussian_flow(BOWL, np.zeros(2), np.eye(2), times=[1.0], step=1e-9),
        "or that needs more than 100000 steps. Write smaller numbers",
    ),
    "a target of another size": (
        lambda: quadratic_flow(np.eye(2), TARGET, times=[1.0]),
        r"quadratic_flow's target has the shape \(d, d\) with d = 2",
    ),
    "a lopsided target": (lambda: QuadraticRisk([[0.0, 1.0], [0.0, 0.0]]), "A QuadraticRisk's target is a symmetric"),
    "inputs of another size": (
        lambda: quadratic_descent(TARGET, TARGET, inputs=np.ones((3, 2, 5)), step=0.1),
        r"quadratic_descent's inputs has the shape \(k, b, d\) with d = 4",
    ),
    "a negative weight": (
        lambda: replicator(np.array([1.5, -0.5]), np.zeros(2), alpha=1.0, time=1.0),
        "replicator's weights is a finite number >= 0",
    ),
    "no weight at all": (lambda: replicator(np.zeros(2), np.zeros(2), alpha=1.0, time=1.0), "not all zero; got zeros"),
    "a negative ridge": (
        lambda: random_feature_fluctuation(np.ones((2, 3)), np.ones(3), ridge=-1.0),
        "ridge is a finite number",
    ),
    "labels of another size": (
        lambda: random_feature_flow(np.ones((2, 3)), np.ones(2), times=[1.0]),
        r"random_feature_flow's ys has the shape \(b\) with b = 3",
    ),
    "weights beyond one": (
        lambda: random_feature_flow(np.ones((2, 3)), np.ones(3), times=[1.0], weights=np.ones(2)),
        "The weights of features sum to one; got 2",
    ),
    "matrices that are rows": (
        lambda: quadratic_monte_carlo(np.ones(3)),
        "quadratic_monte_carlo's moments has the shape",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_has_no_answer_is_refused_in_a_sentence(case):
    call, words = BAD[case]
    with pytest.raises(Refusal, match=words):
        call()


def test_without_ridge_there_is_no_fluctuation_even_where_the_gram_matrix_has_no_inverse():
    assert float(random_feature_fluctuation(np.ones((2, 3)), np.arange(3.0), ridge=0)) == 0


def test_numbers_of_every_type_are_one_program():
    """An int, NumPy's floats and JAX's are the same answer, compiled once."""
    found, sizes = [], []
    for one in (1, 1.0, np.float64(1), np.float32(1), np.int32(1), jnp.asarray(1.0), jnp.float32(1)):
        mean, spread = gaussian_flow(BOWL, [1, 2], np.eye(2), times=[one], alpha=one, beta=one, transport=one)
        found.append(np.concatenate([mean.ravel(), spread.ravel()]))
        sizes.append(_gaussian._cached._cache_size())
    np.testing.assert_array_equal(found, [found[0]] * len(found))
    assert len(set(sizes)) == 1
