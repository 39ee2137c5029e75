"""Norms of F1 and F2 against closed forms, and kernel regression against the equation it solves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import eval_legendre

from haarflow.errors import Refusal
from haarflow.learning.sphere import relu_distance, unit_vectors
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.harmonics import f2_norm_squared, funk_hecke, harmonics, legendre
from haarflow.models.kernels import arc_cosine, feature_kernel, kernel_ridge
from haarflow.models.units import Perceptron
from haarflow.models.variation import merged_neurons, variation_norm
from haarflow.practice import kernel_regression
from haarflow.practice.kernel_regression import fit_kernel_ridge, fit_random_features

DRAW = np.random.default_rng(3)
XS = unit_vectors(DRAW, (150, 4))
YS = np.maximum(XS[:, 0], 0) + 0.3 * XS[:, 1]
NEW = unit_vectors(DRAW, (9, 4))


def test_harmonics_are_counted():
    assert [harmonics(3, k) for k in range(5)] == [1, 3, 5, 7, 9]
    assert [harmonics(2, k) for k in range(4)] == [1, 2, 2, 2]
    assert [harmonics(10, k) for k in range(5)] == [1, 10, 54, 210, 660]


def test_the_coefficients_of_a_relu_are_known_in_space():
    np.testing.assert_allclose(funk_hecke("relu", d=3, degree=4), [1 / 4, 1 / 6, 1 / 16, 0, -1 / 96], atol=1e-13)


def test_the_polynomials_are_legendre_s_and_orthogonal():
    cosines = np.linspace(-1, 1, 9)
    for k, row in enumerate(legendre(cosines, d=3, degree=6)):
        np.testing.assert_allclose(row, eval_legendre(k, cosines), atol=1e-14)
    own = funk_hecke(lambda t: legendre(t, d=7, degree=3)[3], d=7, degree=5)
    np.testing.assert_allclose(own, [0, 0, 0, 1 / harmonics(7, 3), 0, 0], atol=1e-14)


@pytest.mark.parametrize("d", [3, 6])
def test_the_degrees_add_up_to_the_kernel(d):
    """Where the cosine is not one, the tail beyond degree 80 is below 1e-5 of the diagonal."""
    seen, cosines = funk_hecke("relu", d=d, degree=80), np.array([-0.7, 0.1, 0.6])
    counts = [float(harmonics(d, k)) for k in range(81)]
    points = np.zeros((3, d))
    points[:, 0], points[:, 1] = cosines, np.sqrt(1 - cosines**2)
    summed = (seen**2 * counts) @ legendre(cosines, d=d, degree=80)
    np.testing.assert_allclose(summed, arc_cosine(points, np.eye(1, d))[:, 0] / d, atol=1e-5 / d)


def test_the_ladder_of_a_neuron_counts_harmonics_and_an_odd_function_has_no_norm():
    np.testing.assert_allclose(f2_norm_squared("relu", d=10, degree=4), [1, 11, 65, 65, 725], rtol=1e-10)
    cubic = f2_norm_squared(lambda t: t**3, d=4, degree=4)
    assert np.isfinite(cubic[:3]).all()
    assert np.isinf(cubic[3:]).all()
    square = f2_norm_squared(lambda t: t**2, d=4, degree=9)
    assert square[2] == pytest.approx(square[9])


def test_equal_neurons_are_merged_and_the_network_stays():
    cloud = Cloud(
        jnp.array([[1.0, 3.0, 4.0], [2.0, 0.6, 0.8], [-1.0, 1.0, 0.0], [1.0, 0.5, 0.0], [5.0, 0.0, 0.0]]),
        jnp.array([0.1, 0.2, 0.2, 0.4, 0.1]),
    )
    merged = merged_neurons(cloud)
    assert merged.n == 1
    assert variation_norm(cloud) == pytest.approx(0.1 * 5 + 0.2 * 2)
    assert float(relu_distance(cloud, merged)) < 1e-14
    two = uniform([[3.0, 4.0, 1.0, 0.0], [3.0, -4.0, 2.0, 0.0]])
    assert variation_norm(two, outputs=2) == pytest.approx(np.hypot(9, -4) / 2)


@pytest.mark.parametrize("method", ["cholesky", "conjugate gradients"])
def test_both_methods_solve_the_equation_of_kernel_ridge_regression(method):
    fit = fit_kernel_ridge(XS, YS, ridge=1e-3, method=method, landmarks=40, tolerance=1e-12)
    gram = np.asarray(arc_cosine(XS))
    weights = kernel_ridge(gram, YS, ridge=1e-3)
    np.testing.assert_allclose(fit.weights[:, 0], weights, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(fit.predict(NEW), np.asarray(arc_cosine(NEW, XS)) @ weights, rtol=1e-8)
    assert fit.norm == pytest.approx(np.sqrt(weights @ gram @ weights), rel=1e-8)
    assert fit.residual < 1e-10


def test_several_outputs_are_as_many_fits_and_a_kernel_may_be_numpy():
    def kernel(xs, others):
        return np.exp(-((np.asarray(xs)[:, None] - np.asarray(others)[None]) ** 2).sum(-1))

    both = np.column_stack([YS, YS**2])
    fit = fit_kernel_ridge(XS, both, ridge=0.1, kernel=kernel, method="conjugate gradients")
    alone = fit_kernel_ridge(XS, both[:, 1], ridge=0.1, kernel=kernel, method="cholesky")
    assert fit.predict(NEW).shape == (9, 2)
    np.testing.assert_allclose(fit.predict(NEW)[:, 1], alone.predict(NEW), rtol=1e-5)


def test_features_of_a_cloud_are_regression_with_their_kernel():
    unit = Perceptron(4, 1, "tanh")
    keys = jax.random.split(jax.random.key(0))
    cloud = Cloud(jax.random.normal(keys[0], (30, unit.dim)), jax.nn.softmax(jax.random.normal(keys[1], (30,))))
    fit = fit_random_features(unit, cloud, XS, YS, ridge=0.01)
    dual = fit_kernel_ridge(XS, YS, ridge=0.01, kernel=lambda a, b: feature_kernel(unit, cloud, a, b))
    np.testing.assert_allclose(fit.predict(NEW)[:, 0], dual.predict(NEW), rtol=1e-6)
    assert fit.norm == pytest.approx(dual.norm, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fit_kernel_ridge(XS, YS, ridge=0.1, kernel=lambda a, b: -(a @ b.T)), "positive semi-definite kernel"),
        (lambda: fit_kernel_ridge(XS, YS, ridge=0.1, kernel=lambda a, b: a[:, :1] - b[:, :1].T), "is symmetric"),
        (lambda: fit_kernel_ridge(XS, YS, ridge=0.1, kernel=lambda a, b: a), "so many rows and columns"),
        (lambda: fit_kernel_ridge(XS, YS, ridge=0.0, method="conjugate gradients"), "need a positive ridge"),
        (lambda: fit_kernel_ridge(XS, YS, ridge=-1.0), "ridge"),
        (lambda: fit_kernel_ridge(XS, YS[:-1], ridge=1.0), "ys"),
        (lambda: fit_kernel_ridge(np.ones((3, 2)), np.ones(3), ridge=0.0), "Write a larger ridge"),
        (lambda: fit_kernel_ridge(XS, YS, ridge=1.0, kernel="rbf"), "is one of relu; got 'rbf'"),
        (lambda: fit_kernel_ridge(XS, YS, ridge=1.0).predict(np.ones((2, 3))), "predicts on a table"),
        (lambda: fit_random_features(Perceptron(4), uniform(np.ones((200, 6))), XS, YS, ridge=0.0), "positive ridge"),
        (lambda: f2_norm_squared("relu", d=30, degree=100), "above rounding up to degree"),
        (lambda: funk_hecke(lambda t: t[:2], d=3, degree=2), "as many values"),
        (lambda: variation_norm(uniform([[1.0]])), "Neurons are particles"),
    ],
)
def test_nonsense_is_refused(call, words):
    with pytest.raises(Refusal, match=words):
        call()


def test_a_table_is_factorised_panel_by_panel(monkeypatch):
    monkeypatch.setattr(kernel_regression, "PANEL", 7)
    monkeypatch.setattr(kernel_regression, "BLOCK", 8 * 40 * 11)  # blocks of rows that are no panels
    table, two = np.asarray(arc_cosine(XS[:40])), np.random.default_rng(0).normal(size=(40, 2))
    exact = np.linalg.solve(table + 0.1 * np.eye(40), two)
    found = fit_kernel_ridge(XS[:40], two, ridge=0.1, method="cholesky")
    np.testing.assert_allclose(found.weights, exact, rtol=1e-11)
    assert found.residual < 1e-13
