"""Growth agrees with its closed forms in every discretisation, and each planted mistake is seen by its own verdict."""

import jax
import pytest

from haarflow.experiments.birth_death import BirthDeathDynamics, replicator_excess

KEY = jax.random.key(1)
SMALL = {
    "particles": 500,
    "repetitions": 1,
    "horizon": 1.0,
    "d": 6,
    "units": 2,
    "width": 8,
    "lessons": 2,
    "lesson": 2.0,
}
CLOSED = ("Gaussian", "replicator", "growth alone")


@pytest.mark.slow
def test_the_replicator_holds_and_a_rate_a_tenth_too_high_is_seen():
    for fault, holds in (("none", True), ("fast growth", False)):
        found = BirthDeathDynamics(**SMALL, fault=fault).run(KEY, "replicator")
        score = replicator_excess({f"replicator/{name}": array for name, array in found.items()}).max()
        assert (score < 4) == holds
        assert (found["weights"] < 1e-12) == holds


@pytest.fixture(scope="module")
def rehearsal(rehearse):
    return rehearse(BirthDeathDynamics, KEY, **SMALL)


@pytest.mark.slow
def test_the_closed_forms_hold_and_the_record_draws_itself(rehearsal):
    """The mixture and the students are too short here to be judged."""
    assert not [claim for claim in rehearsal.lost() if claim.startswith(CLOSED)]
    assert len(rehearsal.shown()) > 10
    claims = rehearsal.experiment.verdict(rehearsal.data())
    assert {claim[:22] for claim in claims if "birth–death is" in claim} == {
        "ReLU students at t = 4",
        "ReLU students at the e",
    }


@pytest.mark.slow
def test_half_the_growth_is_seen(rehearsal):
    lost = rehearsal.lost("half growth", ("Gaussian", "replicator", "rate"))
    assert all(any(claim.startswith(seen) for claim in lost) for seen in CLOSED)
