"""The convex program of sparse ReLU learning on some cells, and on some directions: solved by clarabel and HiGHS.

On cells a neuron is a vector `v_j` in a cone, its output linear in it and its cost its length; on directions a neuron
is a signed number. The first finds where neurons are, the second how large they are.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

_ON_EDGE = 1e-6  # a direction this near to an edge of its cell, on which the solver held it, lies on it


@dataclass(frozen=True)
class Problem:
    """Lifted inputs (b, k), labels and penalty: `|f − y|²/2b + penalty · norm`; with `free`, bias and mean are free."""

    inputs: Float[np.ndarray, "b k"]
    labels: Float[np.ndarray, " b"]
    penalty: float
    free: bool

    @property
    def b(self) -> int:
        """The number of inputs."""
        return len(self.labels)

    @property
    def counted(self) -> int:
        """How many coordinates of a direction its length counts."""
        return self.inputs.shape[1] - self.free

    def features(self, directions: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "b n"]:
        """What each neuron says of each input."""
        return np.maximum(self.inputs @ directions.T, 0.0)

    def value(self, outputs: Float[np.ndarray, " b"], norm: float) -> float:
        """The objective."""
        return float(np.sum((outputs - self.labels) ** 2) / (2 * self.b) + self.penalty * norm)


@dataclass
class Column:
    """A cell with a sign: the neurons of the program that are in it; `held` are the edges that it must not cross."""

    active: Bool[np.ndarray, " b"]
    sign: float
    held: Bool[np.ndarray, " b"] = field(repr=False)

    @property
    def name(self) -> bytes:
        """The same for the same cell and sign."""
        return np.packbits(self.active).tobytes() + (b"+" if self.sign > 0 else b"-")


@dataclass(frozen=True)
class Stage:
    """The optimum over some cells: vectors (columns, k), residuals `y − f` (b,), and whether no edge was crossed."""

    vectors: Float[np.ndarray, "m k"]
    residuals: Float[np.ndarray, " b"]
    whole: bool


def solve_on_cells(problem: Problem, columns: list[Column]) -> Stage:
    """The optimum over these cells; edges that a neuron has crossed are held from now on, for the next time."""
    vectors, residuals = _on_cells(problem, columns)
    sides = np.where([column.active for column in columns], 1.0, -1.0)
    crossed = sides * (vectors @ problem.inputs.T) < -1e-8 * (1e-2 + np.abs(vectors).max())
    new = [crossed[j] & ~column.held for j, column in enumerate(columns)]
    for column, fresh in zip(columns, new, strict=True):
        column.held |= fresh
    return Stage(vectors, residuals, not any(fresh.any() for fresh in new))


def directions_of(problem: Problem, columns: list[Column], stage: Stage) -> Float[np.ndarray, "n k"]:
    """The directions of the neurons that the optimum has, on the edges on which the solver held them."""
    lengths = np.linalg.norm(stage.vectors[:, : problem.counted], axis=1)
    large = np.flatnonzero(lengths > 1e-7 * max(lengths.max(initial=0.0), 1e-7))
    found = [_on_its_edges(problem, stage.vectors[j] / lengths[j], columns[j].held) for j in large]
    return np.array(found).reshape(len(large), -1)


def _on_cells(problem: Problem, columns: list[Column]) -> tuple[np.ndarray, np.ndarray]:
    """The vectors (columns, k) and residuals of the conic program; variables are v, lengths, residuals, the mean."""
    import clarabel as compiled
    from scipy.sparse import block_diag, coo_array, csc_array, diags_array, eye_array, hstack, vstack

    clarabel: Any = compiled
    z, b, k, m = problem.inputs, problem.b, problem.inputs.shape[1], len(columns)
    free = int(problem.free)
    outputs = np.hstack([column.sign * column.active[:, None] * z for column in columns])
    fit = hstack([csc_array(outputs), csc_array((b, m)), eye_array(b), csc_array(np.ones((b, free)))])
    edges = block_diag([_edges(z, column) for column in columns])
    count = sum(int(column.held.sum()) for column in columns)
    edges = hstack([edges, csc_array((count, m + b + free))])
    rows, places = [], []
    for j in range(m):  # each cone holds the length, then the counted coordinates of the vector
        start = j * (1 + problem.counted)
        rows += range(start, start + 1 + problem.counted)
        places += [m * k + j, *range(j * k, j * k + problem.counted)]
    size = m * (1 + problem.counted)
    lengths = coo_array((-np.ones(size), (rows, places)), shape=(size, m * k + m + b + free))
    cost = np.concatenate([np.zeros(m * k), np.full(m, problem.penalty), np.zeros(b + free)])
    curvature = diags_array(np.concatenate([np.zeros(m * k + m), np.full(b, 1 / b), np.zeros(free)]), format="csc")
    cones = [clarabel.ZeroConeT(b), clarabel.NonnegativeConeT(count)]
    cones += [clarabel.SecondOrderConeT(1 + problem.counted)] * m
    bounds = np.concatenate([problem.labels, np.zeros(count + size)])
    matrix = csc_array(vstack([fit, edges, lengths]))
    solution = clarabel.DefaultSolver(csc_array(curvature), cost, matrix, bounds, cones, _settings(clarabel)).solve()
    x = np.array(solution.x)
    return x[: m * k].reshape(m, k), x[m * k + m : m * k + m + b]


def _edges(z: np.ndarray, column: Column) -> Any:
    from scipy.sparse import csc_array

    sides = np.where(column.active, -1.0, 1.0)[column.held]
    return csc_array(sides[:, None] * z[column.held])


def _settings(clarabel: Any) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, 200
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    return settings


def _on_its_edges(problem: Problem, direction, held):
    """The direction moved onto the edges that it nearly lies on, of length one."""
    near = held & (np.abs(problem.inputs @ direction) < _ON_EDGE)
    if near.any():
        rows = problem.inputs[near]
        moved = direction - np.linalg.lstsq(rows, rows @ direction, rcond=1e-9)[0]
        direction = moved if np.linalg.norm(moved) > 0.5 * np.linalg.norm(direction) else direction
    return direction / np.linalg.norm(direction[: problem.counted])


def merge_directions(directions: Float[np.ndarray, "n k"], *, within: float = 1e-6) -> Float[np.ndarray, "m k"]:
    """One of each family of directions that nearly coincide."""
    kept: list[np.ndarray] = []
    for direction in directions:
        if all(np.linalg.norm(direction - other) > within for other in kept):
            kept.append(direction)
    return np.array(kept).reshape(len(kept), directions.shape[1])


def coefficients_on(problem: Problem, directions: Float[np.ndarray, "n k"]) -> tuple[np.ndarray, float]:
    """The best signed coefficients (n,) of neurons with these directions, at most b of them not zero; and the mean.

    A quadratic program; then a vertex of the linear program with the same outputs, which is sparse and costs no more;
    then the equations of optimality on the neurons that are left, which give the last digits.
    """
    features = problem.features(directions)
    centred = features - features.mean(axis=0) if problem.free else features
    labels = problem.labels - problem.labels.mean() if problem.free else problem.labels
    weight = problem.penalty * problem.b
    coefficients = _lasso(centred, labels, weight)
    if np.count_nonzero(_large(coefficients, 1e-9)) > np.linalg.matrix_rank(centred):
        coefficients = _vertex(centred, coefficients)
    exact = _polished(centred, labels, weight, coefficients)
    mean = float(np.mean(problem.labels - features @ exact)) if problem.free else 0.0
    return exact, mean


def _large(coefficients: np.ndarray, share: float) -> np.ndarray:
    return np.abs(coefficients) > share * np.abs(coefficients).max(initial=0.0)


def _polished(features: np.ndarray, labels: np.ndarray, weight: float, start: np.ndarray) -> np.ndarray:
    """The optimum by the equations of the fewest neurons that satisfy them, all others being allowed to stay zero.

    Where no choice of neurons does, what the solver found.
    """
    for share in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-9):
        support = _large(start, share)
        found = np.zeros(len(start))
        found[support] = _stationary(features[:, support], labels, weight, np.sign(start[support]))
        slopes = features.T @ (labels - features @ found)
        if (found * start >= 0).all() and np.abs(slopes).max(initial=0.0) <= weight * (1 + 1e-8):
            return found
    return np.where(_large(start, 1e-9), start, 0.0)


def _lasso(features: np.ndarray, labels: np.ndarray, weight: float) -> np.ndarray:
    """argmin |features c − labels|²/2 + weight |c|₁."""
    import clarabel as compiled
    from scipy.sparse import csc_array, diags_array, eye_array, hstack, vstack

    clarabel: Any = compiled
    b, n = features.shape
    fit = hstack([csc_array(features), csc_array(-features), eye_array(b)])
    signs = hstack([-eye_array(2 * n), csc_array((2 * n, b))])
    curvature = diags_array(np.concatenate([np.zeros(2 * n), np.ones(b)]), format="csc")
    cost = np.concatenate([np.full(2 * n, weight), np.zeros(b)])
    cones = [clarabel.ZeroConeT(b), clarabel.NonnegativeConeT(2 * n)]
    bounds = np.concatenate([labels, np.zeros(2 * n)])
    matrix = csc_array(vstack([fit, signs]))
    solution = clarabel.DefaultSolver(csc_array(curvature), cost, matrix, bounds, cones, _settings(clarabel)).solve()
    x = np.maximum(np.array(solution.x)[: 2 * n], 0.0)
    return x[:n] - x[n:]


def _vertex(features: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Other coefficients with the same outputs, of no larger sum of sizes, and no more than there are inputs."""
    from scipy.optimize import linprog

    signs = np.where(coefficients < 0, -1.0, 1.0)
    found = linprog(
        np.ones(features.shape[1]),
        A_eq=features * signs,
        b_eq=features @ coefficients,
        bounds=(0, None),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10},
    )
    return coefficients if found.x is None else signs * found.x


def _stationary(features: np.ndarray, labels: np.ndarray, weight: float, signs: np.ndarray) -> np.ndarray:
    """The solution of `Φᵀ(Φc − y) + weight · signs = 0`; zeros where the neurons depend on each other."""
    if not len(signs):
        return signs
    q, r = np.linalg.qr(features)
    sizes = np.abs(np.diag(r))
    if len(sizes) < len(signs) or sizes.min() < 1e-9 * sizes.max():
        return np.zeros(len(signs))
    return np.linalg.solve(r, q.T @ labels - weight * np.linalg.solve(r.T, signs))


def least_norm(features: Float[np.ndarray, "b n"], labels: Float[np.ndarray, " b"]) -> tuple[Any, Any, float]:
    """The linear program of least norm through all labels: coefficients (n,), the dual's q (b,), and the mean."""
    from scipy.optimize import linprog

    b, n = features.shape
    found = linprog(
        np.concatenate([np.ones(2 * n), [0.0]]),
        A_eq=np.column_stack([features, -features, np.ones(b)]),
        b_eq=labels,
        bounds=[(0, None)] * (2 * n) + [(None, None)],
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.x is None:
        return None, None, 0.0
    return found.x[:n] - found.x[n : 2 * n], np.asarray(found.eqlin.marginals), float(found.x[-1])
