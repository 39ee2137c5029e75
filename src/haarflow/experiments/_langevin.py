"""Small problems with known answers for noisy descent: grids refined against Gaussians, and cold Gibbs laws."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from haarflow.dynamics.grids import Grid, GridPath, fokker_planck, gibbs
from haarflow.dynamics.limits import Pairwise, optimality_gap
from haarflow.learning.data import Sample
from haarflow.learning.risks import Penalty, Risk
from haarflow.measures.clouds import uniform
from haarflow.models.units import Custom

COLD = (0.01, 0.02, 0.04, 0.08)  # temperatures at which the gap to the noiseless optimum is measured
REFINED = {1: (24, 48, 96, 192), 2: (16, 32, 64), 3: (12, 24, 48)}  # cells of an axis
STEPS = (8, 16, 32, 64)  # of the time refinement


def spot(inputs: int, height: float, sharpness: float) -> Custom:
    """The unit `height · exp(−sharpness |x − θ|²)`: a bump that can only move."""

    def function(theta, x):
        return height * jnp.exp(-sharpness * jnp.sum((x - theta) ** 2))[None]

    return Custom(function, inputs, inputs, 1, lambda on_x, on_y: on_x)


def _attraction(theta, other):
    return jnp.sum((theta - other) ** 2) / 4


def refinement(d: int) -> dict[str, np.ndarray]:
    """Errors of the grid solver against Gaussian closed forms, over finer and finer cells with dt ∝ their square."""
    found = [_line_error(cells, 24 * (cells // 24) ** 2) if d == 1 else _box_error(d, cells) for cells in REFINED[d]]
    errors, masses, least = map(np.array, zip(*found, strict=True))
    data = {"errors": errors, "mass": masses.max(), "least": least.min()}
    if d == 1:
        times = [_line_error(400, steps)[0] for steps in STEPS]
        data["time errors"] = np.array(times)
    return data


def _line_error(cells: int, steps: int) -> tuple[float, float, float]:
    """On the line, a spring and attraction to the mean: `m' = −m`, `S' = −2(1 + ½)S + 2 beta`; L1 at t = 0.4."""
    grid, beta, stiffness, end = Grid(-4, 4, cells), 0.4, 1.5, 0.4
    energy = Penalty(1.0) + Pairwise(lambda theta: 0.0 * theta[0], _attraction)
    path = fokker_planck(energy, grid, grid.normal(0.8, 0.5), temperature=beta, dt=end / steps, steps=steps)
    still = beta / stiffness
    variance = still + (0.25 - still) * np.exp(-2 * stiffness * end)
    exact = np.asarray(grid.normal(0.8 * np.exp(-end), np.sqrt(variance)).weights)
    return float(np.abs(path.weights[-1] - exact).sum()), *_health(path)


def _box_error(d: int, cells: int) -> tuple[float, float, float]:
    """In a box, a tilted spring H: mean `exp(−Ht) m`, covariance by `S' = −HS − SH + 2 beta`; moments at t = 0.3."""
    beta, end, start = 0.25, 0.3, np.array([0.5, -0.3, 0.2])[:d]
    spring = (np.diag([1.0, 1.5, 0.8]) + 0.3 * (np.ones((3, 3)) - np.eye(3)))[:d, :d]
    grid, steps = Grid([-3.0] * d, [3.0] * d, [cells] * d), 3 * (cells // REFINED[d][0]) ** 2
    energy = Penalty(1.0, lambda theta: theta @ jnp.asarray(spring) @ theta / 2)
    path = fokker_planck(energy, grid, grid.normal(start, 0.5), temperature=beta, dt=end / steps, steps=steps)
    weights, places = path.weights[-1], grid.centres
    mean = weights @ places
    spread = (places - mean).T @ ((places - mean) * weights[:, None])
    values, frame = np.linalg.eigh(spring)
    wanted = frame @ np.diag(beta / values + (0.25 - beta / values) * np.exp(-2 * values * end)) @ frame.T
    gaps = np.abs(spread - wanted).max(), np.abs(mean - frame @ np.diag(np.exp(-values * end)) @ frame.T @ start).max()
    return float(sum(gaps)), *_health(path)


def _health(path: GridPath) -> tuple[float, float]:
    return path.drift, float(path.weights.min())


def cold(d: int) -> dict[str, np.ndarray]:
    """`E(mu_beta) − min E` for bumps in R^d after a target twice one bump at zero: one atom at zero is optimal."""
    axis = np.array([-1.0, 0.0, 1.0])
    xs = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    unit = spot(d, 1.0, 0.5)
    own = np.exp(-np.sum(xs**2, axis=1) / 2)[:, None]
    energy = Risk(unit, Sample(xs, 2 * own)) + Penalty(0.5)
    grid, value = Grid([-1.6] * d, [1.6] * d, [40] * d), eqx.filter_jit(energy)
    laws = [gibbs(energy, grid, temperature=beta, tolerance=1e-10).cloud for beta in COLD]
    best = np.mean(own**2) / 2
    point = optimality_gap(energy, uniform(np.zeros((1, d))), jnp.asarray(grid.centres))
    return {"gaps": np.array([float(value(law)) - best for law in laws]), "point": np.asarray(point)}
