"""Growth agrees with its closed forms in every discretisation, and each planted mistake is seen by its own claim."""

import jax
import numpy as np
import pytest

from haarflow.experiments.birth_death import BirthDeathDynamics

KEY = jax.random.key(1)
CLOSED = ("Gaussian", "replicator", "growth alone")


@pytest.mark.slow
def test_the_replicator_holds_and_a_rate_a_tenth_too_high_is_seen():
    for fault, holds in (("none", True), ("fast growth", False)):
        found = BirthDeathDynamics(particles=500, fault=fault).replicator(KEY)
        allowed = found["shares_slack"] + 4 * found["shares_error"]
        assert (np.abs(found["shares"] - found["shares_exact"]) < allowed).all() == holds
        assert (found["weights"] < 1e-12) == holds


@pytest.fixture(scope="module")
def rehearsal(rehearse):
    return rehearse(BirthDeathDynamics, KEY, particles=500)


@pytest.mark.slow
def test_the_closed_forms_hold_and_the_record_draws_itself(rehearsal):
    assert not rehearsal.lost()
    assert rehearsal.shown()


@pytest.mark.slow
def test_half_the_growth_is_seen(rehearsal):
    lost = rehearsal.lost("half growth", ("gaussian", "replicator", "alone"))
    assert all(any(claim.startswith(seen) for claim in lost) for seen in CLOSED)
