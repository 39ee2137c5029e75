"""Fluctuations around the limit obey their equation, and each planted mistake is seen by its own claim."""

import jax
import numpy as np
import pytest

from haarflow.experiments.clt import TRAINING, Clt

KEY = jax.random.key(1)
SMALL = {"repetitions": 3000, "sizes": (400, 800, 3200), "draws": 3000}
SEEN = {
    "start level": {"quadratic units: the limit equation over the Monte-Carlo level"},
    "run average": {"quadratic units, n = 800: n E|f_n − f|² is within 10%"},
    "half noise": {"quadratic units, n = 800: n E|f_n − f|² is within 10%"},
}


def test_frozen_features_end_at_the_data_or_at_the_stated_constant():
    data = Clt(draws=2000, sizes=(400, 800)).frozen(KEY)
    bare, ridged = (data["frozen"].sel(training=training) for training in TRAINING)
    assert (bare.isel(time=-1) < 1e-6 * bare.max("time")).all()
    assert (np.abs(ridged.isel(time=-1) / data["constant"] - 1) < 0.1).all()


def test_equations_are_compared_at_a_width_that_is_there():
    with pytest.raises(ValueError, match="sizes have 400 and 800 among them"):
        Clt(sizes=(100, 800))


@pytest.mark.slow
def test_quadratic_units_deviate_as_stated_and_half_the_noise_is_seen():
    """2000 repetitions at two widths: 10% is four standard errors of the mean, and more."""
    small = {"repetitions": 2000, "sizes": (400, 800)}
    for fault, holds in (("none", True), ("half noise", False)):
        data = Clt(**small, fault=fault).quadratic(KEY)
        assert (np.abs(data["deviation"].sel(n=800) / data["equation"] - 1) < 0.1).all() == holds
    assert (data["level"] * (1 + 1e-9) > 2 * data["equation"]).all()


@pytest.fixture(scope="module")
def rehearsal(rehearse):
    return rehearse(Clt, KEY, **SMALL)


def test_the_claims_hold_and_the_record_draws_itself(rehearsal):
    assert not rehearsal.lost()
    assert rehearsal.shown()


@pytest.mark.parametrize("fault", SEEN)
def test_a_planted_mistake_is_seen(fault, rehearsal):
    lost = rehearsal.lost(fault, () if fault == "start level" else ("quadratic",))
    assert all(any(claim.startswith(seen) for claim in lost) for seen in SEEN[fault])
