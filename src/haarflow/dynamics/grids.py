"""Grids: a box cut into equal cells, and laws on it, which are Clouds whose atoms are the centres of all cells.

Everything on a grid is computed in float64, whatever precision JAX has.
"""

import math
from functools import cached_property
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Float

from haarflow.annotations import kind_of
from haarflow.dynamics.cells import CellEnergy
from haarflow.dynamics.internal_energies import Entropy, InternalEnergy, refuse_unless_convex
from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud
from haarflow.values import numbers, refuse_unless_affordable, said, whole


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

    def __repr__(self) -> str:
        """The call that makes it."""
        ends = (self.low.tolist(), self.high.tolist(), list(self.cells))
        return f"Grid({', '.join(str(tuple(end)) if self.p > 1 else f'{end[0]:g}' for end in ends)})"

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
        masses = self.weights(f"The reference of {kind_of(energy)}", energy.reference)
        if not (masses > 0).all():
            raise Refusal(
                f"The reference of {kind_of(energy)} has mass in all cells; got {np.sum(masses == 0)} without. "
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
