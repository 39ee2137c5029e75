"""Laws on grids against closed forms: Gaussian flows, Gibbs laws, rates; and what may never break."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import gamma

from haarflow.dynamics.diffusion import fokker_planck, relaxation_rate
from haarflow.dynamics.free_energies import free_energy, gibbs, local_gibbs, relative_entropy
from haarflow.dynamics.grids import Grid
from haarflow.dynamics.pairwise import Pairwise
from haarflow.errors import Refusal
from haarflow.learning.risks import Functional, Penalty, Variation

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


WELLS = Pairwise(lambda theta: theta[0] ** 4 / 4 - theta[0] ** 2 / 2, lambda a, b: (a[0] - b[0]) ** 2 / 2)


def desai_zwanzig(beta):
    """For WELLS, Psi = θ⁴/4 − mθ up to a constant, so that m solves one equation: the means, variances, free energies.

    On the line by quadrature; F = E + beta ∫log mu = −m²/2 ... − beta log Z with Psi(θ) = θ⁴/4 − mθ, since
    `E = ∫θ⁴/4 dmu − m²/2` and `beta ∫log mu dmu = −∫θ⁴/4 dmu + m² − beta log Z`.
    """
    x = np.linspace(-4, 4, 8001)

    def law(m):
        density = np.exp(-(x**4 / 4 - m * x) / beta)
        Z = density.sum() * (x[1] - x[0])
        return density / density.sum(), Z

    def gap(m):
        return law(m)[0] @ x - m

    m = float(brentq(gap, 0.5, 1.5, xtol=1e-14))
    rows = []
    for mean in (m, 0.0):
        weights, Z = law(mean)
        rows.append((mean, weights @ (x - mean) ** 2, mean**2 / 2 - beta * np.log(Z)))
    return rows


def test_the_gibbs_law_of_two_wells_is_stable_and_the_saddle_between_is_named():
    """Mean-field attraction in a double well: two laws below the critical temperature, and a saddle in the middle.

    The second variation in the direction θ − m is beta − Var, so the curvature is 1 − Var/beta.
    """
    (mean, variance, free), (_, wide, high) = desai_zwanzig(0.1)
    np.testing.assert_allclose(wide, np.sqrt(0.4) * gamma(0.75) / gamma(0.25), rtol=1e-9)  # ∫θ² exp(−θ⁴/4beta)
    grid = Grid(-3, 3, 200)
    found = gibbs(WELLS, grid, temperature=0.1)
    assert found.stable
    np.testing.assert_allclose(abs(found.cloud.mean()[0]), mean, rtol=1e-4)
    np.testing.assert_allclose(found.free_energy, free, atol=2e-4)
    np.testing.assert_allclose(found.curvature, 1 - variance / 0.1, atol=1e-3)
    mirrored, saddle = found.others
    np.testing.assert_allclose(mirrored.cloud.mean(), -found.cloud.mean(), atol=1e-5)
    assert mirrored.stable
    assert not saddle.stable
    np.testing.assert_allclose(saddle.free_energy, high, atol=2e-4)
    np.testing.assert_allclose(saddle.curvature, 1 - wide / 0.1, atol=1e-3)


def test_a_start_chooses_among_the_laws():
    grid = Grid(-3, 3, 120)
    for side in (-1, 1):
        found = gibbs(WELLS, grid, temperature=0.1, start=grid.normal(0.4 * side, 0.3))
        assert np.sign(found.cloud.mean()[0]) == side
        assert found.stable
    even = gibbs(WELLS, grid, temperature=0.1, start=grid.law(np.ones(120)))
    assert not even.stable
    assert even.others[0].free_energy < even.free_energy - 0.1


def test_the_lower_of_two_tilted_wells_wins_and_the_other_is_listed():
    """The tilt is felt by each particle; every start alone would keep the well it fell into."""
    energy = WELLS + Penalty(0.02, lambda theta: theta[0])
    found = gibbs(energy, Grid(-3, 3, 120), temperature=0.1)
    assert found.cloud.mean()[0] < -0.9
    metastable = next(law for law in found.others if law.stable)
    assert metastable.cloud.mean()[0] > 0.8
    assert metastable.free_energy > found.free_energy + 0.02


@pytest.mark.slow
def test_above_the_critical_temperature_there_is_one_law():
    """It is where Var = beta at m = 0: beta_c = (2 Γ(3/4) / Γ(1/4))² = 0.457."""
    critical = (2 * gamma(0.75) / gamma(0.25)) ** 2
    for factor, stable in ((1.1, True), (0.9, False)):
        grid = Grid(-4, 4, 200)
        found = gibbs(WELLS, grid, temperature=factor * critical, start=grid.law(np.ones(200)))
        assert found.stable == stable
        assert bool(found.others) != stable
        rate = relaxation_rate(WELLS, grid, found.cloud, temperature=factor * critical)
        assert (rate > 0) == stable


def _jacobian_rates(grid, weights, temperature):
    """The spectrum of the flow of WELLS, by differences of its speed along all changes without mass."""
    x, width, n = grid.centres[:, 0], float(grid.widths[0]), len(weights)

    def speed(w):
        rise = np.diff(x**4 / 4 - (w @ x) * x) / temperature
        up, down = rise / np.expm1(rise), -rise / np.expm1(-rise)
        flux = temperature / width**2 * (up * w[:-1] - down * w[1:])
        return np.append(0, flux) - np.append(flux, 0)

    basis = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]  # changes without mass
    bumped = [(speed(weights + h) - speed(weights - h)) / 2e-6 for h in 1e-6 * basis.T]
    return np.sort(np.linalg.eigvals(basis.T @ np.array(bumped).T).real)


@pytest.mark.parametrize("side", [0, 1])
def test_the_rate_is_the_top_of_the_spectrum_without_the_mass(side):
    """At the saddle the flow leaves at 0.504, where the mode of the mass used to be taken for the slowest."""
    grid = Grid(-2.2, 2.2, 60)
    law = gibbs(WELLS, grid, temperature=0.1, start=grid.normal(float(side), 0.4)).cloud
    rate = relaxation_rate(WELLS, grid, law, temperature=0.1)
    np.testing.assert_allclose(rate, -_jacobian_rates(grid, np.asarray(law.weights), 0.1)[-1], rtol=1e-5)
    assert (rate < 0) == (side == 0)


def test_the_saddle_is_left_at_the_rate_of_the_issue():
    grid = Grid(-3, 3, 400)
    even = gibbs(WELLS, grid, temperature=0.1, start=grid.law(np.ones(400)))
    np.testing.assert_allclose(relaxation_rate(WELLS, grid, even.cloud, temperature=0.1), -0.504, atol=2e-4)


@pytest.mark.parametrize("temperature", [0.02, 0.008, 0.002])
def test_slow_rates_are_those_of_eyring_and_kramers_far_below_rounding(temperature):
    """Two wells (θ² − 1)²/4: the rate is `√(2·1)/π exp(−1/4beta)` (1 + O(beta)), down to 1e-55."""
    energy = Penalty(1.0, lambda theta: (theta[0] ** 2 - 1) ** 2 / 4)
    grid = Grid(-2, 2, 300)
    law = gibbs(energy, grid, temperature=temperature).cloud
    stated = np.sqrt(2) / np.pi * np.exp(-0.25 / temperature)
    found = relaxation_rate(energy, grid, law, temperature=temperature)
    assert abs(found / stated - 1) < 3 * temperature


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_a_gibbs_law_goes_with_the_scale_of_its_energy(scale):
    grid = Grid(-3, 3, 100)
    energy = Pairwise(lambda t: scale * (t[0] ** 4 - t[0]), lambda a, b: scale * (a[0] - b[0]) ** 2 / 2)
    plain = Pairwise(lambda t: t[0] ** 4 - t[0], lambda a, b: (a[0] - b[0]) ** 2 / 2)
    found, wanted = gibbs(energy, grid, temperature=0.3 * scale), gibbs(plain, grid, temperature=0.3)
    np.testing.assert_allclose(found.cloud.weights, wanted.cloud.weights, atol=1e-5)
    np.testing.assert_allclose(found.free_energy, scale * wanted.free_energy, rtol=1e-9)


def test_single_precision_finds_the_same_law():
    with jax.enable_x64(False):
        grid = Grid(-3, 3, 100)
        found = gibbs(WELLS, grid, temperature=0.1)
        assert found.cloud.weights.dtype == jnp.float32
        rate = relaxation_rate(WELLS, grid, found.cloud, temperature=0.1)
        low = free_energy(WELLS, grid, found.cloud, temperature=0.1)
    again = gibbs(WELLS, grid, temperature=0.1)
    np.testing.assert_allclose([found.free_energy, low], again.free_energy, atol=1e-7)
    np.testing.assert_allclose(rate, relaxation_rate(WELLS, grid, again.cloud, temperature=0.1), rtol=1e-5)


class Single(Functional):
    """Springs in a tilted bowl that round to float32 whatever they are given."""

    def __call__(self, cloud):
        m = cloud.mean()[0].astype(jnp.float32)
        return cloud.weights.astype(jnp.float32) @ self._alone(cloud) + m**2 / 4

    def _alone(self, cloud):
        theta = cloud.atoms[:, 0].astype(jnp.float32)
        return jnp.cosh(theta) - theta / 2

    def variation(self, cloud):
        theta = cloud.atoms[:, 0].astype(jnp.float32)
        return Variation(self._alone(cloud) + cloud.mean()[0].astype(jnp.float32) * theta / 2, 0 * cloud.atoms)

    @classmethod
    def examples(cls):
        return []


def test_an_energy_in_float32_states_what_float32_can():
    found = gibbs(Single(), LINE, temperature=0.4)
    assert 1e-12 < found.certificates[-1] < 1e-5
    with pytest.raises(Refusal, match=r"above 1.0e-12, and float32 rounds it to .* Write tolerance=") as refusal:
        gibbs(Single(), LINE, temperature=0.4, tolerance=1e-12, most=200)
    advice = float(re.search(r"Write tolerance=(\S+)", str(refusal.value))[1])
    gibbs(Single(), LINE, temperature=0.4, tolerance=advice)


@pytest.mark.parametrize("dt", [0.01, 1.0, 1e4])
def test_the_flow_is_positive_and_of_mass_one_at_any_step(dt):
    grid = Grid((-3, -2), (3, 2), (30, 20))
    energy = Penalty(1.0, lambda theta: 5 * jnp.cos(3 * theta[0]) + theta[1] ** 4)
    masses = np.zeros(600)
    masses[17] = 1.0
    path = fokker_planck(energy, grid, grid.law(masses), temperature=0.1, dt=dt, steps=20, every=5)
    assert path.weights.min() >= 0
    assert path.mass_error < (1e-12 if dt <= 1 else 1e-10)
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


def _infinite(theta):
    return jnp.where(jnp.abs(theta[0]) > 2, jnp.inf, 0.0)


FAR = Grid(20, 30, 200)
BAD = {
    "a word for an end": (lambda: Grid("a", 1, 10), "A Grid's low is an array of real numbers; got 'a'"),
    "a box without end": (lambda: Grid(0, np.inf, 10), "A Grid's high holds finite numbers; got inf"),
    "half a cell": (lambda: Grid(0, 1, 2.5), "A Grid's number of cells is a whole number; got 2.5"),
    "one cell": (lambda: Grid(0, 1, 1), "at least two cells on each; got low=0, high=1, cells=1"),
    "four axes": (lambda: Grid([0] * 4, 1, 4), "A Grid has one to three axes"),
    "no axes": (lambda: Grid([], [], []), "A Grid has one to three axes"),
    "a matrix of ends": (lambda: Grid([[0.0]], 1, 4), "A Grid has one to three axes"),
    "cells below rounding": (lambda: Grid(1e16, 1e16 + 8, 100), "A Grid has one to three axes, low < high"),
    "more cells than memory": (lambda: Grid(0, 1, 10**18), r"A Grid of 10{18} cells would need .* Write fewer cells"),
    "an axis beyond": (lambda: LINE.edges(1), "A Grid of 1 axes counts them from 0; got the axis 1"),
    "masses that are words": (lambda: LINE.law(["a"] * 200), "The masses of a Grid's law is an array of real numbers"),
    "a mass that is none": (lambda: LINE.law(np.full(200, np.nan)), "holds finite numbers; got nan"),
    "no mass": (lambda: LINE.law(np.zeros(200)), "not all zero; got 200 from 0 to 0"),
    "no deviation": (lambda: LINE.normal(0.0, 0.0), "one mean and one deviation > 0"),
    "two means on a line": (lambda: LINE.normal((0.0, 1.0), 1.0), "one mean and one deviation > 0"),
    "a law of another grid": (
        lambda: free_energy(SPRING, LINE, FAR.normal(25.0, 1.0), temperature=0.1),
        "got 200 atoms in R.1 for 200 cells and not their centres",
    ),
    "no functional": (lambda: gibbs(3, LINE, temperature=0.1), "gibbs's functional is a Functional; got 3"),
    "no grid": (
        lambda: gibbs(SPRING, (0, 1), temperature=0.1),
        r"gibbs's grid is a Grid; got a tuple of 2. Write Grid\(",
    ),
    "a temperature in words": (
        lambda: gibbs(SPRING, LINE, temperature="hot"),
        "gibbs's temperature is a finite number",
    ),
    "an overshooting step": (lambda: gibbs(SPRING, LINE, temperature=0.1, damping=1.5), "damping is a finite number"),
    "a tolerance that all meet": (
        lambda: gibbs(SPRING, LINE, temperature=1e-3, tolerance=0.1),
        "tolerance is below its temperature, else every law would pass; got 0.1 at temperature 0.001",
    ),
    "a wall": (
        lambda: gibbs(Penalty(1.0, _infinite), LINE, temperature=0.1),
        "finite on all its cells; got the potential inf at .* Write a smaller box, or a large number for a wall",
    ),
    "a temperature below Psi": (
        lambda: gibbs(SPRING, LINE, temperature=1e-307),
        "Psi over its temperature within float64; got Psi up to",
    ),
    "steps by halves": (
        lambda: fokker_planck(SPRING, LINE, LINE.normal(0.0, 1.0), temperature=0.1, dt=0.1, steps=1.5),
        "fokker_planck's steps is a whole number",
    ),
    "years of steps": (
        lambda: fokker_planck(SPRING, LINE, LINE.normal(0.0, 1.0), temperature=0.1, dt=0.1, steps=10**12),
        "flow of 1000000000000 steps over 200 cells would take .* hours or more; at most 24 are taken",
    ),
    "a record of each of them": (
        lambda: fokker_planck(SPRING, LINE, LINE.normal(0.0, 1.0), temperature=0.1, dt=0.1, steps=10**12, every=1),
        "would need .* of memory; .* Write a larger `every`",
    ),
    "a step beyond float64": (
        lambda: fokker_planck(SPRING, LINE, LINE.normal(0.0, 1.0), temperature=0.1, dt=1e306, steps=1),
        "A Fokker–Planck step keeps the mass; got .* after 1 steps of dt=1e.306",
    ),
    "the rate of a law that moves": (
        lambda: relaxation_rate(SPRING, LINE, LINE.normal(1.0, 1.0), temperature=0.1),
        "belongs to a law that stands still, .*; got .* Write gibbs",
    ),
    "weights of two lengths": (
        lambda: relative_entropy(np.full(4, 0.25), np.full(5, 0.2)),
        r"relative_entropy's others has the shape \(n\) with n = 4",
    ),
    "weights beyond one": (
        lambda: relative_entropy(np.ones(4), np.ones(4)),
        "weights that sum to one; got weights of sum 4",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_has_no_answer_is_refused_in_a_sentence(case):
    call, words = BAD[case]
    with pytest.raises(Refusal, match=words):
        call()


def test_what_people_have_is_welcome():
    grid = Grid(np.float32(-3), [3], np.array([50]))
    wanted = gibbs(SPRING, Grid(-3, 3, 50), temperature=0.5)
    for half in (0.5, np.float64(0.5), np.float32(0.5), jnp.asarray(0.5), np.array(0.5)):
        np.testing.assert_array_equal(gibbs(SPRING, grid, temperature=half).cloud.weights, wanted.cloud.weights)
    np.testing.assert_array_equal(grid.law([1] * 50).weights, grid.law(np.ones(50, np.int8)).weights)
    assert grid.law(np.full(50, 1e308)).weights[0] == grid.law(np.full(50, 5e-324)).weights[0] == 0.02


def test_a_little_noise_is_nearly_none():
    law = LINE.normal(1.0, 0.3)
    still, cold = (fokker_planck(SPRING, LINE, law, temperature=t, dt=0.1, steps=3).weights[-1] for t in (0.0, 1e-305))
    np.testing.assert_allclose(cold, still, atol=1e-14)


def test_refusals():
    with pytest.raises(Refusal, match="A Grid has one to three axes, low < high"):
        Grid(1, 0, 10)
    with pytest.raises(Refusal, match="A law on a Grid of 200 cells takes as many masses >= 0"):
        LINE.law(np.ones(3))
    with pytest.raises(Refusal, match="gibbs's temperature is a finite number > 0; got 0"):
        gibbs(SPRING, LINE, temperature=0.0)
    with pytest.raises(Refusal, match=r"after 1 steps the certificate was .* Write a higher temperature"):
        gibbs(SPRING + Penalty(1.0, lambda theta: theta[0]), LINE, temperature=0.1, most=1)
    with pytest.raises(Refusal, match=r"a law on all cells of its grid; got 100 atoms in R\^1 for 200 cells"):
        fokker_planck(SPRING, LINE, Grid(0, 1, 100).normal(0.5, 1.0), temperature=0.1, dt=0.1, steps=1)
    square = Grid((0, 0), (1, 1), 4)
    with pytest.raises(Refusal, match="A relaxation rate is computed on a line; got a grid with 2 axes"):
        relaxation_rate(SPRING, square, square.law(np.ones(16)), temperature=0.1)
