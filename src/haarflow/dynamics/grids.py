"""Laws on a grid, with noise: the Fokker–Planck flow, the self-consistent Gibbs law and its free energy.

A law on a grid is a Cloud whose atoms are the centres of all cells. With temperature beta the free energy is
`F(mu) = E(mu) + beta ∫log mu dmu`, with mu a density; the flow `mu' = div(mu ∇Psi) + beta Δmu` descends it, and its
minimiser solves `mu ∝ exp(−Psi(mu)/beta)`. Another internal energy U stands in the place of the entropy as `internal=`:
`F = E + U`, the flow is `mu' = div(mu ∇(Psi + U'))`, and at the minimiser `Psi + U'` is constant. Everything here needs
the functional's exact variation: risks over whole samples, penalties, pairwise energies; and is computed in float64,
whatever precision JAX has.
"""

import math
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from haarflow.doors import Above, Count, Least, Most, Natural, NonNegative, Positive, door
from haarflow.dynamics.cells import CellEnergy
from haarflow.dynamics.doubles import doubled
from haarflow.dynamics.equilibria import (
    LEAST_CURVATURE,
    Descent,
    Landscape,
    curved,
    descend,
    refuse_tolerance,
    refuse_unless_finite,
    search,
    search_starts,
    unsettled,
)
from haarflow.dynamics.fluxes import implicit_step, log_gibbs, slowest_rate
from haarflow.dynamics.internal_energies import Entropy, InternalEnergy, refuse_unless_convex
from haarflow.errors import Refusal
from haarflow.learning.risks import Functional
from haarflow.measures.clouds import Cloud
from haarflow.values import numbers, refuse_unless_affordable, refuse_unless_soon, said, whole

Masses = Annotated[Float[np.ndarray, " n"], Least(0)]


class Grid:
    """A box of R^1, R^2 or R^3 cut into equal cells, numbered row by row."""

    instead: ClassVar[str] = "Write Grid(-3, 3, 200)."

    def __init__(self, low: Any, high: Any, cells: Any):
        ends = [
            np.atleast_1d(numbers(f"A Grid's {name}", end, numpy=True)) for name, end in (("low", low), ("high", high))
        ]
        given = np.asarray(cells, object)
        counts = [whole("A Grid's number of cells", count) for count in given.ravel()]
        axes = {len(ends[0]), len(ends[1]), len(counts)} - {1} or {1}
        if (
            max(np.ndim(low), np.ndim(high), given.ndim) > 1
            or len(axes) != 1
            or not axes <= {1, 2, 3}
            or min(counts) < 2
        ):
            raise self._refusal(low, high, cells)
        p = axes.pop()
        self.low, self.high = (np.broadcast_to(end, (p,)).copy() for end in ends)
        self.cells = tuple(counts * p if len(counts) == 1 else counts)
        refuse_unless_affordable(
            f"A Grid of {math.prod(self.cells)} cells",
            8.0 * (p + 8) * math.prod(self.cells),
            instead="Write fewer cells.",
        )
        if not (self.widths > 4 * np.finfo(float).eps * np.maximum(np.abs(self.low), np.abs(self.high))).all():
            raise self._refusal(low, high, cells)

    def _refusal(self, low, high, cells) -> Refusal:
        return Refusal(
            "A Grid has one to three axes, low < high and at least two cells on each; "
            f"got low={said(low)}, high={said(high)}, cells={said(cells)}. Write Grid((-3, -3), (3, 3), (60, 60))."
        )

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
        axis = whole("A Grid's axis", axis, least=0)
        if axis >= self.p:
            raise Refusal(f"A Grid of {self.p} axes counts them from 0; got the axis {axis}. Write 0.")
        return np.linspace(self.low[axis], self.high[axis], self.cells[axis] + 1)

    @cached_property
    def centres(self) -> Float[np.ndarray, "n p"]:
        """The centres of all cells."""
        lines = [(self.edges(axis)[1:] + self.edges(axis)[:-1]) / 2 for axis in range(self.p)]
        return np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, self.p)

    def law(self, masses: Any) -> Cloud:
        """The law that gives each cell its share of these masses, which need not sum to one."""
        found = numbers("The masses of a Grid's law", masses, numpy=True).ravel()
        if len(found) != len(self.centres) or not (found >= 0).all() or not found.any():
            raise Refusal(
                f"A law on a Grid of {len(self.centres)} cells takes as many masses >= 0, not all zero; got "
                f"{len(found)} from {found.min(initial=0.0):g} to {found.max(initial=0.0):g}. "
                "Write grid.law(density(grid.centres))."
            )
        # summed after division by the largest only where the sum itself would overflow or vanish
        with np.errstate(over="ignore"):
            found = found if 1e-290 < found.sum() < np.inf else found / found.max()
        return Cloud(self.centres, found / found.sum())

    def normal(self, mean: Any, deviation: Any) -> Cloud:
        """The normal law with independent coordinates, by the exact mass of each cell."""
        from scipy.special import ndtr

        given = [
            numbers(f"The {name} of a normal law", v, numpy=True)
            for name, v in (("mean", mean), ("deviation", deviation))
        ]
        if any(value.shape not in ((), (1,), (self.p,)) for value in given) or not (given[1] > 0).all():
            raise Refusal(
                f"A normal law on a Grid of {self.p} axes has one mean and one deviation > 0, or one for each axis; "
                f"got mean={said(mean)}, deviation={said(deviation)}. Write grid.normal(0.0, 1.0)."
            )
        means, deviations = (np.broadcast_to(value, (self.p,)) for value in given)
        masses = np.ones(())
        for axis in range(self.p):
            line = np.diff(ndtr((self.edges(axis) - means[axis]) / deviations[axis]))
            masses = masses[..., None] * line
        return self.law(masses)

    def weights(self, owner: str, cloud: Cloud) -> Float[np.ndarray, " n"]:
        """The weights of a law on this grid, in float64; a cloud on other places is refused."""
        atoms = np.asarray(cloud.atoms, float)
        near = 4e-7 * np.maximum(np.abs(self.low), np.abs(self.high))  # the rounding of float32
        if atoms.shape != self.centres.shape or not (np.abs(atoms - self.centres) <= near).all():
            raise Refusal(
                f"{owner} takes a law on all cells of its grid; got {cloud.n} atoms in R^{cloud.p} for "
                f"{len(self.centres)} cells{' and not their centres' * (atoms.shape == self.centres.shape)}. "
                "Write grid.law(masses) or grid.normal(0.0, 1.0)."
            )
        weights = np.asarray(cloud.weights, float)
        return weights if abs(weights.sum() - 1) < 1e-12 else weights / weights.sum()

    def internal(self, owner: str, temperature: float | None, internal: InternalEnergy | None) -> CellEnergy:
        """The internal energy that a caller gave, on these cells: the entropy at a temperature, or another one."""
        with jax.enable_x64(True):
            energy = given_energy(owner, temperature, internal)
        if energy.reference is None:
            return CellEnergy(energy, np.full(len(self.centres), self.volume))
        masses = self.weights(f"The reference of a {type(energy).__name__}", energy.reference)
        if not (masses > 0).all():
            raise Refusal(
                f"The reference of a {type(energy).__name__} has mass in all cells; got {np.sum(masses == 0)} without. "
                "Write grid.law(masses + 1e-9), for example."
            )
        return CellEnergy(energy, masses)


def given_energy(owner: str, temperature: Any, internal: InternalEnergy | None) -> InternalEnergy:
    """The entropy at a temperature, or the other internal energy that stands in its place."""
    if (temperature is None) == (internal is None):
        raise Refusal(
            f"{owner} takes a temperature, or an internal energy in the place of the entropy; got "
            f"{'neither' if internal is None else 'both'}. Write temperature=0.1, or internal=PorousMedium(2.0)."
        )
    if internal is None:
        return Entropy(strength=temperature)
    refuse_unless_convex(internal)
    return internal


class GridPath(NamedTuple):
    """A flow of laws on a grid: the recorded times, the weights of all cells at each, and the mass error.

    The mass error is the most mass that any one step lost or made by rounding, before it was given back.
    """

    times: Float[np.ndarray, " k"]
    weights: Float[np.ndarray, "k n"]
    mass_error: float


class Gibbs(NamedTuple):
    """A self-consistent law, its free energy, the certificate `beta KL(q | p_q)` after each step, and the dampings.

    The last certificate bounds the free energy left above the minimum, where the functional is convex. Where it is not,
    `curvature` tells a minimum from a saddle: the least second variation of the free energy over changes h of the law
    without mass, per `beta ∫h²/mu`; 1 for energies that are convex there, nan where a fixed damping did not settle.
    With another internal energy U the certificate is by how much the law that is best in the potential of q has less of
    `∫Psi dmu + U(mu)` than q, and the curvature is per the second variation of U.
    `others` are the other fixed points that were found, the lowest first.
    """

    cloud: Cloud
    free_energy: float
    certificates: Float[np.ndarray, " k"]
    dampings: Float[np.ndarray, " k"]
    curvature: float
    others: tuple["Gibbs", ...] = ()

    @property
    def stable(self) -> bool:
        """Whether the free energy rises on all sides of this law, so that the flow returns to it."""
        return self.curvature > LEAST_CURVATURE


@eqx.filter_jit
def _energy(functional: Functional, atoms, weights):
    return functional(Cloud(atoms, weights))


@eqx.filter_jit
def _potential(functional: Functional, atoms, weights):
    return functional.variation(Cloud(atoms, weights)).potential


@eqx.filter_jit
def _response(functional: Functional, atoms, weights):
    def potential(weights):
        return functional.variation(Cloud(atoms, weights)).potential

    return potential(weights), jax.jacfwd(potential)(weights)


@doubled
def _told(question, functional: Functional, atoms, weights):
    """What a compiled question above says of a law, in float64 and NumPy."""
    answer = question(functional, jnp.asarray(atoms), jnp.asarray(weights))
    return jax.tree.map(lambda part: np.asarray(part, float), answer)


def potential_of(
    functional: Functional, atoms: Float[np.ndarray, "n p"], weights: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Psi at the atoms of a law, in float64; refused where it is not finite."""
    potential = _told(_potential, functional, atoms, weights)
    refuse_unless_finite(np.zeros(1), potential, atoms)
    return potential


@door
def entropy(weights: Masses, volume: Positive) -> float:
    """`∫log mu dmu` of cells of one volume."""
    mass = weights[weights > 0]
    return float(mass @ np.log(mass / volume))


@door
def free_energy(
    functional: Functional,
    grid: Grid,
    cloud: Cloud,
    *,
    temperature: NonNegative | None = None,
    internal: InternalEnergy | None = None,
) -> float:
    """`E(mu) + temperature · ∫log mu dmu` of a law on a grid; with another internal energy U, `E(mu) + U(mu)`."""
    weights = grid.weights("A free energy", cloud)
    energy = _told(_energy, functional, grid.centres, weights)
    refuse_unless_finite(energy, np.zeros(1), grid.centres)
    free = float(energy) + float(grid.internal("free_energy", temperature, internal).value(weights))
    refuse_unless_finite(np.asarray(free), np.zeros(1), grid.centres)
    return free


@door
def relative_entropy(weights: Masses, others: Masses) -> float:
    """`KL(weights | others)`; infinite where the others miss mass."""
    for name, row in (("weights", weights), ("others", others)):
        if not abs(row.sum() - 1) <= 1e-6:
            raise Refusal(
                f"A relative entropy is between weights that sum to one; got {name} of sum {row.sum():.6g}. "
                "Write weights / weights.sum()."
            )
    held = weights > 0
    with np.errstate(divide="ignore"):
        return float(weights[held] @ (np.log(weights[held]) - np.log(others[held])))


@door
def local_gibbs(functional: Functional, cloud: Cloud, *, temperature: Positive) -> Float[np.ndarray, " n"]:
    """The weights `∝ exp(−Psi(·; mu)/temperature)` in the field of a law on a grid: p_q of the entropy sandwich."""
    potential = potential_of(functional, np.asarray(cloud.atoms), np.asarray(cloud.weights))
    return np.exp(log_gibbs(potential, temperature))


@door
def gibbs(
    functional: Functional,
    grid: Grid,
    *,
    temperature: Positive | None = None,
    internal: InternalEnergy | None = None,
    start: Cloud | None = None,
    tolerance: Positive | None = None,
    damping: Annotated[float, Above(0), Most(1)] | None = None,
    most: Count = 5000,
) -> Gibbs:
    """The law with `mu ∝ exp(−Psi(mu)/temperature)`, by a damped fixed point in the logarithm, from the even law.

    With another internal energy U it is the law with `Psi(mu) + U'(mu)` constant where it has mass, and no smaller
    where it has none; the fixed point is then in U'.

    A convex energy has one such law. Others may have several, saddles of the free energy among them: so other starts
    are tried (bumps at the minima of Psi and elsewhere, mixtures, both sides of every saddle found), the law of least
    free energy is returned, and the rest are its `others`; no search proves that it saw them all. Given a `start`, the
    law that is reached from there is returned, whatever the others are. `stable` says whether the flow stays.

    Each step goes the fraction `damping` of the way to the Gibbs law of its own potential; without one given, the
    fraction halves where the free energy would rise and grows where it falls. Undamped (1.0), cold laws oscillate. It
    ends when the certificate is below the tolerance, or, with a fixed damping, after `most` steps whatever came, and
    without a search. The tolerance is 1e-12 unless given; at temperatures below 0.01 or above 100 it goes with them.
    """
    n = len(grid.centres)
    refuse_unless_affordable(f"A Gibbs law over {n} cells", 8 * 200.0 * n, instead="Write a coarser Grid.")
    cells = grid.internal("gibbs", temperature, internal)
    land = Landscape(functional, grid.centres, cells)
    refuse_tolerance(tolerance, cells.strength)
    even = cells.slopes(np.full((1, n), 1 / n))
    begun = even if start is None else cells.slopes(grid.weights("A Gibbs law's start", start)[None])
    options = {"tolerance": tolerance, "most": most}
    (descent,) = descend(land, cells.levelled(begun), damping=damping, **options)
    if damping is not None:
        return _found(land, descent, curved(land, descent).curvature if descent.settled else math.nan)
    if not descent.settled:
        raise unsettled(descent, most)
    starts = search_starts(grid.centres, grid.cells, -cells.strength * land.look(even).targets[0])
    known = search(land, curved(land, descent), cells.levelled(cells.slopes(np.exp(starts))), **options)
    laws = [_found(land, one.descent, one.curvature) for one in known]
    least = min(law.free_energy for law in laws) + 1e-9 * (land.unit + abs(descent.free))
    best = 0 if start is not None else next(i for i, law in enumerate(laws) if law.free_energy <= least)
    others = sorted(laws[:best] + laws[best + 1 :], key=lambda law: law.free_energy)
    return laws[best]._replace(others=tuple(others))


def _found(land: Landscape, descent: Descent, curvature: float) -> Gibbs:
    weights = land.internal.weights(descent.slopes)
    return Gibbs(Cloud(land.centres, weights), descent.free, descent.gaps, descent.shares, curvature)


@door
def fokker_planck(
    functional: Functional,
    grid: Grid,
    cloud: Cloud,
    *,
    temperature: NonNegative | None = None,
    internal: InternalEnergy | None = None,
    dt: Positive,
    steps: Natural,
    every: Count | None = None,
) -> GridPath:
    """The flow `mu' = div(mu ∇Psi) + temperature Δmu` in a closed box: positive and of mass one at any step size.

    Another internal energy U takes the place of the noise: `mu' = div(mu ∇(Psi + U'))`. It has a temperature between
    any two cells, that of the end of the step, found by some ten passes; of first order in the cells at an edge.

    Finite volumes with the fluxes of Scharfetter and Gummel, implicit axis by axis, in the potential of the start of
    the step: second order in the cells, first in dt, and still exactly at the Gibbs law.
    """
    weights = grid.weights("A Fokker–Planck flow", cloud)
    cells = grid.internal("fokker_planck", temperature, internal)
    _refuse_unless_soon(steps, every or steps or 1, len(weights))
    times, kept, mass_error = [], [], 0.0
    for step in range(steps + 1):
        if step % (every or steps or 1) == 0 or step == steps:
            times.append(step * dt)
            kept.append(weights)
        if step < steps:
            potential = potential_of(functional, grid.centres, weights)
            with np.errstate(all="ignore"):
                weights = implicit_step(
                    potential.reshape(grid.cells), weights.reshape(grid.cells), grid.widths, cells, dt
                )
            weights, total = weights.ravel(), weights.sum()
            if not abs(total - 1) < 1e-3:
                raise Refusal(
                    f"A Fokker–Planck step keeps the mass; got {total:.6g} after {step + 1} steps of dt={dt:g}, where "
                    "rates times dt are beyond float64. Write a smaller dt."
                )
            mass_error = max(mass_error, abs(total - 1))
            weights = weights / total
    return GridPath(np.array(times), np.array(kept), mass_error)


def _refuse_unless_soon(steps: int, every: int, cells: int) -> None:
    """A step takes at least a tenth of a millisecond, and 0.1 microseconds a cell (measured); its records 8 bytes."""
    refuse_unless_affordable(
        f"A Fokker–Planck flow of {steps} steps", 8.0 * cells * (steps // every + 1), instead="Write a larger `every`."
    )
    refuse_unless_soon(
        f"A Fokker–Planck flow of {steps} steps over {cells} cells",
        steps * (1e-4 + 1e-7 * cells),
        most=24 * 3600,
        instead="Write a larger dt, which keeps it positive, or go on from its last law.",
    )


@door
def relaxation_rate(functional: Functional, grid: Grid, cloud: Cloud, *, temperature: Positive) -> float:
    """The slowest rate at which the Fokker–Planck flow returns to a stationary law on a line, once near.

    The flow is linearised on the grid, the law's own pull included; free energies decay at twice this rate. It is
    negative where the law is not stable: the rate, with its sign, at which the flow leaves. Slow rates are right in
    their leading digits however small; an unstable rate that float64 cannot tell from zero is refused.
    """
    if grid.p != 1:
        raise Refusal(f"A relaxation rate is computed on a line; got a grid with {grid.p} axes. Use fokker_planck.")
    weights = grid.weights("A relaxation rate", cloud)
    refuse_unless_affordable(
        f"A relaxation rate over {len(weights)} cells",
        8 * 8.0 * len(weights) ** 2,
        instead="Write a Grid of fewer cells.",
    )
    potential, pull = _told(_response, functional, grid.centres, weights)
    refuse_unless_finite(np.sum(pull), potential, grid.centres)
    away = relative_entropy(weights, np.exp(log_gibbs(potential, temperature)))
    if not away <= 1e-6:
        raise Refusal(
            "A relaxation rate belongs to a law that stands still, with KL(q | p_q) <= 1e-6 against its own Gibbs law; "
            f"got {away:.1e}. Write gibbs(functional, grid, temperature={temperature:g}).cloud."
        )
    rate, error = slowest_rate(potential, pull, float(grid.widths[0]), temperature)
    if not abs(rate) > 10 * error:
        raise Refusal(
            f"A relaxation rate of this law is known to {error:.0e} in float64; got {rate:.0e}, which is rounding. "
            "Write another temperature."
        )
    return rate
