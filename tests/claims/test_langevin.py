"""Noisy descent samples its Gibbs law; with the printed noise or the printed decay its verdict is false."""

import jax
import numpy as np
import pytest

from haarflow.experiments._langevin import COLD, cold, refinement
from haarflow.experiments.langevin import Langevin

KEY = jax.random.key(2)


@pytest.fixture(scope="module")
def rest():
    """Everything but the particles that carry the fault."""
    experiment = Langevin(sizes=(16, 128), repetitions=96, dt=0.02, cells=120)
    pieces = {part: dict(experiment.run(KEY, part)) for part in experiment.parts() if part != "particles"}
    return {**pieces, "particles": dict(Langevin(particles=200, dt=0.02, cells=120).run(KEY, "particles"))}


def test_all_but_the_moments_of_few_particles_holds(rest):
    from matplotlib.figure import Figure

    experiment = Langevin(sizes=(16, 128), repetitions=96, dt=0.02, cells=120, particles=200)
    data = dict(experiment.gather(dict(rest)))
    for claim, check in experiment.verdict(data).items():
        assert check.holds or claim.startswith("particles have"), (claim, check.value)
    for panel in experiment.panels(data):
        panel.draw(Figure())


@pytest.mark.parametrize("fault", ["none", "printed noise", "printed decay"])
def test_the_moments_see_the_noise_and_the_decay(fault):
    """Four standard errors of 4000 particles: a false alarm in 1 of 10 000 keys, and the key is fixed."""
    piece = Langevin(particles=4000, dt=0.02, cells=120, fault=fault).moments(KEY)
    wrong = np.abs(piece["found"] / piece["wanted"] - 1)[1:3]
    assert (wrong < 0.07).all() == (fault == "none")


def test_closed_forms_of_the_small_parts():
    np.testing.assert_allclose(cold(1)["gaps"], np.array(COLD) / 2, rtol=0.05)
    assert refinement(1)["mass"] < 1e-12
