"""ReLU students on the sphere, before training: starts and teachers."""

import jax
import numpy as np

from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.units import Custom


def unit_vectors(draw: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform on the sphere of radius one, in the last axis."""
    ways = draw.normal(size=shape)
    return ways / np.linalg.norm(ways, axis=-1, keepdims=True)


def students(draw: np.random.Generator, runs: int, n: int, d: int) -> np.ndarray:
    """Starts (runs, n, 1 + d): outputs N(0, 1), directions uniform on the sphere."""
    return np.concatenate([draw.normal(size=(runs, n, 1)), unit_vectors(draw, (runs, n, d))], axis=-1)


def teacher(draw: np.random.Generator, outputs: np.ndarray, d: int) -> Cloud:
    """A teacher of units with these outputs and directions uniform on the sphere."""
    return uniform(np.column_stack([outputs, unit_vectors(draw, (len(outputs), d))]))


def smooth_starts(draw: np.random.Generator, pairs: int, d: int) -> np.ndarray:
    """The law of the students by 2 · pairs particles (a, s, r), s two known directions: scrambled Sobol points.

    `|s|²` of a uniform direction has the law Beta(1, d/2 − 1), and outputs come in both signs.
    """
    from scipy.stats import norm, qmc

    u, v, angle = qmc.Sobol(3, rng=draw).random(pairs).T
    square = 1 - (1 - u) ** (2 / (d - 2))
    known = np.sqrt(square)[:, None] * np.stack([np.cos(2 * np.pi * angle), np.sin(2 * np.pi * angle)], axis=1)
    ways = np.column_stack([known, np.sqrt(1 - square)])
    return np.concatenate([np.column_stack([sign * norm.ppf(v), ways]) for sign in (1, -1)])


def neuron(d: int) -> Custom:
    """The unit `a relu(<w, x>)` without a bias: theta is (a, w)."""
    return Custom(_neuron, d + 1, d, 1, _beside)


def _neuron(theta, x):
    return theta[:1] * jax.nn.relu(theta[1:] @ x)


def _beside(on_x, on_y):
    return on_y + on_x


def one_neuron(d: int) -> Cloud:
    """The teacher `relu(x₁)`, as a cloud of one particle (a, w)."""
    return uniform(np.eye(1, d + 1) + np.eye(1, d + 1, 1))
