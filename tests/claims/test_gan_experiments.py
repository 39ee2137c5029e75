"""The experiments with GANs at the smallest size, and the faults that their claims see."""

import jax
import pytest

from haarflow.experiments.gan_digits import GanDigits
from haarflow.experiments.gan_toy import GanToy

KEY = jax.random.key(2)


@pytest.mark.slow
def test_the_claims_about_modes_see_what_is_planted(rehearse):
    rehearsal = rehearse(GanToy, KEY, steps=3000, runs=2)
    kept = rehearsal.lost()
    exact = {"both: quadrant error", "generator: quadrant error", "one mode against four", "both: largest violation"}
    assert not [claim for claim in kept if claim.startswith(tuple(exact))]
    for fault in ("fixed turns", "turned truth"):
        lost = rehearsal.lost(fault, ["train row=both", "train row=generator"])
        assert lost - kept, fault
    assert rehearsal.shown()


@pytest.mark.slow
def test_the_claims_about_digits_see_what_is_planted(rehearse):
    rehearsal = rehearse(GanDigits, KEY, rows=("plain", "both"), shares=(0.1,), runs=1, steps=50)
    assert not [claim for claim in rehearsal.lost() if "violation" in claim or "memorisation" in claim]
    lost = rehearsal.lost("copies", ["train share=0.1, row=both, run=0-0"])
    assert any("memorisation" in claim for claim in lost)
    assert rehearsal.shown()
