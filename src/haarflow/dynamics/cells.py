"""An internal energy on the cells of a grid: its value, its slopes, its laws in a potential, and its fluxes.

A law in equilibrium has `Psi + strength · f'(r)` constant where it has mass. So laws are given by their slopes f'(r),
one for each cell; slopes up to a constant become those of a law by a level. For the entropy they are logarithms.
"""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from haarflow.dynamics.internal_energies import InternalEnergy, looseness, value_of
from haarflow.errors import Refusal


def over_temperature(potential: Float[np.ndarray, "*n"], temperature: float) -> Float[np.ndarray, "*n"]:
    """Psi over the temperature, or over the strength of another internal energy; refused beyond float64."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = potential / temperature
    if not np.isfinite(found).all():
        raise Refusal(
            f"A Gibbs law has Psi over its temperature within float64; got Psi up to {np.abs(potential).max():.2g} at "
            f"temperature {temperature:.2g}. Write a higher temperature, or 0.0 in fokker_planck."
        )
    return found


class CellEnergy(eqx.Module):
    """An internal energy, and the mass that its reference has in each cell."""

    energy: InternalEnergy
    masses: Float[np.ndarray, " n"]

    @property
    def strength(self) -> float:
        """What the energy is multiplied by: the temperature of the entropy."""
        return float(self.energy.strength)

    def value(self, weights: Float[np.ndarray, "*s n"]) -> Float[np.ndarray, "*s"]:
        """The energy of laws."""
        return np.asarray(self.strength * (value_of(self.energy, weights / self.masses) @ self.masses))

    def slopes(self, weights: Float[np.ndarray, "*s n"]) -> Float[np.ndarray, "*s n"]:
        """f'(r) of laws, as if there were a little mass where there is none."""
        return self.energy.slope(np.maximum(weights / self.masses, 1e-290))

    def weights(self, slopes: Float[np.ndarray, "*s n"]) -> Float[np.ndarray, "*s n"]:
        """The laws of slopes."""
        return self.masses * self.energy.inverse(slopes)

    def levelled(self, slopes: Float[np.ndarray, "s n"]) -> Float[np.ndarray, "s n"]:
        """Slopes of laws, from slopes up to a constant."""
        return slopes + self.energy.level(slopes, self.masses)

    def answers(self, potentials: Float[np.ndarray, "s n"]) -> Float[np.ndarray, "s n"]:
        """The slopes of `argmin ∫Psi dmu + U(mu)`: of the law that each potential, if it stayed, would lead to."""
        return self.levelled(-over_temperature(potentials, self.strength))

    def gaps(self, weights: Float[np.ndarray, "s n"], answers: Float[np.ndarray, "s n"]) -> Float[np.ndarray, " s"]:
        """How much lower `∫Psi dmu + U(mu)` is at the answer than at the law: the certificate of the law.

        For the entropy it is the temperature times `KL(law | answer)`. Every cell adds something >= 0.
        """
        here, there = weights / self.masses, self.energy.inverse(answers)
        rises = value_of(self.energy, here) - value_of(self.energy, there) - answers * (here - there)
        return self.strength * (rises @ self.masses)

    def loose(self, weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """`nu / f''(r)`, in whose inverse the second variation of the energy measures changes: mu for the entropy."""
        return self.masses * looseness(self.energy, weights / self.masses)

    def between(self, left: Any, right: Any, left_masses: Any, right_masses: Any) -> tuple[Any, Any]:
        """The temperatures between neighbours of some weights, and how the logarithm of the reference rises."""
        heat = self.strength * self.energy.heat(left / left_masses, right / right_masses)
        return heat, 0.0 if self.energy.reference is None else np.log(right_masses / left_masses)
