"""Small problems and what is known of them.

Bumps on the line, grids refined against Gaussians, cold Gibbs laws; Gaussians that move and grow, a mixture with a bad
start; neurons on the circle, whose best law is a convex program.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.dynamics.grids import (
    Gibbs,
    Grid,
    GridPath,
    fokker_planck,
    free_energy,
    gibbs,
    local_gibbs,
    relative_entropy,
)
from haarflow.dynamics.optimality import optimality_gap
from haarflow.dynamics.oracles import QuadraticEnergy, gaussian_flow
from haarflow.dynamics.pairwise import Pairwise
from haarflow.learning.data import Sample
from haarflow.learning.risks import Functional, Penalty, Risk, Sum
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.neurons import Neuron
from haarflow.models.units import Bump, Custom, network
from haarflow.runs.experiment import Named, named


def spot(inputs: int, height: float, sharpness: float) -> Custom:
    """The unit `height · exp(−sharpness |x − θ|²)`: a bump that can only move."""

    def function(theta, x):
        return height * jnp.exp(-sharpness * jnp.sum((x - theta) ** 2))[None]

    return Custom(function, inputs, inputs, 1, lambda on_x, on_y: on_x)


UNIT = spot(1, 3.0, 1.0)
MOMENTS = ("mean", "second moment", "variance", "fourth moment")
INPUTS = np.linspace(-2, 2, 5)[:, None]
TARGETS = 0.9 * np.exp(-((INPUTS + 1.2) ** 2)) + 2.1 * np.exp(-((INPUTS - 1.5) ** 2)) + 0.2


def moments(cloud: Cloud) -> Float[Array, "k"]:
    """The first, second and fourth moment of a law on the line."""
    return jnp.stack([cloud.weights @ cloud.atoms[:, 0] ** power for power in (1, 2, 4)])


def named_moments(raw: np.ndarray) -> Named:
    """The mean, the second moment, the variance and the fourth moment, from `moments`."""
    mean, second, fourth = raw
    return named([mean, second, second - mean**2, fourth], "moment", moment=MOMENTS)


def random_masses(draw: np.random.Generator, grid: Grid) -> Float[np.ndarray, "m n"]:
    """Twenty laws on the line, each a mixture of six bumps with random masses and places."""
    draws, centres = draw.gamma(0.5, size=(20, 6)), draw.uniform(-2.5, 2.5, size=(20, 6))
    masses = np.exp(-2 * (grid.centres[None, :, 0, None] - centres[:, None]) ** 2) @ draws[:, :, None]
    return masses[..., 0]


def sandwich(energy: Functional, grid: Grid, law: Cloud, best: Gibbs, beta: float) -> tuple[float, float, float]:
    """`beta KL(q | p_q)`, `F(q) − F*` and `beta KL(q | q*)`: each at least the next."""
    weights, goal = np.asarray(law.weights), np.asarray(best.cloud.weights)
    own = local_gibbs(energy, law, temperature=beta)
    middle = free_energy(energy, grid, law, temperature=beta) - best.free_energy
    return beta * relative_entropy(weights, own), middle, beta * relative_entropy(weights, goal)


def holley_stroock(energy: Sum, grid: Grid, path: Float[np.ndarray, "k n"], tau: float, beta: float) -> float:
    """The log-Sobolev rate `tau exp(−osc/beta)`, osc the largest oscillation of the risk's potential along a path."""
    spread = np.ptp([np.asarray(_psi(energy.parts[0], grid.law(weights))) for weights in path], axis=1)
    return float(tau * np.exp(-spread.max() / beta))


@eqx.filter_jit
def _psi(functional, cloud):
    return functional.variation(cloud).potential


def late_rate(times: np.ndarray, gap: np.ndarray) -> float:
    """The rate of a decay, fitted over the decades where it is a pure exponential; nan of too few times."""
    used = (gap < 1e-4 * gap[0]) & (gap > 1e-9 * gap[0])
    return float(-np.polyfit(times[used], np.log(gap[used]), 1)[0]) if used.sum() > 2 else np.nan


def refined(d: int, cells: tuple[int, ...]) -> tuple[np.ndarray, float, float]:
    """Errors of the grid solver over finer and finer cells, dt ∝ their square; the worst mass and the least cell."""
    found = [line_error(m, 24 * (m // 24) ** 2) if d == 1 else box_error(d, m, cells[0]) for m in cells]
    errors, masses, least = map(np.array, zip(*found, strict=True))
    return errors, masses.max(), least.min()


def _attraction(theta, other):
    return jnp.sum((theta - other) ** 2) / 4


def line_error(cells: int, steps: int) -> tuple[float, float, float]:
    """On the line, a spring and attraction to the mean: `m' = −m`, `S' = −2(1 + ½)S + 2 beta`; L1 at t = 0.4."""
    grid, beta, stiffness, end = Grid(-4, 4, cells), 0.4, 1.5, 0.4
    energy = Penalty(1.0) + Pairwise(lambda theta: 0.0 * theta[0], _attraction)
    path = fokker_planck(energy, grid, grid.normal(0.8, 0.5), temperature=beta, dt=end / steps, steps=steps)
    still = beta / stiffness
    variance = still + (0.25 - still) * np.exp(-2 * stiffness * end)
    exact = np.asarray(grid.normal(0.8 * np.exp(-end), np.sqrt(variance)).weights)
    return float(np.abs(path.weights[-1] - exact).sum()), *_health(path)


def box_error(d: int, cells: int, coarsest: int) -> tuple[float, float, float]:
    """In a box, a tilted spring H: mean `exp(−Ht) m`, covariance by `S' = −HS − SH + 2 beta`; moments at t = 0.3."""
    beta, end, start = 0.25, 0.3, np.array([0.5, -0.3, 0.2])[:d]
    spring = (np.diag([1.0, 1.5, 0.8]) + 0.3 * (np.ones((3, 3)) - np.eye(3)))[:d, :d]
    grid, steps = Grid([-3.0] * d, [3.0] * d, [cells] * d), 3 * (cells // coarsest) ** 2
    energy = Penalty(1.0, lambda theta: theta @ jnp.asarray(spring) @ theta / 2)
    path = fokker_planck(energy, grid, grid.normal(start, 0.5), temperature=beta, dt=end / steps, steps=steps)
    weights, places = path.weights[-1], grid.centres
    mean = weights @ places
    spread = (places - mean).T @ ((places - mean) * weights[:, None])
    values, frame = np.linalg.eigh(spring)
    wanted = frame @ np.diag(beta / values + (0.25 - beta / values) * np.exp(-2 * values * end)) @ frame.T
    gaps = np.abs(spread - wanted).max(), np.abs(mean - frame @ np.diag(np.exp(-values * end)) @ frame.T @ start).max()
    return float(sum(gaps)), *_health(path)


def _health(path: GridPath) -> tuple[float, float]:
    return path.mass_error, float(path.weights.min())


def cold_gaps(d: int, temperatures: tuple[float, ...]) -> tuple[list[float], float]:
    """`E(mu_beta) − min E` for bumps in R^d after a target twice one bump at zero, where one atom at zero is optimal.

    Also the certificate that it is.
    """
    axis = np.array([-1.0, 0.0, 1.0])
    xs = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    own = np.exp(-np.sum(xs**2, axis=1) / 2)[:, None]
    energy = Risk(spot(d, 1.0, 0.5), Sample(xs, 2 * own)) + Penalty(0.5)
    grid, value = Grid([-1.6] * d, [1.6] * d, [40] * d), eqx.filter_jit(energy)
    laws = [gibbs(energy, grid, temperature=beta, tolerance=1e-10).cloud for beta in temperatures]
    point = optimality_gap(energy, uniform(np.zeros((1, d))), jnp.asarray(grid.centres))
    return [float(value(law)) - np.mean(own**2) / 2 for law in laws], float(point)


class Bowl(NamedTuple):
    """A quadratic energy, a Gaussian start in the plane, and the rates of transport, growth and noise."""

    energy: QuadraticEnergy
    mean: np.ndarray
    covariance: np.ndarray
    transport: float
    alpha: float
    beta: float

    def moments(self, time: float, step: float | None = None) -> np.ndarray:
        """The five moments in closed form; with `step`, what Euler's method makes of their equations."""
        rates = {"transport": self.transport, "alpha": self.alpha, "beta": self.beta}
        start = self.mean, self.covariance
        means, covariances = gaussian_flow(self.energy, *start, times=np.array([time]), step=step, **rates)
        return _five(means[-1], covariances[-1])


BOWLS = {  # H, b and A, the mean and the covariance of the start; rates. Symmetric matrices are given by three numbers.
    "transport and growth": ((2, 0.4, 0.5), (0.5, -0.5), (0, 0, 0), (1, -1), (0.5, 0.1, 1), 1.0, 1.2, 0.0),
    "noise and interaction": (
        (1, 0.3, 0.8),
        (-0.4, 0.2),
        (0.4, 0.1, -0.2),
        (0.7, 0.9),
        (0.8, -0.2, 0.4),
        1.0,
        0.6,
        0.3,
    ),
    "growth leads": ((1.5, -0.5, 1.2), (0.3, 0.6), (0.2, 0, 0.3), (-0.8, 0.5), (1, 0.3, 0.7), 0.2, 2.0, 0.1),
}


def bowl(name: str) -> Bowl:
    """One of the bowls."""
    H, b, A, mean, covariance, *rates = BOWLS[name]
    H, A, covariance = (np.array([row[:2], row[1:]], float) for row in (H, A, covariance))
    return Bowl(QuadraticEnergy(H, np.array(b, float), A), np.array(mean, float), covariance, *rates)


def planar_moments(clouds: Cloud) -> Float[np.ndarray, "r k"]:
    """The five moments of each cloud of a stack."""
    away = clouds.atoms - clouds.mean()[:, None]
    return _five(clouds.mean(), jnp.einsum("rn,rni,rnj->rij", clouds.weights, away, away))


def _five(mean, covariance) -> np.ndarray:
    return np.concatenate([mean, covariance[..., *np.triu_indices(2)]], axis=-1)


MIXTURE = ((1.0, -2.0, 0.5), (-2.0, 0.0, 1.0), (1.0, 2.0, 0.5))  # coefficient, centre and variance of each part
LINE = 14.0  # the length of the line over which the mixture's risk is integrated, with spectral accuracy


def mixture(xs: Float[np.ndarray, "*b"]) -> Float[np.ndarray, "*b"]:
    """Three Gaussians on the line, the middle one upside down."""
    return np.sum([c * np.exp(-((xs - m) ** 2) / (2 * v)) for c, m, v in MIXTURE], axis=0)


def mixture_risk(points: int = 24) -> Risk:
    """The mean half square to the mixture over equal points of the line; times LINE it is the integral, to 1e-6."""
    xs = ((np.arange(points) + 0.5) / points - 0.5) * LINE
    return Risk(Bump(1, 1, 0.5), Sample(xs[:, None], mixture(xs)[:, None]))


def silent_bumps(key: PRNGKeyArray, n: int) -> Float[Array, "n p"]:
    """Bumps without output, their centres uniform on [−4, 4]."""
    return jnp.stack([jnp.zeros(n), jax.random.uniform(key, (n,), minval=-4.0, maxval=4.0)], axis=1)


DIRECTIONS = 64  # of the neurons on the circle, for the convex programs
RADIUS = 30.0  # more than any norm met here, so that laws on atoms of this size and on zero are all norms below it
NEURON = Neuron(2)


def directions(places: Any) -> Float[np.ndarray, "n 2"]:
    """The directions at these places of the circle, which need not be whole numbers."""
    turns = 2 * np.pi * np.asarray(places) / DIRECTIONS
    return np.stack([np.cos(turns), np.sin(turns)], axis=-1)


def balanced(outputs: Any, ways: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n p"]:
    """Neurons (a, w), |a| = |w|, with these products and directions: ½|θ|² is then |a||w|."""
    size = np.sqrt(np.abs(outputs))[:, None]
    return np.concatenate([np.sign(outputs)[:, None] * size, size * ways], axis=1)


EVEN = directions(np.arange(DIRECTIONS))
TRUTH = uniform(balanced(np.array([5.0, -4.0, 4.0, -3.0]), directions([3, 17, 30, 46])))
NORM = 4.0  # of the truth: the mean of |a||w|
ATOMS = np.concatenate([np.zeros((1, 3)), *(balanced(np.full(DIRECTIONS, a), EVEN) for a in (RADIUS, -RADIUS))])


def even_neurons(draw: np.random.Generator, n: int) -> Cloud:
    """As many neurons of each sign, or one more, in even directions that are turned at random."""
    counts = (n + 1) // 2, n // 2
    even = [DIRECTIONS * (np.arange(count) / max(count, 1) + draw.uniform()) for count in counts]
    return uniform(balanced(np.repeat([1.0, -1.0], counts), directions(np.concatenate(even))))


@eqx.filter_jit
def outputs(cloud: Cloud, xs: Float[Array, "b 2"] | Float[np.ndarray, "b 2"]) -> Float[Array, "b 1"]:
    """The network of neurons on the plane."""
    return network(NEURON, cloud, xs)


def variation_norm(cloud: Cloud) -> float:
    """The total variation norm of a law of balanced neurons, `∫½|θ|² dmu`."""
    return float(cloud.second_moment()) / 2


class Drawn(NamedTuple):
    """L inputs on the circle of radius √2, their noisy labels, and the noise."""

    xs: np.ndarray
    ys: np.ndarray
    noise: np.ndarray

    def inequality(self, best: Cloud, penalty: float) -> tuple[float, float]:
        """Half the mean square error of a minimiser on the sample, and what the oracle inequality allows."""
        loudest = np.abs(np.maximum(self.xs @ EVEN.T, 0).T @ self.noise).max() / len(self.xs)
        error = np.mean((np.asarray(outputs(best, self.xs)) - (self.ys - self.noise)) ** 2) / 2
        return float(error), (penalty + loudest) * NORM + max(loudest - penalty, 0.0) * variation_norm(best)

    def cost_of_draws(self, best: Cloud, n: int) -> float:
        """`(∫U(θ,θ) − ∬U)/2n`: what n draws from a minimiser cost, its neurons all brought to the size of its norm."""
        shares = np.asarray(best.weights)[1:].reshape(2, DIRECTIONS) * RADIUS
        neurons = np.maximum(self.xs @ EVEN.T, 0)
        alone = shares.sum() * np.mean(neurons**2 @ shares.sum(0))
        return float(alone - np.mean((neurons @ (shares[0] - shares[1])) ** 2)) / (2 * n)
