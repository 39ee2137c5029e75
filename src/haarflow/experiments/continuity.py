"""The law of a neuron's two numbers on a grid: a plain continuity equation, without the printed geometric factor."""

from typing import Annotated

import equinox as eqx
import jax
import numpy as np
from pydantic import Field

from haarflow.dynamics.grids import Grid
from haarflow.dynamics.reduced_grid import grid_law
from haarflow.runs import style
from haarflow.runs.experiment import Experiment, below, between, in_turns, named, once, panel, power_law

ORDER = "moments on the grid against characteristics"


class Continuity(Experiment):
    """The law of the two numbers (s, r) of a neuron solves a plain continuity equation: on a grid it conserves mass to
    rounding, and its moments come to those of the characteristics, to first order in the cells.

    Source: lecture 7 on mean-field networks (the single neuron), after A mean field view of the landscape of two-layer
    neural networks (arXiv 1804.06561).

    The lecture prints a term (1/r) ∂_r(r …); a law that is pushed forward has none. A student relu(<w, x>) of one
    neuron in R^10 has s = w₁ and r, the norm of the rest; outputs a = 1 are kept, and the field is that of the
    characteristics (the experiment `reduced`). On a grid of (s, r), the equation conserves mass to rounding, and so
    does every step of the solver before it is scaled to one.
    """

    group = "dynamics"
    seconds = 5.0
    faults = {"printed": "the equation on the grid has the term (1/r) ∂_r(r …)"}

    refinements: Annotated[int, Field(ge=2)] = 3  # grids, each twice as fine as the last

    @classmethod
    def full(cls):
        return cls(refinements=4)

    def design(self):
        yield self.grid, once()

    def grid(self, key):
        """The continuity equation of (s, r) in R^10 on grids of smaller and smaller cells, against characteristics."""
        cuts = [2**level for level in range(self.refinements)]  # of cells of side 1/8
        laws = [self._law(key, some, self.fault == "printed") for (some,) in in_turns(cuts)]
        lost = [max(np.abs(law.masses.sum(1) - 1).max(), law.mass_error) for law in laws]
        masses = [law.masses.sum(1) for law in (laws[0], self._law(key, 1, True))]
        fine, cells = laws[-1], [law.grid.cells[0] for law in laws]
        shown = [0, len(fine.masses) // 4, len(fine.masses) - 1]
        return {
            "moments": named([law.moment_errors() for law in laws], "cells", "moment", cells=cells),
            "lost": named(lost, "cells", cells=cells),
            "mass": named(masses, "equation", "time", equation=("plain", "printed"), time=np.linspace(0, 2, 21)),
            "density": named(fine.masses[shown].reshape(3, *fine.grid.cells) / fine.grid.volume, "time", "s", "r"),
            "nodes": named(fine.nodes[shown], "time", "node", "coordinate"),
            "shares": named(fine.weights, "node"),
        }

    def _law(self, key, cuts, printed):
        box = Grid((-1.5, 0.0), (2.0, 2.0), (28 * cuts, 16 * cuts))
        return grid_law(key, box, 10, dt=0.1 / cuts, steps=20 * cuts, growth=_printed if printed else None)

    def fits(self, data):
        errors = named(np.linalg.norm(data.moments, axis=1), "cells", cells=data.moments.labels("cells"))
        return {ORDER: power_law(errors, along="cells")}

    def claims(self, data):
        yield below("grid: the continuity equation conserves mass to {bound:g}", data.lost.max(), 1e-12)
        yield between(f"grid: {ORDER}, order in the cells", -data.fits[ORDER].value, 0.8, 1.2)

    def numbers(self, data):
        return {"mass error, printed term": abs(data.mass.sel(equation="printed") - 1).max()}

    @panel(
        "The reduced law is pushed forward",
        "The law of (s, r) in R^10 with outputs kept at one: its density by finite volumes (blue) and the "
        "characteristics of the same equation (circles, by weight). The plain equation conserves mass to rounding; the "
        "one printed with a geometric factor does not.",
        columns=4,
        size=(11.0, 3.4),
        width_ratios=(1, 1, 1, 1.25),
    )
    def mass(self, axes, data):
        *maps, last = axes
        look = {"origin": "lower", "extent": (-1.5, 2.0, 0.0, 2.0), "aspect": "auto", "interpolation": "bilinear"}
        for axis, density, nodes, t in zip(maps, data.density, data.nodes, (0, 0.5, 2), strict=True):
            axis.imshow(density.T, cmap=style.ramp("vanilla"), **look)
            axis.scatter(*nodes.T, s=3 + 300 * data.shares, facecolor="none", edgecolor=style.colour("EA"))
            axis.set(title=f"t = {t:g}", xlabel="s", xlim=(-1.5, 2.0), ylim=(0, 2))
            axis.grid(visible=False)
        maps[0].set(ylabel="r")
        (_, plain), (_, printed) = data.mass.each("equation")
        last.plot(plain.labels("time"), plain, color=style.INK, label=r"$\partial_r(\rho\,\partial_r\Psi)$")
        look = {"linestyle": style.DASHED, "label": r"$\frac{1}{r}\partial_r(r\rho\,\partial_r\Psi)$"}
        last.plot(plain.labels("time"), printed, color=style.colour("EA"), **look)
        last.set(xlabel="time t", ylabel="mass", ylim=(0.95, 1.07))
        last.legend(loc="upper left")


@eqx.filter_jit
def _printed(psi, places):
    """What the term (1/r) ∂_r(r …) adds: mass that grows at the rate (∂_r Psi)/r."""
    return jax.vmap(jax.grad(psi))(places)[:, 1] / places[:, 1]
