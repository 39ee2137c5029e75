"""The published experiment, small: the protocol runs, its verdicts can hold, and a planted fault fails one."""

import jax
import numpy as np
import pytest

from haarflow.experiments import _published as published
from haarflow.experiments.weak_invariance import WeakInvariance, pairing_error
from haarflow.runs import design, judge
from haarflow.runs.experiment import named

SMALL = {"sizes": (5, 50), "repetitions": 3, "horizon": 8.0, "inputs": 200}


@pytest.fixture(scope="module")
def small(rehearse):
    return rehearse(WeakInvariance, jax.random.key(0), **SMALL)


def test_the_verdicts_follow_the_data(small):
    data = small.data()
    assert not any("EA" in claim or "pairing" in claim or "−0.1 and" in claim for claim in small.lost())
    assert data.asymmetry.dims == ("teacher", "n", "run", "scheme")
    assert data.asymmetry.shape == (2, 2, 3, 4)
    grown = data.asymmetry * named([1.0, 2.0], "n", n=(5, 50))
    claims = judge.claims(small.experiment, data.replaced(asymmetry=grown))
    assert not next(claim.holds for sentence, claim in claims.items() if "−0.1 and" in sentence)


@pytest.mark.slow
def test_distances_are_solved_for_the_first_repetitions_only():
    wide = WeakInvariance(sizes=(5, 6), repetitions=12, inputs=20)
    found = wide.train(jax.random.key(0), teacher="weak", n=5, run=range(12))
    assert found["asymmetry"].shape == (12, 4)
    assert found["rmd2"].shape == (10, 4, 2)


def test_every_number_and_picture_can_be_made(small):
    assert small.shown()


def test_parts_cover_every_run_once():
    seen = [part.cell for part in design.parts(WeakInvariance.full()).values() if part.cell.get("n") == 500]
    covered = [r for cell in seen if cell["teacher"] == "weak" for r in cell["run"]]
    assert sorted(covered) == list(range(10))


def test_orbits_stay_orbits_and_open_data_break_them(monkeypatch):
    assert pairing_error(jax.random.key(0), steps=500) < 1e-12
    monkeypatch.setattr("haarflow.experiments._published.orbit_closure", lambda sample, on_x, on_y: sample)
    assert pairing_error(jax.random.key(0), steps=500) > 1e-3


def test_the_published_teachers():
    weak = published.teacher_cloud("weak")
    assert weak.n == 10
    np.testing.assert_allclose(
        published.teacher_cloud("strong").project(published.ACTION).atoms[0],
        [0.5 / 2**0.5, 0, 0, 0.5 / 2**0.5],
    )
    np.testing.assert_allclose(published.PROJECTOR @ published._BASIS.T, published._BASIS.T, atol=1e-15)
