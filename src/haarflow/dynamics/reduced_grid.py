"""The reduced law of one neuron as a density: the continuity equation of (s, r) on a grid, beside its characteristics.

Outputs are kept at one, so that the law of (s, r) is all there is; it moves in the field of the characteristics, which
start from a Gauss quadrature of the same law, `reduced_start(d, outputs=(1.0,))`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.dynamics.diffusion import fokker_planck
from haarflow.dynamics.domains import restrict
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.grids import Grid
from haarflow.dynamics.pairwise import Pairwise
from haarflow.dynamics.reduced import reduced_risk, reduced_start
from haarflow.dynamics.schemes import Heun
from haarflow.learning.functionals import Penalty
from haarflow.learning.sphere import one_neuron
from haarflow.measures.clouds import Cloud


class GridLaw(NamedTuple):
    """A law of (s, r) at k times: the masses of all cells, and the characteristics (k, n, 2) with their weights.

    `mass_error` is the largest amount by which a step changed the total mass, before the solver scaled it to one.
    """

    grid: Grid
    masses: Float[np.ndarray, "k m"]
    nodes: Float[np.ndarray, "k n 2"]
    weights: Float[np.ndarray, " n"]
    mass_error: float

    def moment_errors(self) -> Float[np.ndarray, "4"]:
        """At the end, the means and mean squares of s and r on the grid, minus those of the characteristics."""
        return _moments(self.grid.centres, self.masses[-1]) - _moments(self.nodes[-1], self.weights)


def grid_law(
    key: Any, grid: Grid, d: int, *, dt: float, steps: int, nodes: int = 6, growth: Callable | None = None
) -> GridLaw:
    """The law of (s, r) in R^d on a grid of the plane, from the exact masses of the start, and its characteristics.

    `growth(psi, places)` is a rate at which cells gain mass, none by default: psi is the potential in which they move,
    a function of one place. `grid_law(key, Grid((-1.5, 0), (2, 2), (28, 16)), 10, dt=0.1, steps=20).masses` is
    (21, 448).
    """
    energy, start = reduced_risk(one_neuron(1), d, nodes=nodes), reduced_start(d, outputs=(1.0,), along=10, across=2)
    field = restrict(Descend(energy), np.diag([0.0, 1.0, 1.0]), through="start")
    probes = {"atoms": lambda cloud: cloud.atoms}
    path = flow(field, Heun(), start, key=key, dt=dt, steps=steps, probes=probes, every=1, progress=False)
    rows, mass_error = [_start_masses(grid, d)], 0.0
    for atoms in path.probes["atoms"][:-1]:
        psi = eqx.Partial(_psi, energy, Cloud(atoms, start.weights))
        step = fokker_planck(Penalty(1.0, psi), grid, grid.law(rows[-1]), temperature=0.0, dt=dt, steps=1)
        gained = 1.0 if growth is None else 1 + dt * np.asarray(growth(psi, grid.centres))
        rows.append(rows[-1].sum() * step.weights[-1] * gained)
        mass_error = max(mass_error, step.mass_error)
    return GridLaw(grid, np.stack(rows), path.probes["atoms"][:, :, 1:], np.asarray(start.weights), mass_error)


def _start_masses(grid: Grid, d: int) -> Float[np.ndarray, " m"]:
    """Those of s ~ N(0, 1/d) and r, `d^{−1/2}` times the norm of a Gaussian in R^(d − 1), cell by cell."""
    from scipy.special import ndtr
    from scipy.stats import chi

    below = ndtr(grid.edges(0) * np.sqrt(d)), chi(d - 1).cdf(grid.edges(1) * np.sqrt(d))
    return np.asarray(grid.law(np.outer(*map(np.diff, below))).weights)


def _psi(energy: Pairwise, law: Cloud, place: Float[Array, "2"]) -> Float[Array, ""]:
    """Psi of a place (s, r) with output one, in the field of a law of (a, s, r)."""
    return energy.at(jnp.concatenate([jnp.ones(1), place]), law)


def _moments(places, weights) -> Float[np.ndarray, "4"]:
    return np.concatenate([weights @ places, weights @ places**2]) / weights.sum()
