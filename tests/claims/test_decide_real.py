"""decide recommends what is right, and the faults are seen."""

import jax
import pytest

from haarflow.experiments.decide_real import DecideReal

KEY = jax.random.key(2)


@pytest.mark.slow
def test_the_claims_hold_and_see_what_is_planted(rehearse):
    rehearsal = rehearse(DecideReal, KEY, runs=2, rows=200)
    assert not {claim for claim in rehearsal.lost() if "60 rows" not in claim}  # two runs are few for a rate of 0.8
    dealt = ["answers case=digits, turned", "answers case=sets of points"]
    assert len(rehearsal.lost("dealt labels", dealt)) >= 2
    turned = ["answers case=digits, the turn as label"]
    assert any(claim.startswith("digits, the turn") for claim in rehearsal.lost("kept turn", turned))
    assert rehearsal.shown()
