"""The least value of a quadratic on a sphere, in a ball, in a box or on R^p, with a proof of how far it may be off.

`f(z) = zᵀMz + c·z`. On a sphere of radius r a point x is a minimiser if and only if there is a multiplier with
`(M + t I) x = −c/2` and `M + t I ⪰ 0` (the trust-region problem; Moré and Sorensen 1983). In the basis of M's
eigenvectors this is one equation in t, the secular equation; where c does not meet the lowest eigenvectors it may have
no solution (the hard case), and what is missing in length is made up along one of them.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float


class Least(NamedTuple):
    """A point, its value, a number that no value is below, and the rule that proves it."""

    point: Float[np.ndarray, " p"]
    value: float
    bound: float
    rule: str


def least_on_sphere(matrix: Float[np.ndarray, "p p"], linear: Float[np.ndarray, " p"], radius: float) -> Least:
    """The minimum over |z| = radius."""
    values, vectors = np.linalg.eigh(matrix)
    point, shift = _secular(values - values[0], vectors.T @ linear / 2, radius)
    return _proved(matrix, linear, radius, vectors @ point, shift - values[0], "secular equation")


def least_in_ball(matrix: Float[np.ndarray, "p p"], linear: Float[np.ndarray, " p"], radius: float) -> Least:
    """The minimum over |z| <= radius: the free minimum if it lies inside, else the one on the sphere."""
    free = least_on_space(matrix, linear)
    if free is not None and np.linalg.norm(free.point) <= radius:
        return _proved(matrix, linear, radius, free.point, 0.0, "secular equation")
    values, vectors = np.linalg.eigh(matrix)
    point, shift = _secular(values - values[0], vectors.T @ linear / 2, radius)
    return _proved(matrix, linear, radius, vectors @ point, max(shift - values[0], 0.0), "secular equation")


def least_on_space(matrix: Float[np.ndarray, "p p"], linear: Float[np.ndarray, " p"]) -> Least | None:
    """The minimum over R^p, at the shortest of its points; None where there is none."""
    values, vectors = np.linalg.eigh(matrix)
    slopes, flat = vectors.T @ linear, np.abs(values) <= _rounding(values)
    if (values < -_rounding(values)).any() or np.abs(slopes[flat]).max(initial=0.0) > 1e-12 * np.abs(linear).max():
        return None
    point = vectors @ np.where(flat, 0.0, -slopes / 2 / np.where(flat, 1.0, values))
    value = _value(matrix, linear, point)
    return Least(point, value, value - _slack(matrix, linear, np.linalg.norm(point)), "linear equations")


def least_in_box(matrix: Float[np.ndarray, "p p"], linear: Float[np.ndarray, " p"], low, high) -> Least | None:
    """The minimum between two corners, if the matrix is diagonal or nowhere negative; None where it is neither."""
    bends = np.diag(matrix)
    if not (matrix - np.diag(bends)).any():
        inner = np.where(bends > 0, -linear / 2 / np.where(bends > 0, bends, 1.0), low)
        trials = np.stack([low, high, np.clip(inner, low, high)])
        point = trials[np.argmin(bends * trials**2 + linear * trials, axis=0), np.arange(len(linear))]
        value = _value(matrix, linear, point)
        return Least(point, value, value - _slack(matrix, linear, np.linalg.norm(point)), "coordinate by coordinate")
    if np.linalg.eigvalsh(matrix)[0] < 0:
        return None
    from scipy.optimize import minimize

    solved = minimize(
        lambda z: (_value(matrix, linear, z), 2 * matrix @ z + linear),
        (low + high) / 2,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(low, high, strict=True)),
        options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 10_000, "maxcor": 30},
    )
    point = np.clip(solved.x, low, high)
    value, slope = _value(matrix, linear, point), 2 * matrix @ point + linear
    gain = slope @ point - np.minimum(slope * low, slope * high).sum()  # f is convex: above its tangents
    return Least(point, value, value - gain - _slack(matrix, linear, np.linalg.norm(point)), "convex program")


def _secular(gaps: Float[np.ndarray, " p"], slopes: Float[np.ndarray, " p"], radius: float):
    """The minimiser of `Σ gaps z² + 2 slopes z` with |z| = radius, gaps ascending from zero; and its multiplier t.

    It solves `Σ slopes²/(gaps + t)² = radius²`, in the logarithm of t: the root is between |slopes at the
    lowest|/radius and |slopes|/radius, however many powers of ten that is.
    """
    from scipy.optimize import brentq

    def length(log_t):
        return np.linalg.norm(slopes / (gaps + np.exp(log_t)))

    lowest, total = np.linalg.norm(slopes[gaps == 0]), np.linalg.norm(slopes)
    if total == 0:
        return radius * (np.arange(len(gaps)) == 0), 0.0
    ends = max(np.log(max(lowest, 1e-300 * total) / radius) - 1e-9, -690.0), np.log(total / radius) + 1e-9
    if length(ends[0]) <= radius:  # the hard case
        away = gaps > 0
        point = np.where(away, -slopes / np.where(away, gaps, 1.0), 0.0)
        point[0] = np.sqrt(max(radius**2 - point @ point, 0.0))
        return point * (radius / np.linalg.norm(point)), 0.0
    root: Any = brentq(lambda log_t: np.log(length(log_t) / radius), *ends, xtol=1e-15, maxiter=500)
    shift = float(np.exp(root))
    point = -slopes / (gaps + shift)
    return point * (radius / np.linalg.norm(point)), shift


def _proved(matrix, linear, radius, point, multiplier, rule) -> Least:
    """The point with what Lagrange's function proves of it: `f(z) + t|z|²` is convex, and almost stationary there."""
    value = _value(matrix, linear, point)
    residual = np.linalg.norm(2 * (matrix @ point + multiplier * point) + linear)
    bend = min(np.linalg.eigvalsh(matrix)[0] + multiplier, 0.0)
    off = abs(multiplier * (radius**2 - point @ point))
    gap = 2 * radius * residual - 4 * radius**2 * bend + off
    return Least(point, value, value - gap - _slack(matrix, linear, radius), rule)


def _value(matrix, linear, point) -> float:
    return float(point @ matrix @ point + linear @ point)


def _slack(matrix, linear, length) -> float:
    """What rounding may do to a value at points of this length."""
    size = np.linalg.norm(matrix) * length**2 + np.linalg.norm(linear) * length
    return 4 * len(linear) * np.finfo(float).eps * float(size)


def _rounding(values) -> float:
    return 8 * len(values) * np.finfo(float).eps * float(np.abs(values).max(initial=0.0))
