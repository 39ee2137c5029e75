"""Laws with `Psi(mu) + strength · f'(mu)` constant, on the cells of a grid: the way down to one, its stability, others.

With the entropy for the internal energy they are the fixed points of `mu ∝ exp(−Psi(mu)/beta)`. A law is the row of its
slopes f', for the entropy logarithms. Each step of a descent goes a fraction of the way to the law that its own
potential asks for, and lowers the free energy; where it ends, the second variation of the free energy tells a minimum
from a saddle.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from haarflow.dynamics.cells import CellEnergy
from haarflow.dynamics.doubles import doubled
from haarflow.dynamics.fluxes import normalised
from haarflow.errors import Refusal
from haarflow.learning.risks import Functional
from haarflow.measures.clouds import Cloud

_LANE_STEPS = 1000  # of a start of the search: one that needs more is given up
_CONVEX = 1e-9  # the second variation of an energy counts as nowhere negative down to minus this
_SPREAD = 12  # the bumps of the search are this many times narrower than the box
LEAST_CURVATURE = 1e-7  # with less a law counts as not stable


@eqx.filter_jit
def _one(functional: Functional, atoms, weights):
    cloud = Cloud(atoms, weights)
    return functional(cloud), functional.variation(cloud).potential


@eqx.filter_jit
def _many(functional: Functional, atoms, rows):
    return jax.vmap(lambda weights: _one(functional, atoms, weights))(rows)


@eqx.filter_jit
def _pulled(functional: Functional, atoms, weights, change):
    def potential(weights):
        return functional.variation(Cloud(atoms, weights)).potential

    return jax.jvp(potential, (weights,), (change,))[1]


class Look(NamedTuple):
    """Laws seen from their own potentials: laws asked for, certificates, free energies, and how they are rounded."""

    targets: Float[np.ndarray, "s n"]
    gaps: Float[np.ndarray, " s"]
    frees: Float[np.ndarray, " s"]
    rounding: Float[np.ndarray, " s"]
    precision: str

    def instead(self, taken: Bool[np.ndarray, " s"], other: "Look") -> "Look":
        """The other's rows where they are taken."""
        targets = np.where(taken[:, None], other.targets, self.targets)
        gaps, frees, rounding = (np.where(taken, new, old) for old, new in zip(self[1:4], other[1:4], strict=True))
        return Look(targets, gaps, frees, rounding, self.precision)


class Landscape(eqx.Module):
    """The free energy of a functional and an internal energy over the cells of a grid; all in float64."""

    functional: Functional
    centres: Float[np.ndarray, "n p"]
    internal: CellEnergy

    @property
    def unit(self) -> float:
        """The scale of energies that goes with the temperature: one, unless the temperature is far from it."""
        return float(np.clip(1.0, self.internal.strength / 100, 100 * self.internal.strength))

    @doubled
    def look(self, slopes: Float[np.ndarray, "s n"]) -> Look:
        """What each of some laws sees."""
        weights, atoms = self.internal.weights(slopes), jnp.asarray(self.centres)
        if len(slopes) == 1:
            found = [part[None] for part in _one(self.functional, atoms, jnp.asarray(weights[0]))]
        else:
            found = _many(self.functional, atoms, jnp.asarray(weights))
        energies, potentials = (np.asarray(part, float) for part in found)
        refuse_unless_finite(energies, potentials, self.centres)
        targets = self.internal.answers(potentials)
        size = np.sum(weights * np.abs(potentials), axis=1) + self.internal.strength
        gaps, frees = self.internal.gaps(weights, targets), energies + self.internal.value(weights)
        rounding = 16 * float(jnp.finfo(found[1].dtype).eps) * size
        return Look(targets, gaps, frees, rounding, str(found[1].dtype))

    @doubled
    def pulled(self, weights: Float[np.ndarray, " n"], change: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """How the potential changes with a law's weights."""
        atoms = jnp.asarray(self.centres)
        return np.asarray(_pulled(self.functional, atoms, jnp.asarray(weights), jnp.asarray(change)), float)

    def curvature(self, slopes: Float[np.ndarray, " n"]) -> tuple[float, Float[np.ndarray, " n"]]:
        """The least second variation per that of the internal energy over changes h without mass, at most 1; its pull.

        For the entropy it is `d²F(h) / (temperature ∫h²/mu)`. Without the energy's part it is one for every h: so below
        one the energy is not convex, and below zero the free energy falls on both sides of the law.
        """
        weights = self.internal.weights(slopes)
        loose = self.internal.loose(weights)
        root = np.sqrt(loose)
        unit = root / np.linalg.norm(root)

        def bend(vector):
            vector = vector - unit * (unit @ vector)
            pulled = root * self.pulled(weights, root * vector) / self.internal.strength
            return pulled - unit * (unit @ pulled)

        value, vector = _least_eigenpair(bend, len(slopes))
        change = root * vector
        return 1 + value, self.pulled(weights, change - loose / loose.sum() * change.sum())


def _least_eigenpair(bend: Callable, n: int) -> tuple[float, Float[np.ndarray, " n"]]:
    """The least eigenvalue of a symmetric map of R^n, and its direction; nan where it is not found."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    if n < 40:
        values, vectors = np.linalg.eigh(np.stack([bend(row) for row in np.eye(n)]))
        return float(values[0]), vectors[:, 0]
    operator = LinearOperator((n, n), matvec=lambda vector: vector + bend(vector), dtype=np.float64)  # pyright: ignore[reportCallIssue]
    start = np.random.default_rng(0).normal(size=n)
    try:
        values, vectors = eigsh(operator, k=1, which="SA", v0=start, tol=1e-4)  # pyright: ignore[reportArgumentType]
    except ArpackNoConvergence:
        return np.nan, np.zeros(n)
    return float(values[0]) - 1, vectors[:, 0]


def refuse_unless_finite(energies, potentials, centres) -> None:
    """Refuse an energy with a cell whose value is not a number."""
    if np.isfinite(energies).all() and np.isfinite(potentials).all():
        return
    bad = np.argwhere(~np.isfinite(np.atleast_2d(potentials)))
    where = f"the potential {potentials[tuple(bad[0])]} at {centres[bad[0][-1]]}" if len(bad) else "an infinite energy"
    raise Refusal(
        f"A law on a Grid needs a functional that is finite on all its cells; got {where}. "
        "Write a smaller box, or a large number for a wall."
    )


class Descent(NamedTuple):
    """Where one descent ended: the law, its free energy, and the certificates and dampings on the way."""

    slopes: Float[np.ndarray, " n"]
    free: float
    gaps: Float[np.ndarray, " k"]
    shares: Float[np.ndarray, " k"]
    settled: bool
    tolerance: float
    rounding: float
    precision: str


def descend(
    land: Landscape,
    slopes: Float[np.ndarray, "s n"],
    *,
    tolerance: float | None,
    damping: float | None,
    most: int,
) -> list[Descent]:
    """Damped fixed points from several laws at once, each until its certificate is below the tolerance."""
    share = np.full(len(slopes), damping or 1.0)
    seen = land.look(slopes)
    history = [(seen.gaps, share, np.ones(len(slopes), bool))]
    for _ in range(most):
        going = seen.gaps > _goals(land, seen, tolerance)
        if not going.any():
            break
        moved = land.internal.levelled((1 - share[:, None]) * slopes + share[:, None] * seen.targets)
        found = land.look(moved)
        falls = found.frees <= seen.frees + 1e-13 * (land.unit + np.abs(seen.frees))
        taken = going & (falls | (damping is not None))
        slopes, seen = np.where(taken[:, None], moved, slopes), seen.instead(taken, found)
        history.append((seen.gaps, share, taken))
        if damping is None:
            share = np.where(taken, np.minimum(1.0, 1.3 * share), np.where(going, share / 2, share))
    gaps, shares, taken = (np.stack(part) for part in zip(*history, strict=True))
    goals = _goals(land, seen, tolerance)
    return [
        Descent(
            slopes[lane],
            float(seen.frees[lane]),
            gaps[taken[:, lane], lane],
            shares[taken[:, lane], lane],
            bool(seen.gaps[lane] <= goals[lane]),
            float(goals[lane]),
            float(seen.rounding[lane]),
            seen.precision,
        )
        for lane in range(len(slopes))
    ]


def _goals(land: Landscape, seen: Look, tolerance: float | None):
    """The certificates to reach: those asked for, else 1e-12, which goes with the temperature, or rounding."""
    return np.maximum(1e-12 * land.unit, seen.rounding) if tolerance is None else np.full(len(seen.gaps), tolerance)


def refuse_tolerance(tolerance: float | None, temperature: float) -> None:
    """Refuse a tolerance that every law would meet."""
    if tolerance is not None and tolerance >= temperature:
        raise Refusal(
            f"A Gibbs law's tolerance is below its temperature, else every law would pass; got {tolerance:g} at "
            f"temperature {temperature:g}. Write tolerance={1e-10 * temperature:.0e}."
        )


def unsettled(descent: Descent, most: int) -> Refusal:
    """What to say of a descent that did not settle."""
    rounded = descent.rounding > descent.tolerance
    instead = f"tolerance={4 * descent.rounding:.0e}" if rounded else "a higher temperature, a larger `most`"
    return Refusal(
        f"A Gibbs law ends at its fixed point; after {most} steps the certificate was {descent.gaps[-1]:.1e}, above "
        f"{descent.tolerance:.1e}, and {descent.precision} rounds it to {descent.rounding:.0e}. Write {instead} or a "
        "larger `tolerance`."
    )


class Equilibrium(NamedTuple):
    """A fixed point: how it was reached, its least curvature and the direction of that."""

    descent: Descent
    curvature: float
    direction: Float[np.ndarray, " n"]


def curved(land: Landscape, descent: Descent) -> Equilibrium:
    """A fixed point with its curvature."""
    return Equilibrium(descent, *land.curvature(descent.slopes))


def search(
    land: Landscape, first: Equilibrium, starts: Float[np.ndarray, "s n"], *, tolerance: float | None, most: int
) -> list[Equilibrium]:
    """The fixed points that descents from some starts find, and from both sides of every saddle; the first leads.

    An energy that is convex at the first and at a mixture drawn at random is taken for convex, and has no others.
    """
    options = {"tolerance": tolerance, "damping": None, "most": min(most, _LANE_STEPS)}
    known, left = [first], 0
    if first.curvature >= 1 - _CONVEX and land.curvature(starts[1])[0] >= 1 - _CONVEX:
        return known
    lanes = starts
    while len(lanes):
        for descent in descend(land, lanes, **options):
            if descent.settled and not any(_same(land, descent, other.descent) for other in known):
                known.append(curved(land, descent))
        sides = [_sides(land, one) for one in known[left:] if one.curvature <= LEAST_CURVATURE]
        lanes, left = np.concatenate(sides) if sides and len(known) <= 12 else starts[:0], len(known)
    return known


def _same(land: Landscape, one: Descent, other: Descent) -> bool:
    apart = np.abs(land.internal.weights(one.slopes) - land.internal.weights(other.slopes)).sum() / 2
    return bool(apart < 0.05 and abs(one.free - other.free) <= 1e-7 * (land.unit + abs(one.free)))


def _sides(land: Landscape, saddle: Equilibrium) -> Float[np.ndarray, "two n"]:
    """Two laws beside a saddle, along its least curvature: their logarithms differ from its own by about 0.1."""
    weights, away = land.internal.weights(saddle.descent.slopes), saddle.direction
    loose = land.internal.loose(weights)
    away = away - loose @ away / loose.sum()
    share = loose / np.where(weights > 0, weights, 1)  # by how much a slope moves a logarithm
    away = 0.1 * away / np.sqrt(weights @ (share * away) ** 2)
    return land.internal.levelled(saddle.descent.slopes + np.stack([away, -away]))


def search_starts(
    centres: Float[np.ndarray, "n p"], cells: tuple[int, ...], potential: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "s n"]:
    """Logarithms of laws to look from: even, drawn mixtures, bumps in the quarters of the box and at minima of Psi."""
    draw, low = np.random.default_rng(0), centres.min(axis=0)
    box = centres.max(axis=0) - low
    widths = np.maximum(box / _SPREAD, 1.5 * box / np.array(cells))

    def bump(middle):
        return -np.sum(((centres - middle) / widths) ** 2, axis=1) / 2

    quarters = np.stack(np.meshgrid(*[(0.25, 0.75)] * len(cells), indexing="ij"), -1).reshape(-1, len(cells))
    pairs = [np.logaddexp(*(bump(low + box * draw.uniform(size=len(cells))) for _ in range(2))) for _ in range(3)]
    middles = [*centres[_minima(potential, cells)], *(low + box * quarters)]
    return normalised(np.stack([np.zeros(len(centres)), *pairs, *map(bump, middles)]))


def _minima(potential, cells: tuple[int, ...], most: int = 6):
    """The cells no higher than their neighbours, the lowest first."""
    from scipy.ndimage import minimum_filter

    field = potential.reshape(cells)
    low = np.flatnonzero((field == minimum_filter(field, size=3, mode="nearest")).ravel())
    return low[np.argsort(potential[low], kind="stable")][:most]
