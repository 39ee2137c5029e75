"""Proximal steps against each other: closed form, quantiles, entropic transport; and mirror descent."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtri

from haarflow.dynamics.grids import Grid
from haarflow.dynamics.pairwise import Pairwise
from haarflow.dynamics.proximal import (
    entropic_step,
    gaussian_step,
    grid_quantiles,
    mirror_step,
    quantile_energy,
    quantile_step,
)
from haarflow.errors import Refusal
from haarflow.learning.risks import Penalty
from haarflow.measures.clouds import Cloud

LINE = Grid(-3, 3, 120)


@pytest.mark.parametrize("tau", [0.05, 0.7])
def test_the_closed_form_minimises_its_own_objective(tau):
    m, s = gaussian_step(0.9, 0.4, stiffness=1.7, temperature=0.3, tau=tau)

    def objective(mean, deviation):
        distance = (mean - 0.9) ** 2 + (deviation - 0.4) ** 2
        return 1.7 * (mean**2 + deviation**2) / 2 - 0.3 * np.log(deviation) + distance / (2 * tau)

    steps = [(h, 0.0) for h in (-1e-4, 1e-4)] + [(0.0, h) for h in (-1e-4, 1e-4)]
    assert all(objective(m + a, s + b) > objective(m, s) for a, b in steps)


def test_without_noise_a_quantile_is_one_particle_in_its_own_proximal_step():
    """Penalty(h): x⁺ = x / (1 + tau h), to the solver's tolerance."""
    start = np.array([-1.0, 0.2, 0.5, 2.0])
    moved = quantile_step(Penalty(2.0), start, temperature=0.0, tau=0.3)
    np.testing.assert_allclose(moved, start / 1.6, atol=1e-9)


def test_a_quantile_step_lowers_the_energy_by_at_least_its_distance():
    energy = Pairwise(lambda theta: jnp.sum((theta**2 - 1) ** 2), lambda a, b: jnp.sum((a - b) ** 2) / 5)
    start = np.linspace(-0.5, 1.4, 30)
    moved = quantile_step(energy, start, temperature=0.2, tau=0.1)
    before, after = (float(quantile_energy(energy, x, temperature=0.2)) for x in (start, moved))
    assert after + np.mean((moved - start) ** 2) / 0.2 <= before
    assert (np.diff(moved) > 0).all()


@pytest.mark.parametrize("cells", [200, 300])
@pytest.mark.parametrize("tau", [0.02, 1.0])
def test_entropic_steps_end_where_two_wells_and_transport_agree(cells, tau):
    """At every default blur: the end is the minimiser of its own problem, seen by quantile steps and by the energy.

    A potential of 64 at the ends of the box against a blur of 0.03 underflows every plan that is not logarithmic.
    """
    energy, grid = Penalty(1.0, lambda theta: (theta[0] ** 2 - 1) ** 2), Grid(-3, 3, cells)
    moved = entropic_step(energy, grid, grid.normal(0.7, 0.5), temperature=0.3, tau=tau)
    start = 0.7 + 0.5 * ndtri((np.arange(80) + 0.5) / 80)
    exact = quantile_step(energy, start, temperature=0.3, tau=tau)
    weights, places = np.asarray(moved.weights), grid.centres[:, 0]
    np.testing.assert_allclose(weights @ places, exact.mean(), atol=0.03)
    np.testing.assert_allclose(weights @ places**2, np.mean(exact**2), atol=0.04)


def test_entropic_steps_from_a_single_cell():
    """All mass in one cell: a Gaussian step without deviation, up to the cell's width."""
    masses = np.zeros(120)
    masses[80] = 1.0
    moved = entropic_step(Penalty(1.0), LINE, LINE.law(masses), temperature=0.4, tau=0.1)
    m, s = gaussian_step(LINE.centres[80, 0], 0.0, stiffness=1.0, temperature=0.4, tau=0.1)
    weights, places = np.asarray(moved.weights), LINE.centres[:, 0]
    np.testing.assert_allclose(weights @ places, m, rtol=1e-3)
    np.testing.assert_allclose(np.sqrt(weights @ (places - weights @ places) ** 2), s, rtol=2e-2)


def test_following_the_advice_of_an_entropic_step_helps():
    energy, law = Penalty(1.0, lambda theta: (theta[0] ** 2 - 1) ** 2), LINE.normal(0.0, 1.0)

    def refused(**settings):
        with pytest.raises(Refusal) as found:
            entropic_step(energy, LINE, law, temperature=0.1, **settings)
        return str(found.value)

    said = refused(tau=0.01, blur=0.2)
    blur, tau = (float(re.search(rf"{name}=([\d.e-]+\d)", said)[1]) for name in ("blur", "tau"))
    fine = Grid(-3, 3, int(np.ceil(6 / blur)))
    entropic_step(energy, fine, fine.normal(0.0, 1.0), temperature=0.1, tau=0.01, blur=blur)
    entropic_step(energy, LINE, law, temperature=0.1, tau=tau, blur=0.2)
    assert "Write more `iterations`, or a larger `blur`" in refused(tau=0.1, iterations=4)
    entropic_step(energy, LINE, law, temperature=0.1, tau=0.1, iterations=40)
    entropic_step(energy, LINE, law, temperature=0.1, tau=0.1, iterations=4, blur=0.14)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_a_quantile_step_goes_with_the_scale_of_its_law(scale):
    start = np.array([-1.0, 0.2, 0.5, 2.0])
    moved = quantile_step(Penalty(2.0), scale * start, temperature=0.3 * scale**2, tau=0.3)
    wanted = quantile_step(Penalty(2.0), start, temperature=0.3, tau=0.3)
    np.testing.assert_allclose(moved / scale, wanted, atol=1e-5)


def test_single_precision_makes_the_same_steps():
    start, law = np.linspace(-0.5, 1.4, 12), LINE.normal(0.7, 0.5)
    wanted = quantile_step(Penalty(1.0), start, temperature=0.2, tau=0.1)
    end = np.asarray(entropic_step(Penalty(1.0), LINE, law, temperature=0.4, tau=0.1).weights)
    with jax.enable_x64(False):
        moved = quantile_step(Penalty(1.0), start.astype(np.float32), temperature=0.2, tau=0.1)
        single = Cloud(np.asarray(law.atoms, np.float32), np.asarray(law.weights, np.float32))
        again = np.asarray(entropic_step(Penalty(1.0), LINE, single, temperature=0.4, tau=0.1).weights)
    np.testing.assert_allclose(moved, wanted, atol=1e-7)
    np.testing.assert_allclose(again, end, atol=1e-7)


def test_entropic_steps_have_the_moments_of_the_closed_form():
    """To 1e-4, with a blur of 0.06: without its correction the blur alone would add 1e-3 to the deviation."""
    moved = entropic_step(Penalty(1.0), LINE, LINE.normal(0.7, 0.5), temperature=0.4, tau=0.1, blur=0.06)
    spread = np.sqrt(0.25 + LINE.widths[0] ** 2 / 12)  # of a normal law cut into cells
    m, s = gaussian_step(0.7, spread, stiffness=1.0, temperature=0.4, tau=0.1)
    places, weights = LINE.centres[:, 0], np.asarray(moved.weights)
    np.testing.assert_allclose(weights @ places, m, rtol=1e-4)
    np.testing.assert_allclose(np.sqrt(weights @ (places - weights @ places) ** 2), s, rtol=2e-4)
    np.testing.assert_allclose(grid_quantiles(LINE, weights, 3), m + s * np.array([-0.9674, 0, 0.9674]), atol=0.02)


def test_a_mirror_step_is_the_replicator_and_knows_its_temperature():
    cloud = Cloud(np.array([[1.0], [2.0], [3.0]]), np.array([0.2, 0.3, 0.5]))
    plain = np.array([0.2, 0.3, 0.5]) * np.exp(-0.7 * np.array([0.5, 2.0, 4.5]))
    np.testing.assert_allclose(mirror_step(Penalty(1.0), cloud, tau=0.7).weights, plain / plain.sum(), rtol=1e-12)
    warm = plain ** (1 / (1 + 0.7 * 2.0))
    found = mirror_step(Penalty(1.0), cloud, tau=0.7, temperature=2.0).weights
    np.testing.assert_allclose(found, warm / warm.sum(), rtol=1e-12)


def test_refusals():
    with pytest.raises(Refusal, match="A quantile step takes two or more increasing numbers"):
        quantile_step(Penalty(1.0), np.array([1.0, 0.0]), temperature=0.1, tau=0.1)
    with pytest.raises(Refusal, match="entropic_step's tau is a finite number > 0; got -1"):
        entropic_step(Penalty(1.0), LINE, LINE.normal(0.0, 1.0), temperature=0.1, tau=-1.0)
    with pytest.raises(Refusal, match=r"blur is below sqrt\(2 · tau · temperature\) = 0.141; got 0.2"):
        entropic_step(Penalty(1.0), LINE, LINE.normal(0.0, 1.0), temperature=0.1, tau=0.1, blur=0.2)
    with pytest.raises(Refusal, match="An entropic step ends where its plan does; after 2 iterations"):
        entropic_step(Penalty(1.0), LINE, LINE.normal(0.0, 1.0), temperature=0.1, tau=0.1, iterations=2)
    with pytest.raises(Refusal, match="Quantiles belong to a line; got a grid with 2 axes"):
        grid_quantiles(Grid((0, 0), (1, 1), 2), np.full(4, 0.25), 3)
    with pytest.raises(Refusal, match=r"1 \+ tau · stiffness > 0, else it has no end; got .*stiffness=-3"):
        gaussian_step(0.0, 1.0, stiffness=-3.0, temperature=0.1, tau=1.0)
