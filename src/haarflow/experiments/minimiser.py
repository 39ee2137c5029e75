"""The optimality condition at a computed minimiser: mass lives where the first variation is least."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from haarflow.dynamics import optimality
from haarflow.learning.data import Sample
from haarflow.learning.optima import optimum
from haarflow.learning.risks import Penalty, Risk
from haarflow.measures.distances import generator
from haarflow.models.units import Dense
from haarflow.runs import style
from haarflow.runs.experiment import Experiment, below, named, once, panel
from haarflow.runs.sizes import Count, Positive


class Minimiser(Experiment):
    """At a minimiser of the penalised risk over all laws, the support lies where the first variation Psi is least: on a
    grid, where a convex program finds it, and off the grid, where atoms and weights are settled together.

    Source: lectures 7 and 8 on mean-field networks (optimality condition).

    A network of tanh neurons in the plane, twelve samples, the half square risk with `tau ∫½|θ|² dmu`. The minimiser is
    a convex program on a grid, then settled off the grid in atoms and weights; `optimality_gap` certifies both, on a
    grid four times as fine.
    """

    group = "dynamics"
    seconds = 0.4
    faults = {"left on the grid": "the atoms of the program are judged as if they were settled"}

    tau: Positive = 0.02  # weight of the penalty
    cells: Count = 41  # grid points per axis, where the minimiser is sought first

    @classmethod
    def full(cls):
        return cls(cells=61)

    def design(self):
        yield self.minimiser, once()

    def minimiser(self, key):
        """The best law for a network of tanh neurons in the plane: on a grid, then off it, with its certificates."""
        draw = generator(key)
        xs = 1.5 * draw.normal(size=(12, 2))
        ys = 0.45 * np.sin(1.7 * xs[:, :1] + 0.4) + 0.25 * np.cos(1.3 * xs[:, 1:])
        energy = Risk(Dense(2, 1, "tanh"), Sample(xs, ys)) + Penalty(self.tau)
        axis, fine = np.linspace(-4, 4, self.cells), np.linspace(-4, 4, 4 * self.cells - 3)
        best = optimum(energy, _square(axis))
        settled = best.cloud
        if self.fault != "left on the grid":
            settled = optimality.polish(energy, best.cloud, merge=1.5 * (axis[1] - axis[0]))
        places = jnp.asarray(_square(fine))
        potential = np.asarray(optimality.first_variation(energy, settled, places))
        support = np.asarray(optimality.first_variation(energy, settled, settled.atoms))
        on_grid = np.asarray(optimality.first_variation(energy, best.cloud, best.cloud.atoms))
        heavy = np.asarray(best.cloud.weights) > 1e-3
        return {
            "grid_value": best.value,
            "grid_gap": best.gap,
            "grid_spread": on_grid[heavy].max() - on_grid.min(),
            "value": eqx.filter_jit(energy)(settled),
            "gap": optimality.optimality_gap(energy, settled, places),
            "spread": support.max() - support.min(),
            "below": support.min() - potential.min(),
            "potential": named(potential.reshape(len(fine), -1), "theta_1", "theta_2", theta_1=fine, theta_2=fine),
            "atoms": named(settled.atoms, "atom", "theta"),
            "weights": named(settled.weights, "atom"),
        }

    def claims(self, data):
        yield below("minimiser on the grid: Psi on the support is its minimum, to {bound:g}", data.grid_spread, 1e-6)
        yield below("minimiser off the grid: Psi is the same at every atom, to {bound:g}", data.spread, 1e-6)
        yield below("minimiser off the grid: nowhere is Psi lower by more than {bound:g}", data.below, 1e-6)
        raised = data.value - data.grid_value
        yield below("minimiser: leaving the grid lowers the energy, to {bound:g}", raised, 1e-12)

    def numbers(self, data):
        return {
            "minimiser, grid value": data.grid_value,
            "minimiser, grid gap": data.grid_gap,
            "minimiser, value": data.value,
            "minimiser, gap": data.gap,
            "atoms of the minimiser": len(data.weights),
        }

    @panel(
        "At the optimum, mass lives where Psi is least",
        "The first variation at the computed minimiser of a penalised network of tanh neurons. Discs are its atoms, by "
        "weight: they sit exactly where Psi is least (left), and Psi rises away from them (right).",
        columns=2,
        size=(9.6, 4.2),
        width_ratios=(1.25, 1),
    )
    def support(self, axes, data):
        """Psi over the plane, and against the distance to the support."""
        from matplotlib.ticker import LogFormatterSciNotation

        (left, right), shades = axes, style.ramp("vanilla").reversed()
        places, atoms = data.potential.labels("theta_1"), data.atoms.values
        height = np.maximum(data.potential - data.potential.min(), 1e-5).values
        levels = np.geomspace(1e-4, height.max(), 14)
        filled = left.contourf(places, places, height.T.clip(1e-4), levels, cmap=shades, norm="log")
        left.figure.colorbar(filled, ax=left, ticks=10.0 ** np.arange(-4, 0), format=LogFormatterSciNotation())
        left.scatter(*atoms.T, s=20 + 400 * data.weights, facecolor=style.colour("EA"), edgecolor=style.INK, zorder=3)
        left.set(xlabel=r"$\theta_1$", ylabel=r"$\theta_2$", aspect="equal", title=r"$\Psi - \min\Psi$")
        distance = np.linalg.norm(_square(places)[:, None] - atoms, axis=-1).min(-1)
        dots = {"s": 2, "color": style.colour("vanilla"), "rasterized": True}
        right.scatter(distance[::7], height.ravel()[::7], **dots)
        right.set(yscale="log", ylim=(1e-5, None), xlabel="distance to the nearest atom", ylabel=r"$\Psi - \min\Psi$")


def _square(axis):
    """All places of the plane with these coordinates, (n², 2)."""
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
