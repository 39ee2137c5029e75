"""Growth agrees with its closed forms in every discretisation, and each planted mistake is seen by its own claim."""

import jax
import numpy as np
import pytest

from haarflow.experiments.birth_death import BirthDeathDynamics
from haarflow.runs import judge

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
        found = BirthDeathDynamics(**SMALL, fault=fault).replicator(KEY)
        allowed = found["shares_slack"] + 4 * found["shares_error"]
        assert (np.abs(found["shares"] - found["shares_exact"]) < allowed).all() == holds
        assert (found["weights"] < 1e-12) == holds


@pytest.mark.slow
def test_re_injection_leaves_the_bad_start_and_clones_do_not():
    for fault, holds in (("none", True), ("no prior", False)):
        found = BirthDeathDynamics(**SMALL | {"horizon": 20.0}, fault=fault).mixture(KEY)["mixture"].isel(time=-1)
        assert (found.sel(scheme="re-injection").max() < found.sel(scheme="cloning").min() / 2) == holds


@pytest.fixture(scope="module")
def rehearsal(rehearse):
    return rehearse(BirthDeathDynamics, KEY, **SMALL)


@pytest.mark.slow
def test_the_closed_forms_hold_and_the_record_draws_itself(rehearsal):
    """The mixture and the students are too short here to be judged."""
    assert not [claim for claim in rehearsal.lost() if claim.startswith(CLOSED)]
    assert len(rehearsal.shown()) > 10
    claims = judge.claims(rehearsal.experiment, rehearsal.data())
    assert {claim[:22] for claim in claims if "birth–death over" in claim} == {
        "ReLU students at t = 4",
        "ReLU students at the e",
    }


@pytest.mark.slow
def test_half_the_growth_is_seen(rehearsal):
    lost = rehearsal.lost("half growth", ("gaussian", "replicator", "alone"))
    assert all(any(claim.startswith(seen) for claim in lost) for seen in CLOSED)
