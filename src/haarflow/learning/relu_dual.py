"""The dual function of sparse ReLU learning, `eta(w) = Σ_i q_i relu(<w, z_i>)`, and its largest value in a cell.

Within a cell eta is linear, so that its largest value on the unit sphere is the length of a projection on a cone: a
non-negative least squares problem, whose multipliers prove the value whatever the solver did.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from haarflow.learning.activation_cells import Cells

_STIFF = 1e4  # how heavy the balance of a free bias weighs in the least squares; it is then mended exactly
_GAIN = 1e-12


class Peak(NamedTuple):
    """A direction, the value of eta there, a proved upper bound within its cell, and which inputs are on in it."""

    direction: Float[np.ndarray, " k"]
    value: float
    bound: float
    active: Bool[np.ndarray, " b"]


@dataclass(frozen=True)
class Dual:
    """The function eta of b numbers q on lifted inputs (b, k); with `free`, the last of them is an unpenalised bias.

    Directions have length one; with `free`, without counting their last coordinate, and q sums to zero.
    """

    inputs: Float[np.ndarray, "b k"]
    q: Float[np.ndarray, " b"]
    free: bool = False

    def __call__(self, directions: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
        """The values at some directions."""
        return np.maximum(directions @ self.inputs.T, 0.0) @ self.q

    def lengths(self, directions: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
        """What directions cost: their lengths, without the bias where it is free."""
        return np.linalg.norm(directions[:, : directions.shape[1] - self.free], axis=1)

    def mirrored(self) -> "Dual":
        """−eta."""
        return Dual(self.inputs, -self.q, self.free)

    def peak(self, active: Bool[np.ndarray, " b"]) -> Peak:
        """The largest value in one closed cell, and a bound on it that holds whatever the solver did."""
        slope = (self.q * active) @ self.inputs
        if self.free and active.all():
            return self._linear_peak(slope, active)
        sides = np.where(active, 1.0, -1.0)
        weights = np.ones(self.inputs.shape[1])
        weights[-1] = _STIFF if self.free else 1.0
        multipliers = _non_negative(-(sides[:, None] * self.inputs * weights).T, slope * weights)
        residual = slope + (multipliers * sides) @ self.inputs
        direction = residual * weights**2
        if self.free:
            multipliers = _balanced(multipliers, sides, residual[-1])
            residual = (slope + (multipliers * sides) @ self.inputs)[:-1]
        return self._reached(direction, float(np.linalg.norm(residual)), active)

    def _linear_peak(self, slope, active) -> Peak:
        """All inputs on and the bias free: eta is a linear function of the rest, as q sums to zero."""
        direction = np.append(slope[:-1], 0.0)
        direction[-1] = np.max(-self.inputs[:, :-1] @ slope[:-1], initial=0.0)
        return self._reached(direction, float(np.linalg.norm(slope[:-1])), active)

    def _reached(self, direction, bound, active) -> Peak:
        length = self.lengths(direction[None])[0]
        if not length > 1e-13 * (np.abs(self.q).sum() + 1e-300):
            return Peak(np.zeros_like(direction), 0.0, max(bound, 0.0), active)
        direction = direction / length
        return Peak(direction, float(self(direction[None])[0]), bound, active)

    def slopes(self, patterns: Bool[np.ndarray, "cells b"]) -> Float[np.ndarray, " cells"]:
        """A bound on the largest value in each cell that needs no solver: the length of the slope there.

        With a free bias the slope is taken at an input of the cell's border, on the side where the bias lowers it.
        """
        slopes = patterns.astype(float) @ (self.q[:, None] * self.inputs)
        if not self.free:
            return np.linalg.norm(slopes, axis=1)
        rest, pull = slopes[:, :-1], slopes[:, -1]
        best = np.where(np.abs(pull) <= 1e-13 * np.abs(self.q).sum(), np.linalg.norm(rest, axis=1), np.inf)
        for row, on in zip(self.inputs[:, :-1], patterns.T, strict=True):
            allowed = np.where(pull > 0, ~on, on)
            best = np.where(allowed, np.minimum(best, np.linalg.norm(rest - pull[:, None] * row, axis=1)), best)
        return best

    def peaks(self, cells: Cells, *, above: float, most: int | None = None) -> list[Peak]:
        """The peaks of the cells whose slopes exceed a level, the steepest first; at most so many of them."""
        slopes = self.slopes(cells.patterns)
        order = np.argsort(-slopes)
        steep = order[slopes[order] > above][:most]
        return [self.peak(cells.patterns[cell]) for cell in steep]

    def climb(self, start: Float[np.ndarray, " k"], *, most: int = 100) -> Peak:
        """A local peak: the best of the start's cell, then of its neighbours across the edges it lies on, and so on."""
        best = self.peak(self.inputs @ start > 0)
        for _ in range(most):
            reach = self.inputs @ best.direction
            edges = np.flatnonzero(np.abs(reach) <= 1e-9 * (1 + np.abs(best.direction).max()))
            tried = [self.peak(best.active ^ (np.arange(len(reach)) == edge)) for edge in edges if self.q[edge] > 0]
            better = max(tried, key=lambda peak: peak.value, default=best)
            if better.value <= best.value * (1 + 1e-9) + _GAIN:
                break
            best = better
        return best

    def ascend(self, starts: Float[np.ndarray, "n k"], *, steps: int = 60) -> Float[np.ndarray, "n k"]:
        """The starts after steepest ascent on the sphere with shrinking steps: near local peaks, not on them."""
        directions = starts / self.lengths(starts)[:, None]
        sizes = np.geomspace(0.3, 0.01, steps)
        for size in sizes:
            slopes = ((directions @ self.inputs.T > 0) * self.q) @ self.inputs
            slopes /= np.maximum(np.linalg.norm(slopes, axis=1, keepdims=True), 1e-300)
            directions = directions + size * slopes
            directions /= np.maximum(self.lengths(directions)[:, None], 1e-300)
        return directions


def _non_negative(matrix: Float[np.ndarray, "k b"], target: Float[np.ndarray, " k"]) -> Float[np.ndarray, " b"]:
    """The non-negative combination of columns nearest to a target; zero, which proves less, where it is not found."""
    from scipy.optimize import nnls

    scale = max(np.abs(target).max(), 1e-300)
    try:
        return scale * nnls(matrix, target / scale, maxiter=30 * matrix.shape[1])[0]
    except RuntimeError:
        return np.zeros(matrix.shape[1])


def _balanced(multipliers, sides, excess):
    """The multipliers with their balance exact: one of them takes what is left."""
    place = np.flatnonzero(sides == -np.sign(excess)) if excess else []
    if len(place):
        multipliers = multipliers.copy()
        multipliers[place[0]] += abs(excess)
    return multipliers
