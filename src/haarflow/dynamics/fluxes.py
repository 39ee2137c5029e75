"""How mass moves between the cells of a grid, by the fluxes of Scharfetter and Gummel: one step, and slow modes.

Between two neighbours with potentials Psi and Psi + rise, mass jumps up at the rate `b(rise / beta)` and down at the
rate `b(−rise / beta)`, times beta over the squared width, where `b(x) = x / (exp(x) − 1)`. So the law
`∝ exp(−Psi/beta)` stands still exactly, and no step makes mass negative.
"""

import numpy as np
from jaxtyping import Float

from haarflow.errors import Refusal


def implicit_step(
    field: Float[np.ndarray, "*cells"],
    mass: Float[np.ndarray, "*cells"],
    widths: Float[np.ndarray, " p"],
    temperature: float,
    dt: float,
) -> Float[np.ndarray, "*cells"]:
    """The masses after one implicit step along each axis in turn, all its lines solved as one banded system."""
    from scipy.linalg import LinAlgError, solve_banded

    for axis, width in enumerate(widths):
        up, down = jump_rates(np.moveaxis(field, axis, -1), width, temperature)
        lines = np.moveaxis(mass, axis, -1)
        bands = np.zeros((3, *lines.shape))
        bands[1] = 1.0
        bands[1, ..., :-1] += dt * up
        bands[1, ..., 1:] += dt * down
        bands[0, ..., 1:] = -dt * down
        bands[2, ..., :-1] = -dt * up
        if not np.isfinite(bands).all():
            return np.full_like(mass, np.nan)
        try:
            solved = solve_banded((1, 1), bands.reshape(3, -1), lines.ravel(), overwrite_ab=True, check_finite=False)
        except LinAlgError:  # rates beyond float64, in which the mass that stays is lost
            return np.full_like(mass, np.nan)
        mass = np.moveaxis(solved.reshape(lines.shape), -1, axis)
    return mass


def jump_rates(field: Float[np.ndarray, "*n"], width: float, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """The rates at which mass jumps up and down between neighbours along the last axis."""
    rise = np.diff(field, axis=-1)
    if temperature <= 1e-290 * np.abs(rise).max():  # none, or so little that rise / temperature overflows
        return np.maximum(-rise, 0) / width**2, np.maximum(rise, 0) / width**2
    scale = temperature / width**2
    return scale * _bernoulli(rise / temperature), scale * _bernoulli(-rise / temperature)


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
    up, down = jump_rates(potential, width, temperature)
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
    with np.errstate(over="ignore", invalid="ignore"):
        logs = -potential / temperature
    if not np.isfinite(logs).all():
        raise Refusal(
            f"A Gibbs law has Psi over its temperature within float64; got Psi up to {np.abs(potential).max():.2g} at "
            f"temperature {temperature:.2g}. Write a higher temperature, or 0.0 in fokker_planck."
        )
    return normalised(logs)


def normalised(logs: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Logarithms of weights that sum to one along the last axis."""
    from scipy.special import logsumexp

    return logs - np.asarray(logsumexp(logs, axis=-1, keepdims=True))
