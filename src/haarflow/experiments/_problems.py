"""Small problems and what is known of them: bumps on the line under noise, neurons on the circle, eight Gaussians.

The first are those of the experiments `langevin` and `fokker-planck`; the best law of the second, which
`generalisation` learns, is a convex program; the last are those of the gains under a group.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.dynamics.free_energies import Gibbs, free_energy, local_gibbs, relative_entropy
from haarflow.dynamics.grids import Grid
from haarflow.learning.risks import Functional, Sum
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.networks import network
from haarflow.models.neurons import Neuron
from haarflow.models.units import Custom
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


CIRCLE = (1, 2, 4, 8)  # the rotations that an estimator of eight Gaussians is told


def ring(draw, n: int, deviation: float):
    """n draws of eight Gaussians on the unit circle."""
    angles = np.pi / 4 * draw.integers(8, size=n)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1) + deviation * draw.normal(size=(n, 2))
