"""Noisy descent samples its Gibbs law; with the printed noise or the printed decay its verdict is false."""

import itertools

import jax
import numpy as np
import pytest

from haarflow.experiments.langevin import MOMENTS, Langevin
from haarflow.runs.experiment import Data, named

KEY = jax.random.key(2)


@pytest.mark.parametrize("fault", ["none", "printed noise", "printed decay"])
def test_the_verdict_on_the_moments_sees_the_noise_and_the_decay(fault):
    """3% is four standard errors of 4000 particles, and a bias of dt: a false alarm in 1 of 10 000 keys."""
    piece = Langevin(dt=0.02, cells=120, particles=4000, fault=fault).moments(KEY)
    wrong = abs(piece["found"] / piece["wanted"] - 1).sel(moment=("second moment", "variance"))
    assert (wrong < 0.03).all() if fault == "none" else (wrong > 0.05).all()


def test_the_verdicts_on_the_moments_have_a_bound_that_the_faults_exceed():
    found = named([1.0, 1.02, 0.97, 1.0], "moment", moment=MOMENTS)
    claims = Langevin().claims(Data({"found": found, "wanted": named(np.ones(4), "moment", moment=MOMENTS)}))
    assert [claim.holds for claim in itertools.islice(claims, 3)] == [True, False, False]


@pytest.mark.slow
def test_the_law_keeps_its_sandwich_and_its_rate():
    experiment = Langevin(dt=0.04, cells=60)
    piece = experiment.law(KEY)
    rows = np.concatenate([piece["sandwich"], piece["drawn"]])
    assert (np.diff(rows, axis=1) < 1e-11).all()
    np.testing.assert_allclose(experiment.late_rate(Data(piece)), 2 * piece["rate"], rtol=0.02)


@pytest.mark.slow
def test_every_verdict_holds_at_a_small_size(rehearse):
    rehearsal = rehearse(Langevin, KEY, sizes=(16, 128), repetitions=96, dt=0.02, cells=120, particles=20000)
    assert not rehearsal.lost()
    assert rehearsal.shown()
