"""The exponents: their verdicts see planted ones, and one small part runs for every optimiser."""

import jax
import numpy as np
import pytest

from haarflow.experiments import rates
from haarflow.experiments.rates import LANES, PAIRS, SWEEPS, THEORY, Rates
from haarflow.runs import style

SMALL = Rates(settings=("sigmoid SGD", "relu SGD"), sizes=(8, 16), batches=(2, 4), batch=2, repetitions=4, inputs=20)


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
    assert [rates._blocks(48, n) for n in (64, 1024, 10**6)] == [1, 2, 48]


def test_adam_keeps_ea_exact_and_parts_fit_together():
    found = SMALL.train(jax.random.key(0), "sigmoid Adam", 8, 0.01, 2)
    assert {name: array.shape for name, array in found.items()} == {"asymmetry": (4, 5), "coupled": (4, 3)}
    assert found["asymmetry"][:, LANES.index("EA")].max() < 1e-24
    assert found["asymmetry"][:, LANES.index("DA")].min() > 1e-12
    pieces = {part: dict(found) for part in SMALL.parts() if "step" not in part}
    pieces |= {part: {k: np.stack([v] * 4, 1) for k, v in found.items()} for part in SMALL.parts() if "step" in part}
    assert {array.shape[1] for array in SMALL.gather(pieces).values()} == {2, 4}


def test_the_panels_draw(data):
    assert all(style.render(panel, "salt").startswith("<svg") for panel in SMALL.panels(data))
