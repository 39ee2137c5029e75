"""Laws on a grid, with noise: the Fokker–Planck flow, the self-consistent Gibbs law and its free energy.

A law on a grid is a Cloud whose atoms are the centres of all cells. With temperature beta the free energy is
`F(mu) = E(mu) + beta ∫log mu dmu`, with mu a density; the flow `mu' = div(mu ∇Psi) + beta Δmu` descends it, and its
minimiser solves `mu ∝ exp(−Psi(mu)/beta)`. Everything here needs the functional's exact variation: risks over whole
samples, penalties, pairwise energies.
"""

from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.errors import Refusal
from haarflow.learning.risks import Functional
from haarflow.measures.clouds import Cloud


class Grid:
    """A box of R^1, R^2 or R^3 cut into equal cells, numbered row by row."""

    def __init__(self, low: Any, high: Any, cells: Any):
        lows, highs, counts = np.broadcast_arrays(*map(np.atleast_1d, (low, high, cells)))
        if lows.ndim != 1 or not 1 <= len(lows) <= 3 or not (lows < highs).all() or (counts < 2).any():
            raise Refusal(
                "A Grid has one to three axes, low < high and at least two cells on each; "
                f"got low={low}, high={high}, cells={cells}. Write Grid((-3, -3), (3, 3), (60, 60))."
            )
        self.low, self.high = lows.astype(float), highs.astype(float)
        self.cells = tuple(int(count) for count in counts)

    @property
    def p(self) -> int:
        """The number of axes."""
        return len(self.cells)

    @property
    def widths(self) -> Float[np.ndarray, " p"]:
        """The sides of a cell."""
        return (self.high - self.low) / np.array(self.cells)

    @property
    def volume(self) -> float:
        """The volume of a cell."""
        return float(np.prod(self.widths))

    def edges(self, axis: int = 0) -> Float[np.ndarray, " m"]:
        """The ends of the cells along one axis."""
        return np.linspace(self.low[axis], self.high[axis], self.cells[axis] + 1)

    @cached_property
    def centres(self) -> Float[np.ndarray, "n p"]:
        """The centres of all cells."""
        lines = [(self.edges(axis)[1:] + self.edges(axis)[:-1]) / 2 for axis in range(self.p)]
        return np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, self.p)

    def law(self, masses: Any) -> Cloud:
        """The law that gives each cell its share of these masses, which need not sum to one."""
        masses = np.asarray(masses, float).ravel()
        if len(masses) != len(self.centres) or not (np.isfinite(masses) & (masses >= 0)).all() or not masses.sum() > 0:
            raise Refusal(
                f"A law on a Grid of {len(self.centres)} cells takes as many masses >= 0, not all zero; got "
                f"{len(masses)} from {masses.min(initial=0.0):g} to {masses.max(initial=0.0):g}. "
                "Write grid.law(density(grid.centres))."
            )
        return Cloud(self.centres, masses / masses.sum())

    def normal(self, mean: Any, deviation: Any) -> Cloud:
        """The normal law with independent coordinates, by the exact mass of each cell."""
        from scipy.special import ndtr

        means, deviations = (np.broadcast_to(np.asarray(v, float), (self.p,)) for v in (mean, deviation))
        masses = np.ones(())
        for axis in range(self.p):
            line = np.diff(ndtr((self.edges(axis) - means[axis]) / deviations[axis]))
            masses = masses[..., None] * line
        return self.law(masses)


class GridPath(NamedTuple):
    """A flow of laws on a grid: the recorded times, the weights of all cells at each, and the drift.

    The drift is the most mass that any one step lost or made by rounding, before it was given back.
    """

    times: Float[np.ndarray, " k"]
    weights: Float[np.ndarray, "k n"]
    drift: float


class Gibbs(NamedTuple):
    """A self-consistent law, its free energy, the certificate `beta KL(q | p_q)` after each step, and the dampings.

    The last certificate bounds the free energy left above the minimum, where the functional is convex.
    """

    cloud: Cloud
    free_energy: float
    certificates: Float[np.ndarray, " k"]
    dampings: Float[np.ndarray, " k"]


@eqx.filter_jit
def _energy_and_potential(functional: Functional, atoms, weights):
    cloud = Cloud(atoms, weights)
    return functional(cloud), functional.variation(cloud).potential


@eqx.filter_jit
def _potential(functional: Functional, atoms, weights):
    return functional.variation(Cloud(atoms, weights)).potential


def entropy(weights: Float[np.ndarray, " n"], volume: float) -> float:
    """`∫log mu dmu` of cells of one volume."""
    mass = weights[weights > 0]
    return float(mass @ np.log(mass / volume))


def free_energy(functional: Functional, grid: Grid, cloud: Cloud, *, temperature: float) -> float:
    """`E(mu) + temperature · ∫log mu dmu` of a law on a grid."""
    return float(eqx.filter_jit(functional)(cloud)) + temperature * entropy(np.asarray(cloud.weights), grid.volume)


def relative_entropy(weights: Float[np.ndarray, " n"], others: Float[np.ndarray, " n"]) -> float:
    """`KL(weights | others)`; infinite where the others miss mass."""
    held = weights > 0
    with np.errstate(divide="ignore"):
        return float(weights[held] @ (np.log(weights[held]) - np.log(others[held])))


def local_gibbs(functional: Functional, cloud: Cloud, *, temperature: float) -> Float[np.ndarray, " n"]:
    """The weights `∝ exp(−Psi(·; mu)/temperature)` in the field of a law on a grid: p_q of the entropy sandwich."""
    return np.exp(_log_gibbs(np.asarray(_potential(functional, cloud.atoms, cloud.weights), float), temperature))


def _log_gibbs(potential, temperature: float):
    from scipy.special import logsumexp

    logs = -potential / temperature
    return logs - logsumexp(logs)


def gibbs(
    functional: Functional,
    grid: Grid,
    *,
    temperature: float,
    tolerance: float = 1e-12,
    damping: float | None = None,
    most: int = 5000,
) -> Gibbs:
    """The law with `mu ∝ exp(−Psi(mu)/temperature)`, by a damped fixed point in the logarithm.

    Each step goes the fraction `damping` of the way to the Gibbs law of its own potential; without one given, the
    fraction halves where the free energy would rise and grows where it falls. Undamped (1.0), cold laws oscillate. It
    ends when the certificate is below the tolerance, or, with a fixed damping, after `most` steps whatever came.
    """
    from scipy.special import logsumexp

    _refuse_unless_positive("A Gibbs law's temperature", temperature)
    atoms, volume = jnp.asarray(grid.centres), grid.volume

    def look(logs):
        weights = np.exp(logs)
        energy, potential = _energy_and_potential(functional, atoms, jnp.asarray(weights))
        target = _log_gibbs(np.asarray(potential, float), temperature)
        free = float(energy) + temperature * float(weights @ (logs - np.log(volume)))
        return target, temperature * float(weights @ (logs - target)), free

    logs = np.full(len(grid.centres), -np.log(len(grid.centres)))
    target, gap, free = look(logs)
    share, gaps, shares = damping or 1.0, [gap], [damping or 1.0]
    for _ in range(most):
        if gap <= tolerance:
            break
        moved = (1 - share) * logs + share * target
        moved = moved - logsumexp(moved)
        found = look(moved)
        if damping is None and found[2] > free + 1e-13 * (1 + abs(free)):
            share /= 2
            continue
        logs, (target, gap, free) = moved, found
        gaps.append(gap)
        shares.append(share)
        share = share if damping is not None else min(1.0, 1.3 * share)
    if damping is None and not gap <= tolerance:
        raise Refusal(
            f"A Gibbs law ends at its fixed point; after {most} steps the certificate was {gap:.1e}, above "
            f"{tolerance:.1e}. Write a higher temperature, a larger `most` or a larger `tolerance`."
        )
    return Gibbs(Cloud(grid.centres, np.exp(logs)), free, np.array(gaps), np.array(shares))


def fokker_planck(
    functional: Functional,
    grid: Grid,
    cloud: Cloud,
    *,
    temperature: float,
    dt: float,
    steps: int,
    every: int | None = None,
) -> GridPath:
    """The flow `mu' = div(mu ∇Psi) + temperature Δmu` in a closed box: positive and of mass one at any step size.

    Finite volumes with the fluxes of Scharfetter and Gummel, implicit axis by axis, in the potential of the start of
    the step: second order in the cells, first in dt, and still exactly at the Gibbs law.
    """
    _refuse_unless_positive("A Fokker–Planck step dt", dt)
    if temperature < 0 or cloud.n != len(grid.centres):
        raise Refusal(
            "A Fokker–Planck flow needs a temperature >= 0 and a law on all cells of its grid; got temperature "
            f"{temperature} and {cloud.n} atoms for {len(grid.centres)} cells. Start from grid.normal(0.0, 1.0)."
        )
    atoms, weights = jnp.asarray(grid.centres), np.asarray(cloud.weights, float)
    records = {*range(0, steps, every or steps or 1), steps}
    times, kept, drift = [], [], 0.0
    for step in range(steps + 1):
        if step in records:
            times.append(step * dt)
            kept.append(weights)
        if step < steps:
            potential = np.asarray(_potential(functional, atoms, jnp.asarray(weights)), float)
            weights = _implicit(grid, potential, weights, temperature, dt)
            drift = max(drift, abs(weights.sum() - 1))
            weights = weights / weights.sum()
    return GridPath(np.array(times), np.array(kept), drift)


def _implicit(grid: Grid, potential, weights, temperature: float, dt: float):
    """One implicit step along each axis in turn, all its lines solved as one banded system."""
    from scipy.linalg import solve_banded

    field, mass = potential.reshape(grid.cells), weights.reshape(grid.cells)
    for axis, width in enumerate(grid.widths):
        out, back = _rates(np.moveaxis(field, axis, -1), width, temperature)
        lines = np.moveaxis(mass, axis, -1)
        bands = np.zeros((3, *lines.shape))
        bands[1] = 1.0
        bands[1, ..., :-1] += dt * out
        bands[1, ..., 1:] += dt * back
        bands[0, ..., 1:] = -dt * back
        bands[2, ..., :-1] = -dt * out
        solved = solve_banded((1, 1), bands.reshape(3, -1), lines.ravel(), overwrite_ab=True, check_finite=False)
        mass = np.moveaxis(solved.reshape(lines.shape), -1, axis)
    return mass.ravel()


def _rates(field, width: float, temperature: float):
    """The rates at which mass jumps up and down between neighbours along the last axis."""
    rise = np.diff(field, axis=-1)
    if temperature == 0:
        return np.maximum(-rise, 0) / width**2, np.maximum(rise, 0) / width**2
    scale = temperature / width**2
    return scale * _bernoulli(rise / temperature), scale * _bernoulli(-rise / temperature)


def _bernoulli(x):
    """`x / (exp(x) − 1)`, smooth at zero."""
    with np.errstate(over="ignore"):
        return np.where(np.abs(x) < 1e-8, 1 - x / 2, x / np.expm1(np.where(np.abs(x) < 1e-8, 1.0, x)))


def relaxation_rate(functional: Functional, grid: Grid, cloud: Cloud, *, temperature: float) -> float:
    """The slowest rate at which the Fokker–Planck flow returns to a stationary law on a line, once near.

    The flow is linearised on the grid, the law's own pull included; free energies decay at twice this rate.
    """
    if grid.p != 1:
        raise Refusal(f"A relaxation rate is computed on a line; got a grid with {grid.p} axes. Use fokker_planck.")
    weights = np.asarray(cloud.weights, float)
    potential, pull = (np.asarray(a, float) for a in _response(functional, cloud.atoms, cloud.weights))
    width = float(grid.widths[0])
    out, back = _rates(potential, width, temperature)
    # the flux out·w_i − back·w_j moves with the weights, and with the potential that the weights make
    rise, size = np.diff(potential) / temperature, len(weights)
    slope = (_bernoulli_slope(rise) * weights[:-1] + _bernoulli_slope(-rise) * weights[1:]) / width**2
    flux = slope[:, None] * np.diff(pull, axis=0)
    flux[np.arange(size - 1), np.arange(size - 1)] += out
    flux[np.arange(size - 1), np.arange(1, size)] -= back
    change = np.zeros((size, size))
    change[:-1] -= flux
    change[1:] += flux
    return float(-np.sort(np.linalg.eigvals(change).real)[-2])


def _bernoulli_slope(x):
    small = np.abs(x) < 1e-4
    safe = np.where(small, 1.0, x)
    with np.errstate(over="ignore", invalid="ignore"):
        exact = (np.expm1(safe) - safe * np.exp(safe)) / np.expm1(safe) ** 2
    return np.where(small, -0.5 + x / 6, exact)


@eqx.filter_jit
def _response(functional: Functional, atoms, weights):
    def potential(weights):
        return functional.variation(Cloud(atoms, weights)).potential

    return potential(weights), jax.jacfwd(potential)(weights)


def _refuse_unless_positive(owner: str, value: float | int | Array):
    if not (np.isfinite(value) and value > 0):
        raise Refusal(f"{owner} is a finite number > 0; got {value}. Write for example 0.1.")
