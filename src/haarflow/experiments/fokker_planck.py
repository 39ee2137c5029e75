"""The grid solver of noisy descent against closed forms, and what noise costs when it is cold."""

from functools import partial
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from haarflow.dynamics.diffusion import GridPath, fokker_planck
from haarflow.dynamics.free_energies import gibbs
from haarflow.dynamics.grids import Grid
from haarflow.dynamics.optimality import optimality_gap
from haarflow.dynamics.pairwise import Pairwise
from haarflow.experiments._problems import spot
from haarflow.learning.data import Sample
from haarflow.learning.risks import Penalty, Risk
from haarflow.measures.clouds import uniform
from haarflow.runs.experiment import Experiment, above, below, between, named, once, over, panel, power_law
from haarflow.runs.style import power_laws

COLD = (0.01, 0.02, 0.04, 0.08)  # temperatures at which the gap to the noiseless optimum is measured
REFINED = {1: (24, 48, 96, 192), 2: (16, 32, 64), 3: (12, 24, 48)}  # cells of an axis
STEPS = (8, 16, 32, 64)  # of the time refinement


class FokkerPlanck(Experiment):
    """Noisy descent solved on a grid keeps mass and sign and comes to Gaussian closed forms, to second order in the
    cells and first in the steps; and the Gibbs law of cold noise lies D beta / 2 above the noiseless optimum.

    Source: lecture 7 on mean-field networks (noisy SGD, free energy); Gaussian closed forms.

    Implicit finite volumes in one to three dimensions: on the line with attraction to the mean, errors in L1; in boxes
    with a tilted spring, errors of moments. The cold gap tends to D beta / 2: each coordinate of an atom holds half a
    temperature, interaction or not; its energy is that of bumps in R^D, for which one atom at zero is optimal. Noisy
    particles and the Gibbs law itself are the experiment `langevin`.
    """

    group: ClassVar[str] = "dynamics"
    seconds: ClassVar[float] = 4.0
    faults = {"one step for all": "the step in time stays as long as it is for the coarsest cells"}

    def design(self):
        yield self.refinement, over(d=REFINED)
        yield self.in_time, once()
        yield self.cold, over(d=REFINED)

    def refinement(self, key, d):
        """Errors of the grid solver against Gaussian closed forms, over finer cells with dt ∝ their square."""
        errors, mass, least = _refined(d, REFINED[d], still=self.fault == "one step for all")
        return {"grid_errors": named(errors, "cells", cells=REFINED[d]), "grid_mass": mass, "grid_least": least}

    def in_time(self, key):
        """Errors on the line over finer steps."""
        return {"time_errors": named([_line_error(400, steps)[0] for steps in STEPS], "steps", steps=STEPS)}

    def cold(self, key, d):
        """`E(mu_beta) − min E` for bumps in R^d after a target twice one bump at zero: one atom at zero is optimal."""
        gaps, point = _cold_gaps(d, COLD)
        return {"gaps": named(gaps, "temperature", temperature=COLD), "point": point}

    def fits(self, data):
        cells = {f"error in the cells, D = {d}": power_law(data.grid_errors.sel(d=d), along="cells") for d in REFINED}
        gaps = {_gap(d): power_law(data.gaps.sel(d=d), along="temperature") for d in REFINED}
        return {**cells, **gaps, "error in the steps": power_law(data.time_errors, along="steps")}

    def claims(self, data):
        mass = "Fokker–Planck: every step keeps mass one, in 1, 2, 3 dimensions, to {bound}"
        yield below(mass, data.grid_mass.max(), 1e-12)
        yield above("Fokker–Planck: the mass of every cell", data.grid_least.min(), -1e-300)
        yield between("Fokker–Planck: order in dt", -data.fits["error in the steps"].value, 0.9, 1.1)
        for d in REFINED:
            fit = data.fits[f"error in the cells, D = {d}"]
            yield between(f"Fokker–Planck: order in the cells, D = {d},", -fit.value, 1.8, 2.2)
        for d in REFINED:
            yield data.fits[_gap(d)].between(0.9, 1.1)
            gap = data.gaps.sel(d=d, temperature=COLD[0])
            yield between(f"gap over D·temperature at {COLD[0]:g}, D = {d}:", gap / (d * COLD[0]), 0.45, 0.55)
        yield below("the point of least energy is the known one: certificate", data.point.max(), 1e-12)

    @panel(
        "The price of noise",
        "How far the energy of the Gibbs law lies above the noiseless optimum, for bumps in R^D: D beta / 2 as the "
        "temperature beta goes to zero.",
    )
    def price(self, axis, data):
        fits = {str(d): data.fits[_gap(d)] for d in REFINED}
        power_laws(axis, data.gaps, along="temperature", by="d", fits=fits, power=1)
        axis.set(xlabel=r"temperature $\beta$", ylabel=r"$E(\mu_\beta) - \min E$")
        axis.legend(title="D")

    @panel(
        "The grid solver, refined",
        "The grid solver against Gaussian closed forms: second order in the cells (dt refined with their square; L1 in "
        "one dimension with attraction to the mean, moments in two and three), first order in dt.",
        columns=2,
        size=(10.2, 3.9),
    )
    def refined(self, axes, data):
        left, right = axes
        power_laws(left, data.grid_errors, along="cells", by="d", xlabel="cells on an axis", ylabel="error")
        power_laws(right, data.time_errors, along="steps", power=-1, xlabel="steps to t = 0.4", ylabel="error")
        left.tick_params(axis="x", rotation=45)
        left.legend(title="D")
        right.legend(title="D = 1")


def _gap(d: int) -> str:
    return f"gap to the noiseless optimum, D = {d}"


def _refined(d: int, cells: tuple[int, ...], *, still: bool = False) -> tuple[np.ndarray, float, float]:
    """Errors of the grid solver over finer and finer cells, dt ∝ their square; the worst mass and the least cell."""
    finer = [1 if still else (m // cells[0]) ** 2 for m in cells]
    solve = _line_error if d == 1 else partial(_box_error, d)
    found = [solve(m, (24 if d == 1 else 3) * times) for m, times in zip(cells, finer, strict=True)]
    errors, masses, least = map(np.array, zip(*found, strict=True))
    return errors, masses.max(), least.min()


def _attraction(theta, other):
    return jnp.sum((theta - other) ** 2) / 4


def _line_error(cells: int, steps: int) -> tuple[float, float, float]:
    """On the line, a spring and attraction to the mean: `m' = −m`, `S' = −2(1 + ½)S + 2 beta`; L1 at t = 0.4."""
    grid, beta, stiffness, end = Grid(-4, 4, cells), 0.4, 1.5, 0.4
    energy = Penalty(1.0) + Pairwise(lambda theta: 0.0 * theta[0], _attraction)
    path = fokker_planck(energy, grid, grid.normal(0.8, 0.5), temperature=beta, dt=end / steps, steps=steps)
    still = beta / stiffness
    variance = still + (0.25 - still) * np.exp(-2 * stiffness * end)
    exact = np.asarray(grid.normal(0.8 * np.exp(-end), np.sqrt(variance)).weights)
    return float(np.abs(path.weights[-1] - exact).sum()), *_health(path)


def _box_error(d: int, cells: int, steps: int) -> tuple[float, float, float]:
    """In a box, a tilted spring H: mean `exp(−Ht) m`, covariance by `S' = −HS − SH + 2 beta`; moments at t = 0.3."""
    beta, end, start = 0.25, 0.3, np.array([0.5, -0.3, 0.2])[:d]
    spring = (np.diag([1.0, 1.5, 0.8]) + 0.3 * (np.ones((3, 3)) - np.eye(3)))[:d, :d]
    grid = Grid([-3.0] * d, [3.0] * d, [cells] * d)
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
    return path.mass_error, float(path.weights.min())


def _cold_gaps(d: int, temperatures: tuple[float, ...]) -> tuple[list[float], float]:
    """`E(mu_beta) − min E` for bumps in R^d after a target twice one bump at zero, where one atom at zero is optimal.

    Also the certificate that it is.
    """
    axis = np.array([-1.0, 0.0, 1.0])
    xs = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    own = np.exp(-np.sum(xs**2, axis=1) / 2)[:, None]
    energy = Risk(spot(d, 1.0, 0.5), Sample(xs, 2 * own)) + Penalty(0.5)
    grid, value = Grid([-1.6] * d, [1.6] * d, [40] * d), eqx.filter_jit(energy)
    laws = [gibbs(energy, grid, temperature=beta, tolerance=1e-10).cloud for beta in temperatures]
    point = optimality_gap(energy, uniform(np.zeros((1, d))), jnp.asarray(grid.centres))
    return [float(value(law)) - np.mean(own**2) / 2 for law in laws], float(point)
