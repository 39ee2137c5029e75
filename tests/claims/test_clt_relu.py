"""Students deviate by less than fresh draws from their limit would, and starts of another law are seen."""

import jax
import pytest

from haarflow.experiments.clt_relu import CltRelu

SMALL = {"widths": (8, 16), "pairs": 16, "runs": 8, "d": 4, "dt": 0.25, "horizon": 5.0}


@pytest.fixture(scope="module")
def rehearsal(rehearse):
    return rehearse(CltRelu, jax.random.key(1), **SMALL)


@pytest.mark.slow
def test_the_claims_hold_and_the_record_draws_itself(rehearsal):
    assert not rehearsal.lost()
    assert rehearsal.shown()


@pytest.mark.slow
def test_students_that_start_too_loud_are_seen(rehearsal):
    lost = rehearsal.lost("loud start", ("students",))
    assert any("over the Monte-Carlo level" in claim for claim in lost)
