"""Internal energies on grids: every member meets its laws, and closed forms are met: Barenblatt, relaxation, minima."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import haarflow as hf
from haarflow.dynamics.cells import CellEnergy
from haarflow.dynamics.diffusion import fokker_planck
from haarflow.dynamics.free_energies import free_energy, gibbs
from haarflow.dynamics.grids import Grid
from haarflow.dynamics.internal_energies import ChiSquared, ConvexEnergy, Entropy, InternalEnergy, PorousMedium
from haarflow.dynamics.pairwise import Pairwise
from haarflow.dynamics.proximal import mirror_step, quantile_energy, quantile_step
from haarflow.errors import Refusal
from haarflow.learning.risks import Penalty
from haarflow.members import members

LINE = Grid(-2, 2, 40)
BOWL, STILL = Penalty(1.0), Penalty(0.0)
WELLS = Pairwise(lambda theta: theta[0] ** 4 / 4 - theta[0] ** 2 / 2, lambda a, b: (a[0] - b[0]) ** 2 / 2)
ENERGIES = members(InternalEnergy)
NAMES = [f"{type(energy).__name__} {i}" for i, energy in enumerate(ENERGIES)]
every_energy = pytest.mark.parametrize("energy", ENERGIES, ids=NAMES)


def xlogx(r):
    return r * jnp.log(jnp.where(r > 0, r, 1.0))


def falls(functional, grid, weights, energy):
    """The free energies of laws on a grid, one after the other."""
    return [free_energy(functional, grid, hf.Cloud(grid.centres, row), internal=energy) for row in weights]


@every_energy
def test_slope_inverse_and_heat_are_those_of_the_density(energy):
    ratio = np.geomspace(1e-3, 50, 40)
    derivative = jax.vmap(jax.grad(energy.density))(jnp.asarray(ratio))
    np.testing.assert_allclose(energy.slope(ratio), derivative, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(energy.inverse(energy.slope(ratio)), ratio, rtol=1e-9)
    assert (energy.inverse(np.full(40, -1e300)) == 0).all()
    second = jax.vmap(jax.grad(jax.grad(energy.density)))(jnp.asarray(ratio))
    np.testing.assert_allclose(energy.heat(ratio, ratio) * np.ones(40), ratio * second, rtol=1e-6)
    spread = energy.strength * np.sum(ratio * energy.density(1 / (7 * ratio)))
    np.testing.assert_allclose(energy.room(jnp.asarray(ratio), 7), -spread, rtol=1e-12)
    means = energy.heat(ratio[:-1], ratio[1:]) * np.diff(np.log(ratio))
    np.testing.assert_allclose(means, np.diff(energy.slope(ratio)), rtol=1e-9)


@every_energy
def test_a_levelled_row_is_a_law_and_its_certificate_the_gap_to_the_best_law(energy):
    cells = CellEnergy(energy, np.full(40, 0.1))
    potential = np.sin(np.arange(40.0))[None]
    best = cells.weights(cells.answers(potential))
    np.testing.assert_allclose(best.sum(1), 1, rtol=1e-13)
    other = np.exp(-(np.linspace(-2, 2, 40) ** 2))[None] / np.exp(-(np.linspace(-2, 2, 40) ** 2)).sum()
    gap = cells.gaps(other, cells.answers(potential))
    apart = (other - best) @ potential[0] + cells.value(other) - cells.value(best)
    np.testing.assert_allclose(gap, apart, rtol=1e-9)
    assert gap > 0


@every_energy
@pytest.mark.parametrize("dt", [0.1, 1e3])
def test_the_flow_is_positive_keeps_its_mass_and_descends_at_any_step(energy, dt):
    """From all mass in one cell: nearly every other cell is empty, and has a temperature all the same."""
    masses = np.zeros(40)
    masses[7] = 1.0
    path = fokker_planck(WELLS, LINE, LINE.law(masses), internal=energy, dt=dt, steps=12, every=1)
    assert path.weights.min() >= 0
    assert path.mass_error < (1e-12 if dt <= 1 else 1e-10)
    assert np.diff(falls(WELLS, LINE, path.weights, energy)).max() < 1e-11


@every_energy
def test_the_flow_rests_at_the_law_of_least_free_energy(energy):
    best = gibbs(BOWL, LINE, internal=energy)
    assert best.certificates[-1] <= 1e-12
    assert best.stable
    rest = fokker_planck(BOWL, LINE, best.cloud, internal=energy, dt=0.3, steps=10)
    np.testing.assert_allclose(rest.weights[-1], best.cloud.weights, atol=1e-12)
    end = fokker_planck(BOWL, LINE, LINE.normal(0.7, 0.3), internal=energy, dt=2.0, steps=60).weights[-1]
    np.testing.assert_allclose(end, best.cloud.weights, atol=1e-7)
    np.testing.assert_allclose(best.free_energy, falls(BOWL, LINE, [end], energy)[0], atol=1e-10)


@every_energy
def test_mirror_steps_descend_to_the_same_law(energy):
    """Their equation is met, and the fixed point is that of `gibbs`."""
    law, best = LINE.normal(0.4, 0.4), gibbs(BOWL, LINE, internal=energy)
    step = mirror_step(BOWL, law, tau=0.3, internal=energy, grid=LINE)
    masses = np.full(40, LINE.volume) if energy.reference is None else np.asarray(energy.reference.weights)
    old, new = np.asarray(law.weights), np.asarray(step.weights)
    left = LINE.centres[:, 0] ** 2 / 2 + float(energy.strength) * energy.slope(new / masses) + np.log(new / old) / 0.3
    assert np.ptp(left[new > 1e-12]) < 1e-7
    again = mirror_step(BOWL, best.cloud, tau=0.3, internal=energy, grid=LINE)
    np.testing.assert_allclose(again.weights, best.cloud.weights, atol=1e-9)


def barenblatt(m, d, time):
    """The solution of `u' = Δu^m` from a point in R^d, of mass one: a function of |x|² and the radius of its edge."""
    alpha = d / (d * (m - 1) + 2)
    k = alpha * (m - 1) / (2 * m * d)
    sphere = {1: 2.0, 2: 2 * np.pi}[d]
    mass = quad(lambda r: sphere * r ** (d - 1) * (1 - r**2) ** (1 / (m - 1)), 0, 1)[0]
    C = (k ** (d / 2) / mass) ** (1 / (1 / (m - 1) + d / 2))
    spread = time ** (alpha / d)

    def density(x2):
        return time**-alpha * np.maximum(C - k * x2 / spread**2, 0) ** (1 / (m - 1))

    return density, np.sqrt(C / k) * spread


@pytest.mark.parametrize("m", [1.5, 2.0, 3.0])
def test_the_porous_medium_spreads_by_the_profile_of_barenblatt(m):
    """From time 1 to 2, twice as fine: the error in total variation is small and falls at least like the cells."""
    errors = []
    for cells in (60, 120):
        grid, steps = Grid(-4, 4, cells), cells
        x2 = np.sum(grid.centres**2, axis=1)
        begun, ended = (barenblatt(m, 1, time)[0](x2) * grid.volume for time in (1.0, 2.0))
        path = fokker_planck(STILL, grid, grid.law(begun), internal=PorousMedium(m), dt=1 / steps, steps=steps)
        errors.append(np.abs(path.weights[-1] - ended).sum() / 2)
        edge = np.abs(grid.centres[path.weights[-1] > 1e-6, 0]).max()
        assert abs(edge - barenblatt(m, 1, 2.0)[1]) < 3 * grid.widths[0]
    assert errors[1] < {1.5: 1e-3, 2.0: 1.5e-3, 3.0: 4e-3}[m]
    assert errors[1] < 0.62 * errors[0]


def test_the_profile_in_the_plane_too():
    grid = Grid((-3, -3), (3, 3), (48, 48))
    x2 = np.sum(grid.centres**2, axis=1)
    begun, ended = (barenblatt(2.0, 2, time)[0](x2) * grid.volume for time in (1.0, 2.0))
    path = fokker_planck(STILL, grid, grid.law(begun), internal=PorousMedium(2.0), dt=0.05, steps=20)
    assert np.abs(path.weights[-1] - ended).sum() / 2 < 0.02


@pytest.mark.parametrize("m", [1.5, 3.0])
def test_a_bowl_holds_the_porous_medium_in_a_profile_of_barenblatt(m):
    """`u = ((m − 1)/m (λ − x²/2))₊^{1/(m−1)}`, λ from the mass."""
    grid = Grid(-3, 3, 600)
    found = gibbs(BOWL, grid, internal=PorousMedium(m))
    dense, edge = np.asarray(found.cloud.weights) / grid.volume, None
    x = grid.centres[:, 0]
    slopes = m / (m - 1) * dense ** (m - 1) + x**2 / 2
    level = slopes[dense > 0]
    assert np.ptp(level) < 1e-12
    edge = np.sqrt(2 * level.mean())
    mass = quad(lambda x: ((m - 1) / m * (edge**2 - x**2) / 2) ** (1 / (m - 1)), -edge, edge)[0]
    np.testing.assert_allclose(mass, 1, rtol=2e-4)
    assert (dense[np.abs(x) > edge + grid.widths[0]] == 0).all()


def test_attraction_breaks_the_symmetry_of_the_porous_medium():
    """Two laws and a saddle, as with noise; the curvature at the saddle is `1 − ∫(x − m)² dx / (2 strength)` for m = 2.

    The second variation in the direction h is `2 strength ∫h² − (∫x h)²`, least at h ∝ x on the support.
    """
    grid = Grid(-2, 2, 60)
    found = gibbs(WELLS, grid, internal=PorousMedium(2.0, strength=0.1))
    (mirrored, saddle) = found.others
    np.testing.assert_allclose(abs(found.cloud.mean()[0]), abs(mirrored.cloud.mean()[0]), rtol=1e-4)
    assert (found.stable, mirrored.stable, saddle.stable) == (True, True, False)
    for law in (found, saddle):
        x = grid.centres[np.asarray(law.cloud.weights) > 0, 0]
        spread = np.sum((x - x.mean()) ** 2) * grid.volume
        np.testing.assert_allclose(law.curvature, 1 - spread / 0.2, rtol=1e-6)


def test_chi_squared_decays_along_its_flow_at_four_pi_squared():
    """`r' = 2 Δr` near an even reference on [0, 1]: the slowest mode falls like exp(−2π²t), chi² twice as fast."""
    grid = Grid(0, 1, 80)
    even = grid.law(np.ones(80))
    energy = ChiSquared(even)
    start = grid.law(1 + 1e-3 * np.cos(np.pi * grid.centres[:, 0]))
    path = fokker_planck(STILL, grid, start, internal=energy, dt=1e-4, steps=200, every=200)
    first, last = falls(STILL, grid, path.weights, energy)
    np.testing.assert_allclose(first, 5e-7, rtol=1e-9)
    np.testing.assert_allclose(np.log(first / last) / 0.02, 4 * np.pi**2, rtol=2e-3)


def test_chi_squared_falls_to_its_reference_and_dissipates_as_it_should():
    """`d/dt chi² = −∫|∇2r|² dmu`, by differences between cells, with their mean mass."""
    grid = Grid(-3, 3, 150)
    goal, energy = grid.normal(0.0, 1.0), ChiSquared(grid.normal(0.0, 1.0), strength=0.5)
    start = grid.normal(0.6, 0.7)
    path = fokker_planck(STILL, grid, start, internal=energy, dt=1e-4, steps=2, every=1)
    values = falls(STILL, grid, path.weights, energy)
    middle = path.weights[1]
    slope = np.diff(middle / np.asarray(goal.weights)) / grid.widths[0]
    rate = -np.sum(slope**2 * (middle[1:] + middle[:-1]) / 2)
    np.testing.assert_allclose((values[2] - values[0]) / 2e-4, rate, rtol=3e-3)
    end = fokker_planck(STILL, grid, start, internal=energy, dt=1.0, steps=60).weights[-1]
    np.testing.assert_allclose(end, goal.weights, atol=1e-9)
    np.testing.assert_allclose(gibbs(STILL, grid, internal=energy).cloud.weights, goal.weights, atol=1e-13)


@pytest.mark.slow
def test_an_own_energy_that_is_the_entropy_is_the_entropy():
    own, law = ConvexEnergy(xlogx, strength=0.3), LINE.normal(0.4, 0.5)
    options = {"dt": 0.1, "steps": 5}
    np.testing.assert_allclose(
        fokker_planck(WELLS, LINE, law, internal=own, **options).weights,
        fokker_planck(WELLS, LINE, law, temperature=0.3, **options).weights,
        rtol=1e-9,
    )
    ours, usual = gibbs(BOWL, LINE, internal=own), gibbs(BOWL, LINE, temperature=0.3)
    np.testing.assert_allclose(ours.cloud.weights, usual.cloud.weights, rtol=1e-11)
    np.testing.assert_allclose([ours.free_energy, ours.curvature], [usual.free_energy, usual.curvature], rtol=1e-11)
    quantiles = np.linspace(-1, 1.5, 20)
    np.testing.assert_allclose(
        quantile_energy(WELLS, quantiles, internal=own), quantile_energy(WELLS, quantiles, temperature=0.3), rtol=1e-12
    )
    np.testing.assert_allclose(
        mirror_step(WELLS, law, tau=0.2, internal=own, grid=LINE).weights,
        mirror_step(WELLS, law, tau=0.2, temperature=0.3).weights,
        rtol=1e-10,
    )


def test_quantile_steps_follow_barenblatt_on_the_line():
    """Its quantiles all grow like t^(1/3) for m = 2; steps of tau are of first order, n quantiles within 1/n."""
    density, edge = barenblatt(2.0, 1, 1.0)
    fine = np.linspace(-edge, edge, 20_001)
    levels = np.cumsum(density(fine**2))
    start = np.interp((np.arange(60) + 0.5) / 60, levels / levels[-1], fine)
    found = start
    for _ in range(10):
        found = quantile_step(STILL, found, internal=PorousMedium(2.0), tau=0.1)
    np.testing.assert_allclose(found[[5, 15, 45]] / start[[5, 15, 45]], 2 ** (1 / 3), rtol=0.01)


BAD = {
    "neither": (
        lambda: free_energy(BOWL, LINE, LINE.normal(0, 1)),
        "free_energy takes a temperature, or .* got neither",
    ),
    "both": (
        lambda: gibbs(BOWL, LINE, temperature=0.1, internal=PorousMedium(2.0)),
        r"gibbs takes a temperature, or an internal energy .* got both. Write temperature=0.1, or internal=",
    ),
    "a number for an energy": (
        lambda: gibbs(BOWL, LINE, internal=2.0),
        r"gibbs's internal is an InternalEnergy; got 2.0. Write PorousMedium\(2.0\)",
    ),
    "fast diffusion": (
        lambda: PorousMedium(0.5),
        "an exponent m > 1.*; got 0.5. .* fast diffusion, m < 1, has no scheme",
    ),
    "diffusion": (lambda: PorousMedium(1.0), "or a temperature for m = 1"),
    "no strength": (lambda: gibbs(BOWL, LINE, internal=PorousMedium(2.0, strength=0.0)), "within float64"),
    "a negative strength": (
        lambda: PorousMedium(2.0, strength=-1.0),
        "A PorousMedium's strength is a finite number >= 0",
    ),
    "a reference elsewhere": (
        lambda: free_energy(BOWL, LINE, LINE.normal(0, 1), internal=ChiSquared(Grid(0, 1, 40).normal(0.5, 0.2))),
        "The reference of a ChiSquared takes a law on all cells of its grid",
    ),
    "a reference with holes": (
        lambda: free_energy(BOWL, LINE, LINE.normal(0, 1), internal=ChiSquared(LINE.law(np.arange(40.0)))),
        "The reference of a ChiSquared has mass in all cells; got 1 without",
    ),
    "a concave function": (lambda: ConvexEnergy(lambda r: -(r**2)), "strictly convex; got none of it at the density"),
    "a line": (lambda: ConvexEnergy(lambda r: 2 * r), "strictly convex"),
    "a wall at nothing": (lambda: ConvexEnergy(lambda r: -jnp.log(r)), "has a value at 0 and slopes above"),
    "an own fast diffusion": (
        lambda: ConvexEnergy(lambda r: -jnp.sqrt(r + 1e-30)),
        "presses little where there is nearly",
    ),
    "a function of another shape": (
        lambda: ConvexEnergy(jnp.sum),
        r"densities \(n,\) to as many numbers; got an array",
    ),
    "a function of words": (lambda: ConvexEnergy(lambda r: "three"), "to as many numbers; got an error"),
    "quantiles with a reference": (
        lambda: quantile_energy(BOWL, [0.0, 1.0], internal=ChiSquared(LINE.normal(0, 1))),
        "quantile_energy takes internal energies of volume; got a ChiSquared with a law",
    ),
    "a mirror without a grid": (
        lambda: mirror_step(BOWL, LINE.normal(0, 1), tau=0.1, internal=PorousMedium(2.0)),
        "A mirror step with a PorousMedium is one of laws on a Grid; got none. Write grid=grid",
    ),
}


@pytest.mark.parametrize(("act", "sentence"), [*BAD.values()], ids=[*BAD])
def test_refusals(act, sentence):
    with pytest.raises(Refusal, match=sentence):
        act()


def test_single_precision_does_not_round_the_temperature():
    law, usual = LINE.normal(0.4, 0.5), free_energy(BOWL, LINE, LINE.normal(0.4, 0.5), temperature=0.1)
    with jax.enable_x64(False):
        np.testing.assert_allclose(free_energy(BOWL, LINE, law, temperature=0.1), usual, rtol=1e-12)
        assert Entropy(strength=0.1).strength.dtype == jnp.float32
