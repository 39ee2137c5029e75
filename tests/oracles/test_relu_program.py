"""Sparse ReLU learning against cvxpy, closed forms on the line, random directions, and the library's own risk."""

from itertools import combinations

import jax
import numpy as np
import pytest

import haarflow as hf
from haarflow.learning.activation_cells import activation_cells, count_cells
from haarflow.learning.relu_bound import Relaxation, Sphere, prove
from haarflow.learning.relu_dual import Dual
from haarflow.learning.relu_master import Problem, coefficients_on
from haarflow.practice.relu_program import relu_program


def problem(seed, b, d, noise=0.3):
    """Labels of three neurons with noise."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(b, d))
    return x, np.maximum(x @ draw.normal(size=(d, 3)), 0) @ [1.0, -1.0, 0.5] + noise * draw.normal(size=b)


def unit_directions(draw, n, d, bias):
    found = draw.normal(size=(n, d + (bias != "none")))
    if bias == "free":
        found[:, -1] *= 3
    return found / np.linalg.norm(found[:, :d] if bias == "free" else found, axis=1, keepdims=True)


@pytest.mark.parametrize(("b", "k"), [(5, 1), (7, 2), (10, 3), (9, 4), (3, 5), (8, 5)])
def test_cells_are_as_many_as_the_formula_says_and_hold_their_directions(b, k):
    rows = np.random.default_rng(b).normal(size=(b, k))
    cells = activation_cells(rows)
    assert len(cells.patterns) == count_cells(b if k > 1 else 1, min(b, k))
    assert len(np.unique(cells.patterns, axis=0)) == len(cells.patterns)
    assert ((cells.directions @ rows.T > 0) == cells.patterns).all()


@pytest.mark.parametrize(
    "rows",
    [
        [[i, j, 1] for i in range(3) for j in range(3)],  # a grid: many lines through many points
        [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1], [2, 2, 2], [-1, 0, 0], [0, 0, 0]],  # lines met twice
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [1, -1, 0, 0], [0, 1, -1, 0], [1, 0, -1, 0]],  # not of full rank
    ],
    ids=["grid", "parallel", "braids"],
)
def test_cells_in_special_position_are_as_many_as_winder_says(rows):
    rows = np.array(rows, float)
    lines = np.unique([row / row[np.flatnonzero(row)[0]] for row in rows if row.any()], axis=0)
    subsets = [list(chosen) for size in range(len(lines) + 1) for chosen in combinations(range(len(lines)), size)]
    winder = sum((-1) ** (len(s) - (np.linalg.matrix_rank(lines[s]) if s else 0)) for s in subsets)
    cells = activation_cells(rows)
    assert len(cells.patterns) == len(np.unique(cells.patterns, axis=0)) == winder < count_cells(len(lines), 3)
    assert not cells.general
    assert ((cells.directions @ rows.T > 1e-12) == cells.patterns).all()


CASES = [
    (seed, d, bias)
    for seed, (d, bias) in enumerate(
        [(1, "free")] * 3
        + [(1, "penalised")] * 3
        + [(1, "none")]
        + [(2, "none")] * 3
        + [(2, "penalised")] * 2
        + [(2, "free")] * 2
        + [(3, "none")] * 3
        + [(3, "penalised"), (3, "free"), (3, "free")]
    )
]
assert len(CASES) == 20


@pytest.mark.parametrize(("seed", "d", "bias"), CASES)
def test_the_objective_is_that_of_the_whole_convex_program(seed, d, bias):
    b = {1: 9, 2: 8, 3: 6}[d]
    x, y = problem(seed, b, d)
    best = relu_program(x, y, penalty=0.05, bias=bias)
    wanted = by_cvxpy(np.random.default_rng(seed), x, y, 0.05, bias)
    np.testing.assert_allclose(best.objective, wanted, rtol=1e-6)
    assert best.gap < 1e-6 * np.mean(y**2) / 2
    assert best.n <= b + 1


def by_cvxpy(draw, x, y, penalty, bias):
    """The program over all cells, found in another way: by directions beside every ray in which hyperplanes meet."""
    cvxpy = pytest.importorskip("cvxpy")
    z = x if bias == "none" else np.column_stack([x, np.ones(len(x))])
    b, k = z.shape
    meeting = [np.linalg.svd(z[list(rows)])[2][-1] if rows else np.ones(1) for rows in combinations(range(b), k - 1)]
    rays = np.concatenate([meeting, np.negative(meeting)])
    beside = rays[:, None] + 1e-6 * draw.normal(size=(len(rays), 100, k))
    patterns = np.unique(beside.reshape(-1, k) @ z.T > 0, axis=0)
    assert len(patterns) == count_cells(b if k > 1 else 1, k)
    plus, minus, mean = (cvxpy.Variable(shape) for shape in ((len(patterns), k), (len(patterns), k), 1))
    sides = np.where(patterns, 1.0, -1.0)
    outputs = cvxpy.sum(cvxpy.multiply(patterns, (plus - minus) @ z.T), axis=0)
    if bias == "free":
        outputs = outputs + mean
    counted = slice(0, k - (bias == "free"))
    norm = sum(cvxpy.sum(cvxpy.norm(part[:, counted], axis=1)) for part in (plus, minus))
    inside = [cvxpy.multiply(sides, part @ z.T) >= 0 for part in (plus, minus)]
    program = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(outputs - y) / (2 * b) + penalty * norm), inside)
    return program.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_least_norm_on_the_line_has_a_closed_form(seed):
    draw = np.random.default_rng(seed)
    x = np.sort(draw.normal(size=9))
    y = draw.normal(size=9) + (5.0 * x if seed % 2 else 0.0)
    slopes = np.diff(y) / np.diff(x)
    turns, ends = np.abs(np.diff(slopes)).sum(), abs(slopes[0] + slopes[-1])
    best = relu_program(x[:, None], y, penalty=0.0)
    np.testing.assert_allclose(best.norm, max(turns, (turns + ends) / 2), rtol=1e-9)
    np.testing.assert_allclose(best.predict(x[:, None]), y, atol=1e-9 * np.abs(y).max())
    assert best.gap < 1e-9 * best.norm
    # what the network itself turns by, and the slopes at its ends
    rising = best.directions[:, 0] > 0
    knots = (-best.directions[:, 1] / best.directions[:, 0]).round(9)
    jumps = np.array([best.coefficients[knots == knot].sum() for knot in np.unique(knots)])
    far = best.coefficients[rising].sum() - best.coefficients[~rising].sum()
    np.testing.assert_allclose(best.norm, max(np.abs(jumps).sum(), abs(far)), rtol=1e-9)


@pytest.mark.parametrize(("d", "bias"), [(1, "free"), (1, "penalised"), (2, "none"), (2, "free"), (3, "penalised")])
def test_no_direction_beats_the_certificate(d, bias):
    x, y = problem(d, 12, d)
    best = relu_program(x, y, penalty=0.03, bias=bias)
    certificate = best.certificate
    values = np.abs(certificate.eta(unit_directions(np.random.default_rng(0), 100_000, d, bias)))
    assert values.max() <= certificate.bound * (1 + 1e-9)
    assert values.max() > 0.9 * certificate.bound
    np.testing.assert_allclose(np.abs(certificate.eta(certificate.direction[None])), certificate.attained, rtol=1e-9)
    np.testing.assert_allclose([certificate.attained, certificate.bound], 0.03, rtol=1e-6)
    support = np.sign(best.coefficients) * certificate.eta(best.directions)
    np.testing.assert_allclose(support, 0.03, rtol=1e-6)


@pytest.mark.parametrize("bias", ["none", "penalised", "free"])
def test_the_cloud_is_the_same_network_for_the_risk_and_the_penalty(bias):
    x, y = problem(4, 12, 2)
    best = relu_program(x, y, penalty=0.02, bias=bias)
    with jax.enable_x64(True):
        cloud = best.cloud
        np.testing.assert_allclose(hf.network(best.unit, cloud, x)[:, 0], best.predict(x), atol=1e-12)
        risk = hf.Risk(best.unit, hf.Sample(x, y)) + hf.Penalty(best.penalty)
        if bias != "free":
            np.testing.assert_allclose(risk(cloud), best.objective, rtol=1e-12)
    costs = np.abs(cloud.atoms[:, 0]) * np.linalg.norm(
        cloud.atoms[:, 1:3] if bias == "free" else cloud.atoms[:, 1:], axis=1
    )
    np.testing.assert_allclose(costs.mean(), best.norm, rtol=1e-12)


def test_units_of_inputs_and_labels_do_not_matter():
    x, y = problem(5, 10, 2)
    for bias in ("none", "free"):
        plain = relu_program(x, y, penalty=0.02, bias=bias)
        other = relu_program(1e4 * x, 1e-3 * y, penalty=0.02 * 10, bias=bias)
        np.testing.assert_allclose(other.objective, 1e-6 * plain.objective, rtol=1e-7)
        np.testing.assert_allclose(other.norm, 1e-7 * plain.norm, rtol=1e-5)


def test_a_large_penalty_leaves_no_neuron():
    x, y = problem(6, 8, 2)
    best = relu_program(x, y, penalty=100.0, bias="none")
    assert (best.n, best.norm) == (0, 0.0)
    np.testing.assert_allclose(best.objective, np.mean(y**2) / 2)
    assert best.gap < 1e-12
    assert best.cloud.n == 1
    np.testing.assert_array_equal(best.predict(x), 0.0)


def test_neurons_beyond_the_number_of_inputs_are_not_needed():
    draw = np.random.default_rng(0)
    x, y = problem(7, 5, 2)
    directions = np.repeat(unit_directions(draw, 20, 2, "none"), 3, axis=0)  # a solver divides what copies share
    task = Problem(x, y, 1e-4, False)
    coefficients, _ = coefficients_on(task, directions)
    assert 0 < np.count_nonzero(coefficients) <= 5
    features, residual = task.features(directions), y - task.features(directions) @ coefficients
    np.testing.assert_array_less(np.abs(features.T @ residual / 5), 1e-4 * (1 + 1e-6))


@pytest.mark.parametrize("free", [False, True])
def test_a_bound_on_the_sphere_holds_whatever_its_numbers_are(free):
    draw = np.random.default_rng(1)
    inputs, q = draw.normal(size=(9, 3)), draw.normal(size=9)
    if free:
        inputs[:, -1], q = 1.0, q - q.mean()
    dual = Dual(inputs, q, free)
    sphere, signs = Sphere.of(dual), np.zeros(9, np.int8)
    signs[[0, 4]] = 1, -1
    relaxation = Relaxation(sphere, signs)
    directions = unit_directions(draw, 50_000, 3 - free, "free" if free else "none")
    reach = directions @ inputs.T
    inside = (reach[:, 0] >= 0) & (reach[:, 4] <= 0)
    if free:
        inside &= np.abs(directions[:, -1]) <= sphere.reach
    largest = dual(directions[inside]).max()
    for _ in range(20):
        numbers = [draw.uniform(-0.2, 1.2, size) for size in relaxation.sizes] + [draw.normal(size=1 + free)]
        assert relaxation.bound(numbers) >= largest
    solution, _ = relaxation.solve()
    assert largest <= relaxation.bound(solution) < (10 if free else 2) * largest  # a free bias is bounded less well


@pytest.mark.parametrize("bias", ["none", "penalised", "free"])
def test_the_search_finds_the_optimum_of_all_cells_and_its_bound_is_one(bias):
    x, y = problem(8, 14, 2)
    exact = relu_program(x, y, penalty=0.03, bias=bias, method="cells")
    found = relu_program(x, y, penalty=0.03, bias=bias, method="search", parts=12)
    np.testing.assert_allclose(found.objective, exact.objective, rtol=1e-8)
    assert found.certificate.bound >= found.certificate.attained
    assert found.objective - exact.objective <= found.gap
    more = relu_program(x, y, penalty=0.03, bias=bias, method="search", parts=60)
    assert more.gap < found.gap < found.objective


def test_more_parts_prove_more():
    draw = np.random.default_rng(2)
    dual = Dual(draw.normal(size=(15, 3)), draw.normal(size=15))
    exact = max(peak.bound for peak in dual.peaks(activation_cells(dual.inputs), above=0.0))
    bounds = [prove(dual, level=0.0, parts=parts).bound for parts in (1, 11, 31)]
    assert bounds[0] >= bounds[1] >= bounds[2] >= exact * (1 - 1e-9)


def test_progress_is_told_and_neurons_are_listed():
    heard = []
    x, y = problem(9, 14, 2)
    best = relu_program(x, y, penalty=0.03, bias="none", method="search", parts=6, progress=heard.append)
    assert heard
    assert all(0 <= share <= 1 for share in heard)
    assert list(best.table()) == ["coefficient", "w[0]", "w[1]"]
    assert "optimal up to a proved gap" in repr(best)


def test_a_function_on_the_line_draws_itself():
    from matplotlib.figure import Figure

    x, y = problem(10, 14, 1)
    axis = Figure().subplots()
    relu_program(x, y, penalty=0.03).draw(axis)
    assert [line.get_label() for line in axis.lines][0::2] == ["data", "knots"]


@pytest.mark.slow
def test_two_hundred_inputs_in_ten_dimensions_have_a_proved_gap():
    x, y = problem(0, 200, 10, noise=0.1)
    best = relu_program(x, y, penalty=0.1, bias="none", parts=100)
    assert best.n <= 201
    assert best.certificate.attained <= 0.1 * (1 + 1e-6)
    assert best.gap < 0.1 * best.objective
    draw = np.random.default_rng(0)
    values = np.abs(best.certificate.eta(unit_directions(draw, 100_000, 10, "none")))
    assert values.max() <= best.certificate.bound
