"""Laws on grids against closed forms: Gaussian flows, Gibbs laws, rates; and what may never break."""

import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.dynamics.grids import (
    Grid,
    fokker_planck,
    free_energy,
    gibbs,
    local_gibbs,
    relative_entropy,
    relaxation_rate,
)
from haarflow.dynamics.limits import Pairwise
from haarflow.errors import Refusal
from haarflow.learning.risks import Penalty

LINE = Grid(-5, 5, 200)


def attraction(a, b):
    return jnp.sum((a - b) ** 2) / 4


SPRING = Penalty(0.8) + Pairwise(lambda theta: 0.0 * theta[0], attraction)  # Psi'' = 0.8 + 0.5


def test_a_grid_numbers_its_cells_row_by_row():
    grid = Grid((0, -1), (1, 2), (2, 3))
    np.testing.assert_allclose(grid.centres[:4], [[0.25, -0.5], [0.25, 0.5], [0.25, 1.5], [0.75, -0.5]])
    assert grid.volume == 0.5
    law = Grid((-4, -5), (4, 5), (80, 50)).normal((0.3, -0.2), (0.5, 0.9))
    np.testing.assert_allclose(law.mean(), [0.3, -0.2], atol=1e-3)


def test_the_gibbs_law_of_springs_is_normal():
    """mu ∝ exp(−(0.8 θ²/2 + ∫(θ − θ')²/4 dmu)/beta): centred, of variance beta / 1.3."""
    found = gibbs(SPRING, LINE, temperature=0.4)
    weights, places = np.asarray(found.cloud.weights), LINE.centres[:, 0]
    np.testing.assert_allclose(weights @ places**2, 0.4 / 1.3, rtol=1e-6)
    assert found.certificates[-1] <= 1e-12
    best = free_energy(SPRING, LINE, found.cloud, temperature=0.4)
    np.testing.assert_allclose(best, found.free_energy, rtol=1e-12)


def test_a_convex_free_energy_lies_between_its_relative_entropies():
    """U = θθ'/2 is convex in the law (attraction is not); at a law of mean m the two gaps are 13m²/32 and m²/4."""
    energy = Penalty(0.8) + Pairwise(lambda theta: 0.0 * theta[0], lambda a, b: jnp.sum(a * b) / 2)
    best, other = gibbs(energy, LINE, temperature=0.4), LINE.normal(0.4, 0.7)
    np.testing.assert_allclose(np.asarray(best.cloud.weights) @ LINE.centres[:, 0] ** 2, 0.4 / 0.8, rtol=1e-5)
    above = free_energy(energy, LINE, other, temperature=0.4) - best.free_energy
    outer, inner = local_gibbs(energy, other, temperature=0.4), np.asarray(best.cloud.weights)
    ceiling, floor = (0.4 * relative_entropy(np.asarray(other.weights), law) for law in (outer, inner))
    np.testing.assert_allclose([ceiling - above, above - floor], np.array([13 / 32, 1 / 4]) * 0.4**2, rtol=1e-3)


def test_cold_springs_relax_at_their_own_rate():
    """The mean relaxes at 0.8, untouched by attraction; the variance at 2·1.3: the slowest is the mean."""
    law = gibbs(SPRING, LINE, temperature=0.4).cloud
    np.testing.assert_allclose(relaxation_rate(SPRING, LINE, law, temperature=0.4), 0.8, rtol=2e-3)


@pytest.mark.parametrize("dt", [0.01, 1.0, 1e4])
def test_the_flow_is_positive_and_of_mass_one_at_any_step(dt):
    grid = Grid((-3, -2), (3, 2), (30, 20))
    energy = Penalty(1.0, lambda theta: 5 * jnp.cos(3 * theta[0]) + theta[1] ** 4)
    masses = np.zeros(600)
    masses[17] = 1.0
    path = fokker_planck(energy, grid, grid.law(masses), temperature=0.1, dt=dt, steps=20, every=5)
    assert path.weights.min() >= 0
    assert path.drift < (1e-12 if dt <= 1 else 1e-10)
    np.testing.assert_allclose(path.weights.sum(1), 1, rtol=0, atol=1e-14)
    np.testing.assert_allclose(path.times, dt * np.arange(0, 21, 5))


def test_the_flow_rests_at_the_gibbs_law_in_three_dimensions():
    grid = Grid([-2.0] * 3, [2.0] * 3, [8, 9, 10])
    energy = Penalty(1.0, lambda theta: theta @ theta + theta[0] * theta[1] - theta[2])
    law = gibbs(energy, grid, temperature=0.5).cloud
    path = fokker_planck(energy, grid, law, temperature=0.5, dt=0.3, steps=10)
    np.testing.assert_allclose(path.weights[-1], law.weights, rtol=1e-10)


def test_without_noise_mass_runs_downhill():
    path = fokker_planck(Penalty(1.0), LINE, LINE.normal(2.0, 0.2), temperature=0.0, dt=0.01, steps=100)
    np.testing.assert_allclose(path.weights[-1] @ LINE.centres[:, 0], 2 * np.exp(-1), rtol=0.03)


def test_refusals():
    with pytest.raises(Refusal, match="A Grid has one to three axes, low < high"):
        Grid(1, 0, 10)
    with pytest.raises(Refusal, match="A law on a Grid of 200 cells takes as many masses >= 0"):
        LINE.law(np.ones(3))
    with pytest.raises(Refusal, match="A Gibbs law's temperature is a finite number > 0; got 0"):
        gibbs(SPRING, LINE, temperature=0.0)
    with pytest.raises(Refusal, match=r"after 1 steps the certificate was .* Write a higher temperature"):
        gibbs(SPRING + Penalty(1.0, lambda theta: theta[0]), LINE, temperature=0.1, most=1)
    with pytest.raises(
        Refusal, match="a law on all cells of its grid; got temperature 0.1 and 100 atoms for 200 cells"
    ):
        fokker_planck(SPRING, LINE, Grid(0, 1, 100).normal(0.5, 1.0), temperature=0.1, dt=0.1, steps=1)
    square = Grid((0, 0), (1, 1), 4)
    with pytest.raises(Refusal, match="A relaxation rate is computed on a line; got a grid with 2 axes"):
        relaxation_rate(SPRING, square, square.law(np.ones(16)), temperature=0.1)
