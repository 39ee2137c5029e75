"""Laws on a grid at a temperature: the free energy, and the self-consistent Gibbs law that minimises it.

With temperature beta the free energy is `F(mu) = E(mu) + beta ∫log mu dmu`, with mu a density; its minimiser solves
`mu ∝ exp(−Psi(mu)/beta)`. Another internal energy U stands in the place of the entropy as `internal=`: `F = E + U`, and
at the minimiser `Psi + U'` is constant. Everything here needs the functional's exact variation: risks over whole
samples, penalties, pairwise energies; and is computed in float64, whatever precision JAX has.
"""

import math
from typing import Annotated, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from haarflow.doors import Above, Count, Least, Most, NonNegative, Positive, door
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
from haarflow.dynamics.fluxes import log_gibbs
from haarflow.dynamics.grids import Grid
from haarflow.dynamics.internal_energies import InternalEnergy
from haarflow.errors import Refusal
from haarflow.learning.risks import Functional
from haarflow.measures.clouds import Cloud
from haarflow.values import refuse_unless_affordable

Masses = Annotated[Float[np.ndarray, " n"], Least(0)]


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


@doubled
def told_in_doubles(question, functional: Functional, atoms, weights):
    """What a compiled question above says of a law, in float64 and NumPy."""
    answer = question(functional, jnp.asarray(atoms), jnp.asarray(weights))
    return jax.tree.map(lambda part: np.asarray(part, float), answer)


def potential_of(
    functional: Functional, atoms: Float[np.ndarray, "n p"], weights: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Psi at the atoms of a law, in float64; refused where it is not finite."""
    potential = told_in_doubles(_potential, functional, atoms, weights)
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
    energy = told_in_doubles(_energy, functional, grid.centres, weights)
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
