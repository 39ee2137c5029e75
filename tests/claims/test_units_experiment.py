"""What survives depth survives, what is lost is lost, and every verdict sees what would spoil it."""

import jax
import numpy as np
import pytest

from haarflow.experiments.units import DEEP, KEPT, LINEAR, MODELS, STATEMENTS, Units
from haarflow.practice import training
from haarflow.runs import design, judge, style
from haarflow.runs.experiment import Data, named

KEY = jax.random.key(2)
SMALL = Units(atoms=3, samples=3, steps=30, sizes=(16, 32, 64), repetitions=6, horizon=3.0)


@pytest.fixture
def data():
    """What theory says a run finds, to be spoilt."""
    draw, deep = np.random.default_rng(0), MODELS.index(DEEP)
    failing = np.full((len(MODELS), len(STATEMENTS)), 1e-16)
    failing[deep, [STATEMENTS.index(what) for what in LINEAR]] = 0.1
    risk = draw.uniform(0.5, 1.0, (len(MODELS), 6, 3))
    raised = np.where(np.arange(len(MODELS)) == deep, 0.05, -0.05)[:, None, None]
    rates = {"risk": risk, "symmetrised": risk + raised}
    rates["asymmetry"] = draw.lognormal(0.0, 0.1, risk.shape) / np.array(SMALL.sizes)
    found = {name: named(array, "model", "run", "n", model=MODELS, n=SMALL.sizes) for name, array in rates.items()}
    found["failing"] = named(failing, "model", "statement", model=MODELS, statement=STATEMENTS)
    found["leaves"] = named(np.ones(len(MODELS)), "model", model=MODELS)
    return Data(found, lambda data: design.named_fits(SMALL, data))


def failing(data):
    return [claim for claim, check in judge.claims(SMALL, data).items() if not check.holds]


def test_what_theory_says_holds_and_draws_itself(data):
    assert not failing(data)
    assert len(judge.numbers(SMALL, data)) > 40
    assert all(style.render(panel, "salt").startswith("<svg") for panel in SMALL.panels(data))


@pytest.mark.parametrize(
    ("what", "model", "value", "claim"),
    [
        *((what, MODELS[1], 1e-9, "every model:") for what in (*KEPT, *training.STATEMENTS)),
        *((what, MODELS[1], 1e-9, "two-layer units:") for what in LINEAR),
        *((what, DEEP, 1e-9, "residual: lost is") for what in LINEAR),
        ("leaves", MODELS[1], 1e-9, "the test can fail"),
        ("symmetrised", MODELS[1], 2.0, "two-layer units: symmetrising never raises"),
        ("symmetrised", DEEP, 0.0, "residual: symmetrising a trained cloud can raise"),
        ("asymmetry", MODELS[1], 0.1, f"{MODELS[1]}: the mean of |f − Qf|²"),
    ],
)
def test_each_claim_sees_its_planted_fault(data, what, model, value, claim):
    if what in STATEMENTS:
        data.failing.values[MODELS.index(model), STATEMENTS.index(what)] = value
    else:
        data[what].values[MODELS.index(model)] = value
    (found,) = failing(data)
    assert found.startswith(claim)


@pytest.mark.slow
def test_the_claims_hold(rehearse):
    assert not rehearse(Units, KEY, sizes=(16, 64, 256)).lost()


def test_a_residual_network_keeps_invariance_and_loses_linearity():
    found = dict(SMALL.statements(KEY, DEEP)["failing"].each("statement"))
    assert all(found[what] < 1e-12 for what in (*KEPT, *training.STATEMENTS))
    assert all(found[what] > 1e-3 for what in LINEAR)


@pytest.mark.slow
def test_data_that_lost_an_image_are_seen():
    lost = SMALL.model_copy(update={"fault": "unclosed data"})
    found = dict(lost.statements(KEY, "two-layer, hidden still")["failing"].each("statement"))
    broken = {KEPT[1], KEPT[2], "free training keeps WI", "closed data keep SI"}
    assert all(found[what] < 1e-12 for what in STATEMENTS if what not in broken)
    assert all(found[what] > 1e-4 for what in broken)


def test_free_training_at_every_size_is_one_program():
    found = SMALL.rates(KEY, "two-layer, hidden still")
    shapes = {name: (array.dims, array.shape) for name, array in found.items()}
    assert shapes == dict.fromkeys(("asymmetry", "risk", "symmetrised"), (("run", "n"), (6, 3)))
    assert (found["symmetrised"] < found["risk"]).all()
    medians = found["asymmetry"].median("run")
    assert medians.sel(n=64) < medians.sel(n=16)
