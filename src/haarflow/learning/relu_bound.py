"""A proved bound on `sup eta` over all directions at once, where cells are too many to be listed: branch and bound.

On a part of the sphere, cut out by the signs of some inputs, every ReLU is replaced by a quadratic function above it
(where it counts positively) or below it. What is left is the largest value of one quadratic function on the sphere. The
best of such functions are the solution of a small semidefinite program; the bound is then computed from them anew, so
that it holds whatever the solver did. The part with the largest bound is cut in two, by the input that loses most.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from haarflow.learning.relu_dual import Dual

_SQRT2 = np.sqrt(2.0)


class Proof(NamedTuple):
    """An upper bound on `sup eta`, and on how many parts of the sphere it rests."""

    bound: float
    parts: int


def prove(dual: Dual, *, level: float, parts: int, tell: Callable[[float], None] = lambda _: None) -> Proof:
    """An upper bound on eta over all directions, down to `level` at best, from so many parts of the sphere at most."""
    sphere = Sphere.of(dual)
    root = sphere.look(np.zeros(len(dual.q), np.int8))
    heap, made, looked = [(-root.bound, 0, root)], 1, 1
    while -heap[0][0] > level and looked + 2 <= parts and heap[0][2].worst >= 0:
        _, _, part = heapq.heappop(heap)
        for side in (1, -1):
            signs = part.signs.copy()
            signs[part.worst] = side
            child = sphere.look(signs)
            heapq.heappush(heap, (-min(child.bound, part.bound), made, child))
            made += 1
        looked += 2
        tell(looked / parts)
    return Proof(max(-heap[0][0], sphere.outside), looked)


class Part(NamedTuple):
    """A part of the sphere: the signs of inputs that cut it out, a bound on eta there, and the input to cut it by."""

    signs: np.ndarray
    bound: float
    worst: int


@dataclass(frozen=True)
class Sphere:
    """Directions v with `|v| = 1`; with a free bias `|w| = 1` and `|bias| ≤ reach`, beyond which eta is `outside`."""

    inputs: Float[np.ndarray, "b k"]
    q: Float[np.ndarray, " b"]
    reach: float | None
    outside: float

    @classmethod
    def of(cls, dual: Dual) -> "Sphere":
        """The directions of a dual function."""
        if not dual.free:
            return cls(dual.inputs, dual.q, None, 0.0)
        rest = dual.inputs[:, :-1]
        outside = max(float(np.linalg.norm(dual.q @ rest)), 0.0)
        return cls(dual.inputs, dual.q, float(np.linalg.norm(rest, axis=1).max()), outside)

    @property
    def ranges(self) -> Float[np.ndarray, " b"]:
        """The largest `|<v, z_i>|`."""
        if self.reach is None:
            return np.linalg.norm(self.inputs, axis=1)
        return np.linalg.norm(self.inputs[:, :-1], axis=1) + self.reach

    def look(self, signs: np.ndarray) -> Part:
        """The bound on a part, and the input whose replacement loses most there."""
        relaxation = Relaxation(self, signs)
        solution, moments = relaxation.solve()
        bound = relaxation.bound(solution)
        losses = relaxation.losses(solution, moments)
        return Part(signs, bound, int(np.argmax(losses)) if losses.max(initial=0.0) > 0 else -1)


class Relaxation:
    """The semidefinite program of one part; its variables are what any values of give a bound.

    With S > 0 a ReLU lies below `(t + S)²/4S`, and above `α t(t + T)/2T + β t` for α + β ≤ 1 and |t| ≤ T.
    """

    def __init__(self, sphere: Sphere, signs: np.ndarray):
        q, self.sphere, self.signs = sphere.q, sphere, signs
        self.up, self.down = np.flatnonzero((signs == 0) & (q > 0)), np.flatnonzero((signs == 0) & (q < 0))
        self.cut = np.flatnonzero(signs)
        self.pairs = [(i, j) for place, i in enumerate(self.cut) for j in self.cut[:place]]
        self.sizes = (len(self.up), len(self.up), len(self.down), len(self.down), len(self.cut), len(self.pairs))
        self.z, self.k = sphere.inputs, sphere.inputs.shape[1]
        self.edges = signs[self.cut, None] * self.z[self.cut]
        self.fixed = (q * (signs > 0)) @ self.z + 0.5 * q[self.up] @ self.z[self.up]
        self.heavy = -q[self.down]  # positive

    def solve(self) -> tuple[list[np.ndarray], np.ndarray]:
        """The variables in groups (1/4S, S/4, α, β, edges, pairs, multipliers of the sphere), and the moments."""
        import clarabel as compiled
        from scipy.sparse import csc_array

        clarabel: Any = compiled
        matrices, vectors = self._quadratic(), self._linear()
        count, spheres = sum(self.sizes), 1 if self.sphere.reach is None else 2
        k, total = self.k, count + spheres + 1
        columns = np.zeros((k + 1, k + 1, total))
        columns[:k, :k, :count] = -np.moveaxis(matrices, 0, -1)
        columns[:k, k, :count] = columns[k, :k, :count] = -vectors.T / 2
        for place, diagonal in enumerate(self._spheres()):
            columns[:k, :k, count + place] = np.diag(diagonal)
        columns[k, k, -1] = 1.0
        constant = np.zeros((k + 1, k + 1))
        constant[:k, k] = constant[k, :k] = -self.fixed / 2
        rows, cols = _triangle(k + 1)
        scale = np.where(rows == cols, 1.0, _SQRT2)
        psd = -columns[rows, cols] * scale[:, None]
        signs, most = self._signs(count, total, spheres)
        matrix = np.concatenate([signs, self._cones(total), psd])
        n = len(self.up)
        ends = np.concatenate([most, np.tile([0.0, 0.0, 0.5], n), constant[rows, cols] * scale])
        cost = np.zeros(total)
        cost[n : 2 * n], cost[count] = self.sphere.q[self.up], 1.0
        if self.sphere.reach is not None:
            cost[count + 1] = self.sphere.reach**2
        cost[-1] = 1.0
        cones = [clarabel.NonnegativeConeT(len(most)), *[clarabel.SecondOrderConeT(3)] * n]
        cones.append(clarabel.PSDTriangleConeT(k + 1))
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.max_iter = False, 60
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-7
        solver = clarabel.DefaultSolver(csc_array((total, total)), cost, csc_array(matrix), ends, cones, settings)
        found = solver.solve()
        moments = np.zeros((k + 1, k + 1))
        moments[rows, cols] = moments[cols, rows] = np.array(found.z)[-len(rows) :] / scale
        x = np.nan_to_num(np.array(found.x))
        return np.split(x[: count + spheres], np.cumsum(self.sizes)), moments

    def _quadratic(self) -> np.ndarray:
        """The matrix of each variable in the quadratic function, (variables, k, k)."""
        q, z, ranges = self.sphere.q, self.z, self.sphere.ranges
        squares = z[:, :, None] * z[:, None, :]
        k, up, down = self.k, self.up, self.down
        parts = [q[up, None, None] * squares[up], np.zeros((len(up), k, k))]
        parts += [-(self.heavy / (2 * ranges[down]))[:, None, None] * squares[down], np.zeros((len(down), k, k))]
        parts += [np.zeros((len(self.cut), k, k))]
        place = {one: i for i, one in enumerate(self.cut)}
        if self.pairs:
            first, second = (self.edges[[place[pair[side]] for pair in self.pairs]] for side in (0, 1))
            product = first[:, :, None] * second[:, None, :]
            parts.append((product + product.swapaxes(1, 2)) / 2)
        return np.concatenate(parts)

    def _linear(self) -> np.ndarray:
        """The vector of each variable, (variables, k)."""
        z, up, down, k = self.z, self.up, self.down, self.k
        heavy = self.heavy[:, None] * z[down]
        return np.concatenate(
            [np.zeros((2 * len(up), k)), -heavy / 2, -heavy, self.edges, np.zeros((len(self.pairs), k))]
        )

    def _spheres(self) -> list[np.ndarray]:
        """The diagonals of the squares that are held: |v|², or |w|² and the bias squared."""
        if self.sphere.reach is None:
            return [np.ones(self.k)]
        bias = np.arange(self.k) == self.k - 1
        return [(~bias).astype(float), bias.astype(float)]

    def _signs(self, count: int, total: int, spheres: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and ends of: α, β, multipliers of edges and pairs and of the bias are not negative, α + β ≤ 1."""
        n, m = len(self.up), len(self.down)
        positive = np.concatenate([np.arange(2 * n, count), np.arange(count + 1, count + spheres)]).astype(int)
        rows = -np.eye(total)[positive]
        shares = np.zeros((m, total))
        shares[np.arange(m), 2 * n + np.arange(m)] = shares[np.arange(m), 2 * n + m + np.arange(m)] = 1.0
        return np.concatenate([rows, shares]), np.concatenate([np.zeros(len(rows)), np.ones(m)])

    def _cones(self, total: int) -> np.ndarray:
        """Rows of the cones (p + s, p − s, ½): the product of the first two groups is at least 1/16."""
        n = len(self.up)
        rows = np.zeros((n, 3, total))
        places = np.arange(n)
        rows[places, 0, places] = rows[places, 0, n + places] = -1.0
        rows[places, 1, places], rows[places, 1, n + places] = -1.0, 1.0
        return rows.reshape(3 * n, total)

    def _feasible(self, solution: list[np.ndarray]) -> tuple[np.ndarray, float, np.ndarray]:
        """The variables brought into their ranges, the constant they cost, and the multipliers of the sphere."""
        tight, _, alpha, beta, edges, pairs, spheres = solution
        tight = np.maximum(tight, 1e-12)
        alpha, beta = np.maximum(alpha, 0.0), np.maximum(beta, 0.0)
        share = np.maximum(alpha + beta, 1.0)
        rest = [alpha / share, beta / share, np.maximum(edges, 0.0), np.maximum(pairs, 0.0)]
        variables = np.concatenate([tight, np.zeros_like(tight), *rest])
        return variables, float(np.sum(self.sphere.q[self.up] / (16 * tight))), spheres

    def bound(self, solution: list[np.ndarray]) -> float:
        """The bound that these variables prove: the largest value of their quadratic function on the sphere."""
        variables, constant, spheres = self._feasible(solution)
        curve = np.tensordot(variables, self._quadratic(), 1)
        slope = self.fixed + variables @ self._linear()
        bias = self._spheres()
        reach = [1.0, (self.sphere.reach or 0.0) ** 2]
        best, scale = np.inf, np.abs(curve).max() + np.abs(slope).max() + 1e-300
        held = np.maximum(spheres, np.array([-np.inf, 0.0])[: len(spheres)])
        for lift in scale * np.geomspace(1e-10, 1e3, 27):
            matrix = sum(((m + lift) * np.diag(diagonal) for m, diagonal in zip(held, bias, strict=True)), -curve)
            values, frame = np.linalg.eigh(matrix)
            if values[0] <= 1e-13 * max(np.abs(values[-1]), 1e-300):
                continue
            found = sum((m + lift) * r for m, r in zip(held, reach, strict=False))
            best = min(best, constant + found + np.sum((frame.T @ slope) ** 2 / values) / 4)
        return float(best)

    def losses(self, solution: list[np.ndarray], moments: np.ndarray) -> np.ndarray:
        """How much each input's replacement exceeds its ReLU, at the directions that the program's dual mixes."""
        losses = np.zeros(len(self.signs))
        k = self.k
        mean, squares = moments[:k, k], moments[:k, :k]
        at = self.z @ mean
        second = np.einsum("bi,ij,bj->b", self.z, squares, self.z)
        root = np.sqrt(np.maximum(second, 0.0))
        losses[self.up] = self.sphere.q[self.up] * (root - np.abs(at))[self.up] / 2
        losses[self.down] = self.heavy * (root - np.abs(at))[self.down] / 2
        return losses


def _triangle(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the upper triangle, column by column, as clarabel stores a symmetric matrix."""
    pairs = [(i, j) for j in range(k) for i in range(j + 1)]
    rows, cols = zip(*pairs, strict=True)
    return np.array(rows), np.array(cols)
