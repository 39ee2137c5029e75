"""The statements hold for finite and infinite groups, and planted faults are seen where they should be."""

import jax
import numpy as np
import pytest

from haarflow.experiments import groups
from haarflow.experiments.groups import Groups
from haarflow.practice.training import STATEMENTS

SMALL = {"atoms": 3, "samples": 3, "steps": 40, "circle": (16, 32, 64), "draws": 400}


@pytest.fixture
def few(monkeypatch):
    """One finite group beside the two infinite ones."""
    kept = {"S3": groups.finite_cases()["S3"]}
    monkeypatch.setattr(groups, "finite_cases", lambda: kept)


def judged(experiment):
    parts = ["S3", "SO(2)", "SO(3)", *groups.EXTRA]
    data = dict(experiment.gather({part: dict(experiment.run(jax.random.key(2), part)) for part in parts}))
    return data, {claim: check.holds for claim, check in experiment.verdict(data).items()}


@pytest.mark.slow
def test_the_claims_hold_and_draw_themselves(few):
    from matplotlib.figure import Figure

    experiment = Groups(**SMALL)
    data, verdicts = judged(experiment)
    assert all(verdicts.values()), [claim for claim, holds in verdicts.items() if not holds]
    assert np.isfinite(list(map(float, experiment.figures(data).values()))).all()
    for panel in experiment.panels(data):
        panel.draw(Figure())


def test_a_finite_group_meets_every_statement():
    found = Groups(**SMALL).run(jax.random.key(2), "S3")
    assert max(float(found[what]) for what in STATEMENTS) < 1e-12
    assert found["identities"].max() < 1e-12
    assert found["plain leaves"] > 1e-3


def test_rotations_average_alike_in_every_coset_unless_they_are_too_few():
    assert Groups(**SMALL).run(jax.random.key(2), "certificate SO(2)")["polynomial cosets"] < 1e-12
    few = Groups(**SMALL, fault="too few turns")
    assert few.run(jax.random.key(2), "certificate SO(2)")["polynomial cosets"] > 1e-4


@pytest.mark.slow
def test_lost_data_and_too_few_rotations_are_seen():
    lost = Groups(**SMALL, fault="unclosed data").run(jax.random.key(2), "S3")
    assert lost["free training keeps WI"] > 1e-4
    assert lost["closed data keep SI"] > 1e-4
    assert lost["DA, FA and EA agree"] < 1e-12
    turned = Groups(**SMALL, fault="too few turns").run(jax.random.key(2), "SO(3)")
    assert turned["DA, FA and EA agree"] > 1e-4
    assert turned["identities"].max() > 1e-4
