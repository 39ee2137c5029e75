"""The exponents: their verdicts see planted ones, and one small part runs for every optimiser."""

import jax
import numpy as np
import pytest

from haarflow.experiments import _published as published
from haarflow.experiments import rates
from haarflow.experiments.rates import LANES, PAIRS, SWEEPS, THEORY, Rates
from haarflow.learning.data import Sample, Teacher
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.units import Dense
from haarflow.runs import style

SMALL = Rates(
    settings=("sigmoid SGD", "relu SGD"),
    sizes=(4, 8, 16),
    particles=8,
    batches=(2, 4),
    batch=4,
    repetitions=4,
    inputs=20,
)


@pytest.fixture
def data():
    """What theory says a run finds, to be spoilt: power laws times a number for each repetition."""
    draw, found = np.random.default_rng(0), {}
    for setting in SMALL.settings:
        for sweep in SWEEPS:
            grid = SMALL._grid(setting, sweep)

            def law(name, grid=grid, sweep=sweep):
                return draw.lognormal(0.0, 0.1, (4, 1)) * grid ** THEORY.get((name, sweep), 0.5)

            found[f"{setting}/{sweep}/asymmetry"] = np.stack([law(rates.ASYMMETRY[lane]) for lane in LANES], -1)
            found[f"{setting}/{sweep}/asymmetry"][..., LANES.index("EA")] = 1e-33
            found[f"{setting}/{sweep}/coupled"] = np.stack([law(rates.COUPLED[pair]) for pair in PAIRS], -1)
    return found


def failing(data):
    return [claim for claim, check in SMALL.verdict(data).items() if not check.holds]


def test_what_theory_says_holds(data):
    assert not failing(data)


@pytest.mark.parametrize("sweep", SWEEPS)
def test_another_exponent_is_seen(data, sweep):
    grid = SMALL._grid("sigmoid SGD", sweep)
    data[f"sigmoid SGD/{sweep}/asymmetry"][..., LANES.index("DA")] *= grid**0.5
    (claim,) = failing(data)
    assert claim.startswith(f"sigmoid SGD, |f − Qf|², DA: exponent in {sweep}")


def test_ea_off_by_little_is_seen_whatever_the_unit(data):
    data["relu SGD/step/asymmetry"][..., LANES.index("EA")] = 1e-20
    (claim,) = failing(data)
    assert claim.startswith("EA is equivariant")


def test_runs_are_cut_into_equal_blocks():
    assert [rates._blocks(36, n) for n in (64, 512, 10**6)] == [1, 3, 36]


def test_batches_that_do_not_repeat_are_refused():
    with pytest.raises(ValueError, match="every batch divides the largest, 20"):
        Rates(batches=(3, 20))


@pytest.fixture(scope="module")
def pieces():
    """One setting through all its parts, the other by copy."""
    key = jax.random.key(0)
    found = {part: SMALL.run(key, part) for part in SMALL.parts() if part.startswith("sigmoid")}
    return found | {part.replace("sigmoid", "relu"): piece for part, piece in found.items()}


def test_parts_fit_together(pieces):
    found = SMALL.gather(pieces)
    shapes = {name.split("/")[1]: array.shape[:2] for name, array in found.items()}
    assert shapes == {"N": (2, 3), "step": (4, 3), "batch": (4, 2)}
    assert found["sigmoid SGD/N/asymmetry"][..., LANES.index("EA")].max() < 1e-24
    assert found["sigmoid SGD/N/asymmetry"][..., LANES.index("DA")].min() > 1e-12
    np.testing.assert_array_equal(found["sigmoid SGD/N/coupled"][:, 1], found["sigmoid SGD/batch/coupled"][:2, 1])


def test_atoms_without_mass_and_repeated_rows_change_nothing():
    """A cloud of 4 among 8, on a batch of 2 repeated to 4, against the same 4 alone on the same 2."""
    key, unit = jax.random.key(3), Dense(2, 2, "sigmoid")
    teacher = Teacher(unit, published.teacher_cloud("weak"), 4, scale=4.0)
    atoms, weights = rates._starts(key, 1, 4, 8)["DA"]
    xs, ys = published.repeated(teacher, 2).batch(key)
    among = Risk(unit, Sample(xs, ys)).variation(Cloud(atoms[0], weights[0]))
    alone = Risk(unit, Sample(*(rows[:2] for rows in teacher.batch(key)))).variation(uniform(atoms[0, :4]))
    np.testing.assert_allclose(among.velocity[:4], alone.velocity, rtol=1e-12)


def test_adam_keeps_ea_exact():
    found = SMALL.train(jax.random.key(0), "sigmoid Adam", 8, 0.02, 2)
    assert {name: array.shape for name, array in found.items()} == {"asymmetry": (4, 5), "coupled": (4, 3)}
    assert found["asymmetry"][:, LANES.index("EA")].max() < 1e-24
    assert found["asymmetry"][:, LANES.index("DA")].min() > 1e-12


def test_the_panels_draw(data):
    assert all(style.render(panel, "salt").startswith("<svg") for panel in SMALL.panels(data))
