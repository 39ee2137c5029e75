"""What survives depth survives, what is lost is lost, and every verdict sees what would spoil it."""

import jax
import numpy as np
import pytest

from haarflow.experiments.units import KEPT, LINEAR, MODELS, Units
from haarflow.practice.training import STATEMENTS
from haarflow.runs import style

SMALL = {"atoms": 3, "samples": 3, "steps": 30, "sizes": (16, 32, 64), "repetitions": 6, "horizon": 3.0}


@pytest.fixture
def data():
    """What theory says a run finds, to be spoilt."""
    draw, experiment = np.random.default_rng(0), Units(**SMALL)
    found = {what: np.full(len(MODELS), 1e-16) for what in (*KEPT, *STATEMENTS)}
    found |= {what: np.array([1e-16] * (len(MODELS) - 1) + [0.1]) for what in LINEAR}
    risk = draw.uniform(0.5, 1.0, (len(MODELS), 6, 3))
    raised = np.where(np.arange(len(MODELS)) == len(MODELS) - 1, 0.05, -0.05)[:, None, None]
    asymmetry = draw.lognormal(0.0, 0.1, risk.shape) / np.array(experiment.sizes)
    found |= {"plain leaves": np.ones(len(MODELS)), "risk": risk, "symmetrised": risk + raised, "asymmetry": asymmetry}
    return found


def failing(data):
    return [claim for claim, check in Units(**SMALL).verdict(data).items() if not check.holds]


def test_what_theory_says_holds_and_draws_itself(data):
    assert not failing(data)
    assert len(Units(**SMALL).figures(data)) > 40
    assert all(style.render(panel, "salt").startswith("<svg") for panel in Units(**SMALL).panels(data))


@pytest.mark.parametrize(
    ("what", "where", "value", "claim"),
    [
        *((what, 0, 1e-9, "every model:") for what in (*KEPT, *STATEMENTS)),
        *((what, 0, 1e-9, "two-layer units:") for what in LINEAR),
        *((what, -1, 1e-9, "residual: lost is") for what in LINEAR),
        ("plain leaves", 1, 1e-9, "the test can fail"),
        ("symmetrised", 0, 2.0, "two-layer units: symmetrising never raises"),
        ("symmetrised", -1, 0.0, "residual: symmetrising a trained cloud can raise"),
        ("asymmetry", 1, 0.1, "two-layer, hidden permuted: |f − Qf|²"),
    ],
)
def test_each_claim_sees_its_planted_fault(data, what, where, value, claim):
    data[what][where] = value
    (found,) = failing(data)
    assert found.startswith(claim)


@pytest.mark.slow
def test_the_claims_hold():
    experiment = Units(sizes=(16, 64, 256))
    pieces = {part: experiment.run(jax.random.key(2), part) for part in experiment.parts()}
    verdicts = experiment.verdict(dict(experiment.gather(pieces)))
    assert all(check.holds for check in verdicts.values()), verdicts


def test_a_residual_network_keeps_invariance_and_loses_linearity():
    found = Units(**SMALL).run(jax.random.key(2), "statements, residual")
    assert all(float(found[what]) < 1e-12 for what in (*KEPT, *STATEMENTS))
    assert all(float(found[what]) > 1e-3 for what in LINEAR)


def test_data_that_lost_an_image_are_seen():
    found = Units(**SMALL, fault="unclosed data").run(jax.random.key(2), "statements, two-layer, hidden still")
    broken = {KEPT[1], KEPT[2], STATEMENTS[0], STATEMENTS[1]}
    assert all(float(found[what]) < 1e-12 for what in (*KEPT, *STATEMENTS, *LINEAR) if what not in broken)
    assert all(float(found[what]) > 1e-4 for what in broken)


def test_free_training_at_every_size_is_one_program():
    found = Units(**SMALL).run(jax.random.key(2), "rates, two-layer, hidden still")
    assert {name: array.shape for name, array in found.items()} == dict.fromkeys(
        ("asymmetry", "risk", "symmetrised"), (6, 3)
    )
    assert (found["symmetrised"] < found["risk"]).all()
    assert np.median(found["asymmetry"][:, 2]) < np.median(found["asymmetry"][:, 0])
