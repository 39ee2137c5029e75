"""Re-injection leaves a bad start and clones do not; the students are judged at both times."""

import jax
import pytest

from haarflow.experiments.growth import Growth
from haarflow.runs import judge

KEY = jax.random.key(1)
SMALL = {"repetitions": 1, "horizon": 1.0, "d": 6, "units": 2, "width": 8, "lessons": 2, "lesson": 2.0}


@pytest.mark.slow
def test_re_injection_leaves_the_bad_start_and_clones_do_not():
    for fault, holds in (("none", True), ("no prior", False)):
        found = Growth(**SMALL | {"horizon": 20.0}, fault=fault).mixture(KEY)["mixture"].isel(time=-1)
        assert (found.sel(scheme="re-injection").max() < found.sel(scheme="cloning").min() / 2) == holds


@pytest.mark.slow
def test_the_record_draws_itself_and_judges_students_early_and_late(rehearse):
    """Both are too short here to hold."""
    rehearsal = rehearse(Growth, KEY, **SMALL)
    assert len(rehearsal.shown()) > 10
    claims = judge.claims(rehearsal.experiment, rehearsal.data())
    assert {claim[:22] for claim in claims if "birth–death over" in claim} == {
        "ReLU students at t = 4",
        "ReLU students at the e",
    }
