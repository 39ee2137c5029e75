"""How mass moves between the cells of a grid, by the fluxes of Scharfetter and Gummel: one step, and slow modes.

Between two neighbours with potentials Psi and Psi + rise, mass jumps up at the rate `b(rise / beta)` and down at the
rate `b(−rise / beta)`, times beta over the squared width, where `b(x) = x / (exp(x) − 1)`. So the law
`∝ exp(−Psi/beta)` stands still exactly, and no step makes mass negative. An internal energy other than the entropy has
a temperature for each pair of neighbours.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from haarflow.annotations import kind_of
from haarflow.dynamics.cells import CellEnergy, over_temperature
from haarflow.errors import Refusal

_PASSES, _PLAIN = 80, 20  # the most of a step, and one more for each cell to be filled; those before Newton's method


def implicit_step(
    field: Float[np.ndarray, "*cells"],
    mass: Float[np.ndarray, "*cells"],
    widths: Float[np.ndarray, " p"],
    internal: CellEnergy,
    dt: float,
) -> Float[np.ndarray, "*cells"]:
    """The masses after one implicit step along each axis in turn, with the temperatures of the end of the step."""
    reference = internal.masses.reshape(mass.shape)
    for axis, width in enumerate(widths):
        psi, lines, masses = (np.moveaxis(part, axis, -1) for part in (field, mass, reference))
        step = _Step(np.diff(psi), masses, float(width), internal, dt)
        mass = np.moveaxis(step.after(lines), -1, axis)
    return mass


class _Step(NamedTuple):
    """A step along the last axis: how the potential rises between neighbours, the reference, and the rest."""

    rise: np.ndarray
    masses: np.ndarray
    width: float
    internal: CellEnergy
    dt: float

    def after(self, lines: np.ndarray) -> np.ndarray:
        """The masses at the end of the step.

        The entropy has one temperature, and all lines are one banded system. The temperatures of other energies depend
        on the masses: some passes with those of the last pass fill what was empty, then Newton's method ends it.
        """
        found, moved, gap, passes = lines, lines, np.inf, _PASSES + lines.shape[-1]
        for number in range(passes):
            (up, down), varies = self.jumps(found[..., :-1], found[..., 1:])
            moved = _solved(up, -down, lines)
            gap = float(np.abs(moved - found).sum())
            if not varies or not gap > max(1e-12, 1e-15 * max(up.max(), down.max())):
                return moved
            found = moved if number < _PLAIN else self.better(found, moved, lines)
        if gap < 1e-9:
            return moved
        raise Refusal(
            f"A step of an internal energy ends when its temperatures stay; got {kind_of(self.internal.energy)}"
            f" whose moved {gap:.1e} of the mass after {passes} passes at dt={self.dt:g}. Write a smaller dt."
        )

    def jumps(self, left: np.ndarray, right: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], bool]:
        """The shares of mass that jump up and down in the step, between neighbours; and whether they depend on it."""
        temperature, against = self.internal.between(left, right, self.masses[..., :-1], self.masses[..., 1:])
        up, down = jump_rates(self.rise - temperature * against, self.width, temperature)
        return (self.dt * up, self.dt * down), np.ndim(temperature) > 0

    def flux(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The mass that goes from the left to the right in the step."""
        (up, down), _ = self.jumps(left, right)
        return up * left - down * right

    def better(self, found: np.ndarray, moved: np.ndarray, lines: np.ndarray) -> np.ndarray:
        """The masses after Newton's step, by differences; half a plain pass where it would move more than a tenth."""
        left, right, e = found[..., :-1], found[..., 1:], 1e-6
        (up, down), _ = self.jumps(left, right)
        ahead = (self.flux(left * (1 + e), right) - self.flux(left * (1 - e), right)) / (2 * e * left)
        behind = (self.flux(left, right * (1 + e)) - self.flux(left, right * (1 - e))) / (2 * e * right)
        ahead, behind = np.where(left > 0, ahead, up), np.where(right > 0, behind, -down)
        flux, excess = self.flux(left, right), found - lines
        excess[..., :-1] += flux
        excess[..., 1:] -= flux
        step = _solved(np.maximum(ahead, 0), np.minimum(behind, 0), -excess)
        return np.maximum(found + step, 0.1 * found) if np.abs(step).sum() <= 0.1 else (found + moved) / 2


def _solved(ahead, behind, lines) -> np.ndarray:
    """The masses that were `lines` before `ahead · left + behind · right` went to the right between neighbours."""
    from scipy.linalg import LinAlgError, solve_banded

    bands = np.zeros((3, *lines.shape))
    bands[1] = 1.0
    bands[1, ..., :-1] += ahead
    bands[1, ..., 1:] -= behind
    bands[0, ..., 1:] = behind
    bands[2, ..., :-1] = -ahead
    nothing = np.full_like(lines, np.nan)
    if not np.isfinite(bands).all():
        return nothing
    try:
        solved = solve_banded((1, 1), bands.reshape(3, -1), lines.ravel(), overwrite_ab=True, check_finite=False)
    except LinAlgError:  # rates beyond float64, in which the mass that stays is lost
        return nothing
    return solved.reshape(lines.shape)


def jump_rates(
    rise: Float[np.ndarray, "*n"], width: float, temperature: float | Float[np.ndarray, "*n"]
) -> tuple[np.ndarray, np.ndarray]:
    """The rates at which mass jumps up and down between neighbours whose potentials differ by so much."""
    # no temperature, or so little that rise / temperature overflows: mass runs downhill alone
    cold = temperature <= 1e-290 * np.abs(rise).max(initial=0.0)
    warm = np.where(cold, 1.0, temperature)
    up, down = (
        np.where(cold, np.maximum(-way, 0), warm * _bernoulli(np.where(cold, 0.0, way) / warm)) for way in (rise, -rise)
    )
    return up / width**2, down / width**2


def _bernoulli(x):
    """`x / (exp(x) − 1)`, smooth at zero."""
    with np.errstate(over="ignore"):
        return np.where(np.abs(x) < 1e-8, 1 - x / 2, x / np.expm1(np.where(np.abs(x) < 1e-8, 1.0, x)))


def slowest_rate(
    potential: Float[np.ndarray, " n"], pull: Float[np.ndarray, "n n"], width: float, temperature: float
) -> tuple[float, float]:
    """The slowest rate of the flow linearised at the law `w ∝ exp(−Psi/beta)` of a line, and what rounding may err.

    `pull` is the derivative of Psi in the weights. A change h of the law that has no mass flows by
    `h' = −D C Dᵀ (beta h/w + pull h)`, with D the differences of the n − 1 fluxes between neighbours and `beta C` the
    flux that jumps up: the mode of the mass is not among them. Written as `h = √w g`, the rates are those of
    `M g = rate · NᵀN g`, where `M = I + √w pull √w / beta` is the second variation of the free energy and N takes g to
    the fluxes that h leaves behind, over √(beta C). All terms of N have one sign, so that the slowest rate of a stable
    law is right in all its digits, however cold. An unstable law has a negative rate, by the eigenvalues of
    `√C Dᵀ (beta/w + pull) D √C`.
    """
    weights = np.exp(log_gibbs(potential, temperature))
    up, down = jump_rates(np.diff(potential), width, temperature)
    root, flux = np.sqrt(weights), up * weights[:-1]
    centred = pull - (pull @ weights)[:, None] - (pull.T @ weights)[None, :] + weights @ pull @ weights
    bend = np.eye(len(root)) + root[:, None] * (centred + centred.T) / 2 * root[None, :] / temperature
    try:
        lower = np.linalg.cholesky(bend)
    except np.linalg.LinAlgError:
        return _most_unstable(up, down, np.sqrt(flux / temperature), pull)
    below, above = np.cumsum(weights)[:-1], np.cumsum(weights[::-1])[::-1][1:]
    if (flux < np.finfo(float).tiny)[np.minimum(below, above) > np.finfo(float).tiny].any():
        return 0.0, float(np.finfo(float).tiny)
    held = flux > 0
    left = np.tri(len(up), len(root), dtype=bool)[held]
    fluxes = np.where(left, above[held, None], -below[held, None]) * root[None, :] / np.sqrt(flux[held, None])
    rate = float(np.linalg.norm(np.linalg.solve(lower, fluxes.T), 2) ** -2)
    return rate, 1e-12 * rate


def _most_unstable(up, down, root, pull) -> tuple[float, float]:
    matrix = root[:, None] * np.diff(np.diff(pull, axis=0), axis=1) * root[None, :]
    edges = np.arange(len(up))
    matrix[edges, edges] += up + down
    beside = np.sqrt(down[:-1] * up[1:])
    matrix[edges[:-1], edges[1:]] -= beside
    matrix[edges[1:], edges[:-1]] -= beside
    rates = np.linalg.eigvalsh((matrix + matrix.T) / 2)
    return float(rates[0]), 1e-14 * float(rates[-1])


def log_gibbs(potential: Float[np.ndarray, "*n"], temperature: float) -> Float[np.ndarray, "*n"]:
    """The logarithms of the weights `∝ exp(−Psi/beta)`, along the last axis; refused beyond the range of float64."""
    return normalised(-over_temperature(potential, temperature))


def normalised(logs: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Logarithms of weights that sum to one along the last axis."""
    from scipy.special import logsumexp

    return logs - np.asarray(logsumexp(logs, axis=-1, keepdims=True))
