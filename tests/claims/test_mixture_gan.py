"""Two clouds come to make every mode, and the faults are seen."""

import jax

from haarflow.experiments.mixture_gan import MODES, MixtureGan

KEY = jax.random.key(2)


def test_the_claims_hold_and_see_what_is_planted(rehearse):
    rehearsal = rehearse(MixtureGan, KEY, runs=1, horizon=300.0)
    assert not rehearsal.lost()
    for fault in ("still discriminators", "turned data"):
        lost = rehearsal.lost(fault, ["train way=both"])
        assert any(claim.startswith("both: modes covered") and str(MODES) in claim for claim in lost), fault
    assert rehearsal.shown()
