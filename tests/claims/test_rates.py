"""The exponents: their verdicts see planted ones, and one small part runs for every optimiser."""

import jax
import numpy as np
import pytest

from haarflow.experiments import _published as published
from haarflow.experiments import rates
from haarflow.experiments.rates import EXACT, QUANTITIES, SWEEPS, THEORY, Rates
from haarflow.learning.data import Sample, Teacher
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.units import Dense
from haarflow.runs import design, judge, style
from haarflow.runs.experiment import Data, named

SMALL = Rates(
    settings=("sigmoid SGD", "relu SGD"),
    sizes=(4, 8, 16),
    particles=8,
    batches=(2, 4),
    batch=4,
    repetitions=4,
    inputs=20,
)


GRIDS = {"n": SMALL.sizes, "step": rates.SHARES, "batch": SMALL.batches}


@pytest.fixture
def data():
    """What theory says a run finds, to be spoilt: power laws times a number for each repetition."""
    draw, found = np.random.default_rng(0), {}
    for place, (sweep, grid) in enumerate(GRIDS.items()):
        powers = [THEORY.get(quantity, (0.5,) * 3)[place] or 0.0 for quantity in QUANTITIES]
        scatter = draw.lognormal(0.0, 0.1, (2, 1, 4, len(QUANTITIES)))
        laws = scatter * np.array(grid, float)[:, None, None] ** np.array(powers)
        laws[..., QUANTITIES.index(EXACT)] = 1e-33
        labels = {"setting": SMALL.settings, sweep: grid, "quantity": QUANTITIES}
        found[f"along_{sweep}"] = named(laws, "setting", sweep, "run", "quantity", **labels)
    return Data(found, lambda data: design.named_fits(SMALL, data))


def failing(data):
    return [claim for claim, check in judge.claims(SMALL, data).items() if not check.holds]


def test_what_theory_says_holds(data):
    assert not failing(data)


@pytest.mark.parametrize("sweep", SWEEPS)
def test_another_exponent_is_seen(data, sweep):
    laws = data[f"along_{sweep}"].values
    laws[0, ..., QUANTITIES.index("|f − Qf|², DA")] *= np.array(GRIDS[sweep], float)[:, None] ** 0.5
    (claim,) = failing(data)
    assert claim.startswith(f"sigmoid SGD, |f − Qf|², DA by {sweep}: slope in {sweep} between")


def test_ea_off_by_little_is_seen_whatever_the_unit(data):
    data.along_step.values[1, ..., QUANTITIES.index(EXACT)] = 1e-20
    (claim,) = failing(data)
    assert claim.startswith("EA is equivariant")


def test_runs_are_cut_into_equal_blocks():
    assert [rates._blocks(36, n) for n in (64, 512, 10**6)] == [1, 3, 36]


def test_batches_that_do_not_repeat_are_refused():
    with pytest.raises(ValueError, match="every batch divides the largest, 20"):
        Rates(batches=(3, 20))


@pytest.mark.slow
def test_parts_fit_together(rehearse):
    small = SMALL.model_dump() | {"settings": ("sigmoid SGD",)}
    found = rehearse(Rates, jax.random.key(0), **small).data()
    shapes = {name: array.shape for name, array in found.items()}
    assert shapes == {"along_n": (1, 3, 2, 8), "along_step": (1, 3, 4, 8), "along_batch": (1, 2, 4, 8)}
    assert found.along_n.sel(quantity=EXACT).max() < 1e-24
    assert found.along_n.sel(quantity="|f − Qf|², DA").min() > 1e-12
    same = found.along_batch.sel(batch=4).isel(run=slice(2))
    np.testing.assert_array_equal(found.along_n.sel(n=8), same)


def test_atoms_without_mass_and_repeated_rows_change_nothing():
    """A cloud of 4 among 8, on a batch of 2 repeated to 4, against the same 4 alone on the same 2."""
    key, unit = jax.random.key(3), Dense(2, 2, "sigmoid")
    teacher = Teacher(unit, published.teacher_cloud("weak"), 4, scale=4.0)
    atoms, weights = rates._starts(key, 1, 4, 8)["DA"]
    xs, ys = published.repeated(teacher, 2).batch(key)
    among = Risk(unit, Sample(xs, ys)).variation(Cloud(atoms[0], weights[0]))
    alone = Risk(unit, Sample(*(rows[:2] for rows in teacher.batch(key)))).variation(uniform(atoms[0, :4]))
    np.testing.assert_allclose(among.velocity[:4], alone.velocity, rtol=1e-12)


@pytest.mark.slow
def test_adam_keeps_ea_exact():
    found = SMALL.train(jax.random.key(0), "sigmoid Adam", 8, 0.02, 2)
    assert found.shape == (4, 8)
    assert found.sel(quantity=EXACT).max() < 1e-24
    assert found.sel(quantity="|f − Qf|², DA").min() > 1e-12


def test_the_panels_draw(data):
    assert all(style.render(panel, "salt").startswith("<svg") for panel in SMALL.panels(data))
