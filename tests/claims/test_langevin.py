"""Noisy descent samples its Gibbs law; with the printed noise or the printed decay its verdict is false."""

import jax
import numpy as np
import pytest

from haarflow.experiments.langevin import Langevin

KEY = jax.random.key(2)


@pytest.mark.parametrize("fault", ["none", "printed noise", "printed decay"])
def test_the_verdict_on_the_moments_sees_the_noise_and_the_decay(fault):
    """3% is four standard errors of 4000 particles, and a bias of dt: a false alarm in 1 of 10 000 keys."""
    experiment = Langevin(dt=0.02, cells=120, particles=4000, fault=fault)
    piece = experiment.moments(KEY)
    checks = list(experiment.moment_claims(piece["found"], piece["wanted"]).values())[1:]
    if fault == "none":
        assert all(check.value < 0.03 for check in checks)
    else:
        assert not any(check.holds for check in checks)
        assert all(check.value > 0.05 for check in checks)


@pytest.mark.slow
def test_the_law_keeps_its_sandwich_and_its_rate():
    experiment = Langevin(dt=0.04, cells=60)
    piece = experiment.law(KEY)
    rows = np.concatenate([piece["sandwich"], piece["drawn"]])
    assert (np.diff(rows, axis=1) < 1e-11).all()
    rate = experiment.late_rate({f"law/{name}": array for name, array in piece.items()})
    np.testing.assert_allclose(rate, 2 * piece["rate"], rtol=0.02)


@pytest.mark.slow
def test_every_verdict_holds_at_a_small_size(rehearse):
    rehearsal = rehearse(Langevin, KEY, sizes=(16, 128), repetitions=96, dt=0.02, cells=120, particles=20000)
    assert not rehearsal.lost()
    assert rehearsal.shown()
