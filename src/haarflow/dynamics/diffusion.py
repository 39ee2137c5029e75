"""The Fokker–Planck flow of laws on a grid, and how fast it returns to a law that stands still.

The flow `mu' = div(mu ∇Psi) + beta Δmu` descends the free energy `E(mu) + beta ∫log mu dmu`; with another internal
energy U in the place of the entropy it is `mu' = div(mu ∇(Psi + U'))`. It needs the functional's exact variation, and
is computed in float64, whatever precision JAX has.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from haarflow.doors import Count, Natural, NonNegative, Positive, door
from haarflow.dynamics.equilibria import refuse_unless_finite
from haarflow.dynamics.fluxes import implicit_step, log_gibbs, slowest_rate
from haarflow.dynamics.free_energies import potential_of, relative_entropy, told_in_doubles
from haarflow.dynamics.grids import Grid
from haarflow.dynamics.internal_energies import InternalEnergy
from haarflow.errors import Refusal
from haarflow.learning.risks import Functional
from haarflow.measures.clouds import Cloud
from haarflow.values import refuse_unless_affordable, refuse_unless_soon


class GridPath(NamedTuple):
    """A flow of laws on a grid: the recorded times, the weights of all cells at each, and the mass error.

    The mass error is the most mass that any one step lost or made by rounding, before it was given back.
    """

    times: Float[np.ndarray, " k"]
    weights: Float[np.ndarray, "k n"]
    mass_error: float


@eqx.filter_jit
def _response(functional: Functional, atoms, weights):
    def potential(weights):
        return functional.variation(Cloud(atoms, weights)).potential

    return potential(weights), jax.jacfwd(potential)(weights)


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
    potential, pull = told_in_doubles(_response, functional, grid.centres, weights)
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
