"""The published experiment, small: the protocol runs, its verdicts can hold, and a planted fault fails one."""

import jax
import numpy as np
import pytest

from haarflow.experiments import _published as published
from haarflow.experiments.weak_invariance import WeakInvariance, pairing_error

SMALL = WeakInvariance(sizes=(5, 50, 100), repetitions=4, horizon=20.0, inputs=200)


@pytest.fixture(scope="module")
def data():
    return SMALL.gather({part: SMALL.run(jax.random.key(0), part) for part in SMALL.parts()})


def test_the_verdicts_follow_the_data(data):
    claims = SMALL.verdict(data)
    assert all(check.holds for name, check in claims.items() if "EA" in name or "pairing" in name or "flat" in name)
    assert data["weak/asymmetry"].shape == (4, 3, 4)
    spoiled = {
        **data,
        "arbitrary/asymmetry": data["arbitrary/asymmetry"] * np.array([1.0, 1.5, 2.0])[None, :, None],
    }
    flat = next(name for name in claims if "flat" in name)
    assert not SMALL.verdict(spoiled)[flat].holds


def test_distances_are_solved_for_the_first_repetitions_only():
    wide = WeakInvariance(sizes=(5, 6), repetitions=12, inputs=20)
    found = wide.run(jax.random.key(0), "weak N=5 runs 0-11")
    assert found["asymmetry"].shape == (12, 4)
    assert found["rmd2"].shape == (10, 4, 2)


def test_every_number_and_picture_can_be_made(data):
    from matplotlib.figure import Figure

    assert all(np.isfinite(value) for value in SMALL.figures(data).values())
    for panel in SMALL.panels(data):
        panel.draw(Figure())


def test_parts_cover_every_run_once():
    seen = [part for part in WeakInvariance.full().parts() if part.startswith("weak N=500 ")]
    covered = [r for part in seen for r in _span(part)]
    assert sorted(covered) == list(range(10))


def _span(part):
    first, last = map(int, part.split()[-1].split("-"))
    return range(first, last + 1)


def test_orbits_stay_orbits_and_open_data_break_them(monkeypatch):
    assert pairing_error(jax.random.key(0), steps=500) < 1e-12
    monkeypatch.setattr("haarflow.experiments.weak_invariance.close", lambda sample, on_x, on_y: sample)
    assert pairing_error(jax.random.key(0), steps=500) > 1e-3


def test_the_published_teachers():
    weak = published.teacher_cloud("weak")
    assert weak.n == 10
    np.testing.assert_allclose(
        published.teacher_cloud("strong").project(published.ACTION).atoms[0],
        [0.5 / 2**0.5, 0, 0, 0.5 / 2**0.5],
    )
    np.testing.assert_allclose(published.PROJECTOR @ published._BASIS.T, published._BASIS.T, atol=1e-15)
